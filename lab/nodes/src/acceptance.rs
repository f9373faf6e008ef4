//! What calls between nodes are to reach, and what a run has found.

use m3ipc_report::text::{Table, or_dash, time};

use crate::supervisor::{Row, RowName};

/// The floor of all ratios.
const FLOOR: &str = "tcp";
/// gRPC as programs use it.
const GRPC: &str = "tonic-call-tls";

/// A bound of a figure.
#[derive(Clone, Copy)]
enum Bound {
    Most(f64),
    Least(f64),
}

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Unit {
    Ratio,
    Time,
}

/// A promise: its words, its bound, its figure.
type Promise = (String, Bound, Unit, Option<f64>);

/// The table of all promises; empty if the run has no row of m3ipc itself.
pub fn text(engines: &[String], rows: &[Row]) -> String {
    let mut text = String::new();
    for engine in engines.iter().filter(|it| it.starts_with("ipc2")) {
        let mut table = Table::new(&["promise", "", "figure", "bound", "verdict"]);
        for (words, bound, unit, figure) in promises(engine, rows) {
            let shown = |value: f64| match unit {
                Unit::Ratio => format!("{value:.2} x"),
                Unit::Time => time(value),
            };
            let (limit, holds) = match bound {
                Bound::Most(most) => {
                    (format!("at most {}", shown(most)), figure.map(|it| it <= most))
                }
                Bound::Least(least) => {
                    (format!("at least {}", shown(least)), figure.map(|it| it >= least))
                }
            };
            let verdict = match holds {
                Some(true) => "holds",
                Some(false) => "falls short",
                None => "not measured",
            };
            table.row(vec![words, String::new(), or_dash(figure, shown), limit, verdict.into()]);
        }
        text.push_str(&format!("\n{engine}\n{}", table.text()));
    }
    text
}

fn promises(engine: &str, rows: &[Row]) -> Vec<Promise> {
    let found = |of: &str, name| rows.iter().find(|it| it.engine == of && it.row == name);
    let median = |of: &str, name, figure: fn(&crate::client::Figures) -> f64| {
        found(of, name).and_then(|row| row.median(figure))
    };
    let most = |name| {
        let row = found(engine, name).filter(|row| !row.rounds.is_empty());
        row.map(|row| row.most(|it| it.max_ns) as f64)
    };
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other.filter(|it| *it > 0.0)?);
    let hot = |of| median(of, RowName::Hot, |it| it.p50_ns as f64);
    let copy = |of| median(of, RowName::Copy, |it| it.per_s);
    let p99 = |name| median(engine, name, |it| it.p99_ns as f64);
    let many = median(engine, RowName::Many, |it| it.per_s);
    let one = median(engine, RowName::Hot, |it| it.per_s);
    let local = median(engine, RowName::Local, |it| it.p50_ns as f64);
    let alone = median(engine, RowName::Local, |it| it.calm_max_ns as f64);
    let promise = |words: &str, bound, unit, figure| (words.to_owned(), bound, unit, figure);
    let mut all = vec![promise(
        "hot round trip, of TCP's",
        Bound::Most(3.0),
        Unit::Ratio,
        ratio(hot(engine), hot(FLOOR)),
    )];
    if engine.ends_with("tls") {
        let figure = ratio(hot(engine), hot(GRPC));
        all.push(promise("hot round trip, of gRPC's", Bound::Most(0.7), Unit::Ratio, figure));
    }
    all.extend([
        promise(
            "64 clients, of the rate of one",
            Bound::Least(10.0),
            Unit::Ratio,
            ratio(many, one),
        ),
        promise(
            "copies of 4 MB, of TCP's rate",
            Bound::Least(0.7),
            Unit::Ratio,
            ratio(copy(engine), copy(FLOOR)),
        ),
        promise(
            "p99 of one message a ms beside copies, of its own",
            Bound::Most(3.0),
            Unit::Ratio,
            ratio(p99(RowName::PacedCopy), p99(RowName::Paced)),
        ),
        promise(
            "local calls with a proxy, of those without",
            Bound::Most(1.02),
            Unit::Ratio,
            ratio(local, alone),
        ),
        promise(
            "kill -9 of the server to the caller's error",
            Bound::Most(5e6),
            Unit::Time,
            most(RowName::Death),
        ),
        promise(
            "closed connection to the caller's error",
            Bound::Most(1e8),
            Unit::Time,
            most(RowName::Closed),
        ),
        promise(
            "silence to the caller's error",
            Bound::Most(3e9),
            Unit::Time,
            most(RowName::Silence),
        ),
    ]);
    all
}
