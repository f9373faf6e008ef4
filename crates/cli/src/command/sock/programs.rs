//! Programs under `m3 sock run`, as their counters show them.

use crate::lookup;
use crate::options::NodeOptions;
use crate::output::table;
use crate::sock::counters::{self, CountedProgram};
use m3ipc_shim::counters::{Counter, NAMES};
use m3ipc_shim::pin::PinReason;

const HEAD: [&str; 13] = [
    "PROGRAM",
    "PIDS",
    "RING",
    "KERNEL",
    "WAKEUPS",
    "SPARED",
    "OVERFLOWS",
    "UPGRADES",
    "DOWNGRADES",
    "PINS",
    "SPUN",
    "HITS",
    "LOCKS",
];

/// All programs with living processes.
///
/// # Errors
/// The reason why their counters are not read, for people.
pub fn all(options: &NodeOptions) -> Result<Vec<CountedProgram>, String> {
    counters::programs(&lookup::directory(options))
}

/// A table of programs.
pub fn text(programs: &[CountedProgram]) -> String {
    let rows: Vec<Vec<String>> = programs.iter().map(row).collect();
    table(&HEAD, &rows)
}

/// The reasons of pins with their counts, where there are any.
fn pins(program: &CountedProgram) -> impl Iterator<Item = (&'static str, u64)> {
    PinReason::ALL
        .iter()
        .filter_map(|(pin, name)| Some((*name, *program.snapshot.pins.get(*pin as usize)?)))
        .filter(|(_name, count)| *count > 0)
}

fn row(program: &CountedProgram) -> Vec<String> {
    let count = |counter| program.snapshot.read(counter).to_string();
    let pids: Vec<String> = program.pids.iter().map(ToString::to_string).collect();
    let pinned: Vec<String> =
        pins(program).map(|(name, count)| format!("{name}:{count}")).collect();
    vec![
        program.name.clone(),
        pids.join(","),
        count(Counter::RingBytes),
        count(Counter::KernelBytes),
        count(Counter::Wakeups),
        count(Counter::WakeupsSpared),
        count(Counter::Overflows),
        count(Counter::Upgrades),
        count(Counter::Downgrades),
        if pinned.is_empty() { "-".to_owned() } else { pinned.join(" ") },
        format!("{} ms", program.snapshot.read(Counter::SpinNs) / 1_000_000),
        count(Counter::SpinHits),
        count(Counter::LockTimeouts),
    ]
}

/// A program as JSON.
pub fn json(program: &CountedProgram) -> serde_json::Value {
    let mut value = serde_json::json!({ "program": program.name, "pids": program.pids });
    for (name, count) in NAMES.iter().zip(program.snapshot.counts) {
        value[*name] = count.into();
    }
    value["pinned"] = pins(program)
        .map(|(name, count)| (name.to_owned(), serde_json::Value::from(count)))
        .collect();
    value
}
