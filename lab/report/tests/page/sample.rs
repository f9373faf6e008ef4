//! A fixed run with rows of every kind.

use serde_json::{Value, json};

const KERNEL: [(&str, f64); 8] = [
    ("pipe", 13_200.0),
    ("fifo", 13_900.0),
    ("unix-stream", 15_100.0),
    ("unix-seqpacket", 16_800.0),
    ("tcp", 22_100.0),
    ("posix-mq", 13_400.0),
    ("sysv-mq", 14_400.0),
    ("eventfd", 12_600.0),
];

/// The run as JSON.
pub fn run() -> Value {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut samples = vec![];
    let mut add = |test: &str,
                   name: &str,
                   family: &str,
                   placement: &str,
                   wait: &str,
                   size: (usize, u32),
                   ns: f64| {
        samples.push(row(&mut rng, [test, name, family, placement, wait], size, ns));
    };
    for (placement, scale) in [("two-cpus", 1.0), ("same-cpu", 0.3)] {
        for test in ["ipc1", "ipc2", "ipc3"] {
            let bytes = if test == "ipc3" { 1 } else { 48 };
            for (wait, ns) in [("spin", 480.0), ("adaptive", 520.0), ("block", 14_100.0)] {
                add(test, "m3ipc", "ours", placement, wait, (bytes, 1), ns * scale);
            }
            add(test, "bounce", "floor", placement, "spin", (bytes, 1), 410.0 * scale);
            KERNEL.iter().for_each(|(name, ns)| {
                add(test, name, "kernel", placement, "block", (bytes, 1), ns * scale)
            });
        }
    }
    add("ipc2-paced", "m3ipc", "ours", "two-cpus", "adaptive", (48, 1), 21_000.0);
    add("ipc2-paced", "futex-wake", "floor", "two-cpus", "block", (48, 1), 20_000.0);
    KERNEL.iter().for_each(|(name, ns)| {
        add("ipc2-paced", name, "kernel", "two-cpus", "block", (48, 1), ns * 2.0)
    });
    for pairs in [1, 2, 4, 8, 16, 32] {
        add("pairs", "m3ipc", "ours", "any", "adaptive", (48, pairs), 900.0 * f64::from(pairs));
        KERNEL.iter().for_each(|(name, ns)| {
            add("pairs", name, "kernel", "any", "block", (48, pairs), ns * f64::from(pairs))
        });
    }
    for clients in [1, 10, 100, 1_000] {
        add(
            "clients",
            "m3ipc",
            "ours",
            "two-cpus",
            "adaptive",
            (48, clients),
            530.0 + f64::from(clients) / 10.0,
        );
    }
    for bytes in [64, 4_096, 65_536, 1 << 20, 16 << 20] {
        let each = bytes as f64;
        for test in ["copy1", "copy2", "stream"] {
            add(test, "vcopy", "ours", "two-cpus", "spin", (bytes, 1), 700.0 + each / 8.0);
            add(test, "memcpy", "floor", "any", "spin", (bytes, 1), 10.0 + each / 16.0);
            add(test, "pipe", "kernel", "two-cpus", "block", (bytes, 1), 13_000.0 + each / 2.0);
            add(
                test,
                "unix-stream",
                "kernel",
                "two-cpus",
                "block",
                (bytes, 1),
                15_000.0 + each / 3.0,
            );
        }
        add("handover", "block", "ours", "two-cpus", "spin", (bytes, 1), 900.0);
        add("handover", "sendrec", "floor", "two-cpus", "spin", (bytes, 1), 500.0);
        add(
            "attach",
            "area",
            "ours",
            "two-cpus",
            "spin",
            (bytes, 1),
            9_000.0 + each / 4_096.0 * 6.0,
        );
        add(
            "attach",
            "file",
            "kernel",
            "two-cpus",
            "spin",
            (bytes, 1),
            5_000.0 + each / 4_096.0 * 120.0,
        );
    }
    for bytes in [1, 4_096, 65_536, 512 << 10] {
        let each = bytes as f64;
        add(
            "sock-stream",
            "com-socket",
            "ours",
            "two-cpus",
            "adaptive",
            (bytes, 1),
            300.0 + each / 8.0,
        );
        add(
            "sock-stream",
            "unix-stream",
            "kernel",
            "two-cpus",
            "block",
            (bytes, 1),
            1_600.0 + each / 3.0,
        );
        add("sock-stream", "memcpy", "floor", "any", "spin", (bytes, 1), 4.0 + each / 30.0);
        add(
            "sock-trip",
            "com-socket",
            "ours",
            "two-cpus",
            "adaptive",
            (bytes, 1),
            960.0 + each / 4.0,
        );
        add("sock-trip", "tcp", "kernel", "two-cpus", "block", (bytes, 1), 80_000.0 + each);
    }
    add("sock-trip", "ipc2", "floor", "two-cpus", "adaptive", (48, 1), 500.0);
    for connections in [1, 64, 1_000] {
        add("sock-epoll", "com-socket", "ours", "two-cpus", "block", (48, connections), 29_000.0);
        add(
            "sock-epoll",
            "unix-stream",
            "kernel",
            "two-cpus",
            "block",
            (48, connections),
            56_000.0,
        );
    }
    for (test, scale) in [("sock-connect", 1.0), ("sock-first", 8.0)] {
        add(test, "com-socket", "ours", "two-cpus", "adaptive", (1, 1), 9_000.0 * scale);
        add(test, "unix-stream", "kernel", "two-cpus", "block", (1, 1), 8_000.0 * scale);
        add(test, "tcp", "kernel", "two-cpus", "block", (1, 1), 33_000.0 * scale);
    }
    add("death", "m3ipc", "ours", "two-cpus", "adaptive", (48, 1), 250_000.0);
    add("death", "unix-stream", "kernel", "two-cpus", "block", (48, 1), 290_000.0);
    add("restart", "m3ipc", "ours", "two-cpus", "adaptive", (48, 1), 9_000_000.0);
    add("restart", "unix-stream", "kernel", "two-cpus", "block", (48, 1), 8_000_000.0);
    add("ipc2", "iceoryx2", "peer", "two-cpus", "spin", (48, 1), 300.0);
    add("ipc2", "zeromq", "peer", "two-cpus", "block", (48, 1), 60_000.0);
    json!({
        "libraries": [["iceoryx2", "0.10.0"], ["zeromq", "4.3.4"]],
        "machine": {
            "cpu": "a CPU of a test", "cpus": 2, "placed_on": [0, 1], "kernel": "Linux 6.18",
            "virtual": true, "governor": null, "mitigations": ["meltdown: PTI"],
            "clocksource": "tsc", "clock": "counter", "loadavg_start": "0.10 0.10 0.10",
            "loadavg_end": "1.00 0.50 0.20"
        },
        "run": {
            "command": "m3 bench report --quick", "version": "0.1.0",
            "began_s": 1_795_271_400_u64, "ended_s": 1_795_271_520_u64, "resumed": 0
        },
        "steps": [{"title": "a step", "seconds": 3.0, "foreign_cpus": 0.4, "stolen_cpus": 0.0}],
        "results": [],
        "samples": samples,
        "counts": [
            {
                "test": "instructions", "mechanism": "m3ipc", "what": "per trip", "value": 420.0,
                "unit": "instructions"
            },
            {
                "test": "untold", "mechanism": "eventfd", "what": "waited", "value": 3.0,
                "unit": "s"
            }
        ],
        "skipped": ["zenoh: not there"]
    })
}

/// A number from 0.9 to 1.1.
fn factor(rng: &mut fastrand::Rng) -> f64 {
    0.9 + rng.f64() * 0.2
}

fn row(rng: &mut fastrand::Rng, names: [&str; 5], (bytes, pairs): (usize, u32), ns: f64) -> Value {
    let [test, mechanism, family, placement, wait] = names;
    let rounds: Vec<Value> = (0..5)
        .map(|_| {
            let middle = ns * factor(rng);
            let mut times: Vec<u64> = (0..40).map(|_| rounded(middle * factor(rng))).collect();
            times.sort_unstable();
            times.push(rounded(middle * 3.0));
            let block_ns = ["ours", "floor"].contains(&family).then_some(middle);
            let bells = (mechanism == "com-socket").then_some(middle / 1e5);
            let pairs: Vec<(u64, u64)> = times.iter().map(|&time| (time, 5)).collect();
            json!({
                "block_ns": block_ns,
                "per_s": 1e9 / middle, "cpu_ns_per_op": middle * 2.0, "switches_per_op": 2.0,
                "samples": pairs, "bells_per_op": bells
            })
        })
        .collect();
    json!({
        "test": test, "mechanism": mechanism, "family": family, "placement": placement,
        "wait": wait, "bytes": bytes, "pairs": pairs, "rounds": rounds
    })
}

/// A time to three digits, as in the JSON of a run.
fn rounded(ns: f64) -> u64 {
    let step = 10_f64.powf((ns.log10() - 2.0).floor().max(0.0));
    format!("{:.0}", (ns / step).round() * step).parse().expect("a whole number")
}
