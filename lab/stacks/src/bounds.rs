//! What is promised of these rows.

use crate::supervisor::{MANY, Medians};

/// A figure, and whether it must be at most or at least the bound.
struct Bound {
    what: &'static str,
    figure: Option<f64>,
    at_most: bool,
    bound: f64,
    unit: &'static str,
}

/// Prints the bounds whose rows were measured; `true` where all of them hold.
pub fn print(medians: &Medians) -> bool {
    let p50 = |name| medians.of((name, 1), |it| it.p50_ns);
    let rate = |name, in_flight| medians.of((name, in_flight), |it| it.per_s);
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let bounds = [
        Bound {
            what: "typed call of 100 bytes, a plain record / IPC2",
            figure: ratio(p50("record"), p50("ipc2")),
            at_most: true,
            bound: 2.0,
            unit: "x",
        },
        Bound {
            what: "typed call of 100 bytes, postcard / IPC2",
            figure: ratio(p50("call"), p50("ipc2")),
            at_most: true,
            bound: 2.0,
            unit: "x",
        },
        Bound {
            what: "rate of typed calls on tokio, 64 / 1 in flight",
            figure: ratio(rate("calls", MANY), rate("calls", 1)),
            at_most: false,
            bound: 3.0,
            unit: "x",
        },
        Bound {
            what: "hand-over of 100 MB, one way",
            figure: p50("block").map(|ns| ns / 1000.0),
            at_most: true,
            bound: 10.0,
            unit: "us",
        },
        Bound {
            what: "gRPC call, com-socket / Unix socket",
            figure: ratio(p50("grpc-com"), p50("grpc-unix")),
            at_most: true,
            bound: 0.5,
            unit: "x",
        },
        Bound {
            what: "rate of gRPC calls, 64 in flight, com-socket / Unix socket",
            figure: ratio(rate("grpc-com", MANY), rate("grpc-unix", MANY)),
            at_most: false,
            bound: 2.0,
            unit: "x",
        },
    ];
    let mut all = true;
    println!();
    for Bound { what, figure, at_most, bound, unit } in bounds {
        let Some(figure) = figure else { continue };
        let holds = if at_most { figure <= bound } else { figure >= bound };
        all &= holds;
        let sign = if at_most { "<=" } else { ">=" };
        let result = if holds { "holds" } else { "FALLS SHORT" };
        println!("{what}: {figure:.2} {unit} (bound {sign} {bound} {unit}): {result}");
    }
    all
}
