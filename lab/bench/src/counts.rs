//! What is counted and not timed, and only of m3ipc: instructions and memory.

use std::process::Command;

use crate::error::Error;
use crate::job::{Placement, Side, Task, Wait, Work};
use crate::measure::{Bench, Cell};
use crate::mechanism::Mechanism;
use crate::ours::{self, Ours};
use crate::peer::PEER_ARGUMENT;
use crate::record::{Count, Results};
use crate::supervise::Crew;

/// What a test found: name, value, unit.
pub type Found = Vec<(&'static str, f64, &'static str)>;

const TESTS: [&str; 2] = ["instructions", "memory"];
/// Trips of the two runs under the counter; their difference is free of start and end.
const FEW: u64 = 1_000;
const MANY: u64 = 3_000;
/// How long start and work under the counter may take.
const SLOW_NS: u64 = 60_000_000_000;

/// Whether there is anything to count that these words do not exclude.
#[must_use]
pub fn wanted(only: &[String]) -> bool {
    ours().is_some_and(|(mechanism, _)| {
        TESTS.iter().any(|test| matches(test, mechanism.name(), only))
    })
}

/// Counts what can be counted here and adds it, or why it cannot.
pub fn run(bench: &Bench, only: &[String], results: &mut Results) {
    let Some((mechanism, ours)) = ours() else { return };
    for test in TESTS.iter().filter(|test| matches(test, mechanism.name(), only)) {
        let found =
            if *test == "memory" { memory(bench, ours) } else { instructions(bench, mechanism) };
        match found {
            Ok(found) => {
                results.counts.extend(found.into_iter().map(|(what, value, unit)| Count {
                    test: (*test).into(),
                    mechanism: mechanism.name().into(),
                    what: what.into(),
                    value,
                    unit: unit.into(),
                }))
            }
            Err(error @ Error::Unavailable { .. }) => {
                results.skipped.push(format!("{test}: {error}"))
            }
            Err(error) => results.failed.push(format!("{test}: {error}")),
        }
    }
}

fn ours() -> Option<(&'static dyn Mechanism, &'static dyn Ours)> {
    let mechanism = ours::mechanism()?;
    Some((mechanism, mechanism.ours()?))
}

fn matches(test: &str, mechanism: &str, only: &[String]) -> bool {
    only.iter().all(|word| test.contains(word.as_str()) || mechanism.contains(word.as_str()))
}

/// Instructions per round trip of both sides, by callgrind.
///
/// # Errors
/// [`Error::Unavailable`] without valgrind; what went wrong elsewhere.
pub fn instructions(bench: &Bench, mechanism: &'static dyn Mechanism) -> Result<Found, Error> {
    let few = counted(bench, mechanism, FEW)?;
    let many = counted(bench, mechanism, MANY)?;
    Ok(vec![("per trip", many.saturating_sub(few) as f64 / (MANY - FEW) as f64, "instructions")])
}

fn counted(bench: &Bench, mechanism: &'static dyn Mechanism, trips: u64) -> Result<u64, Error> {
    let wait = mechanism.waits().first().copied().unwrap_or(Wait::Spin);
    let cell = Cell { mechanism, work: Work::Ipc2, wait, placement: Placement::Any, pairs: 1 };
    let transport = mechanism.open(&bench.site)?;
    let job = bench.job(&cell, Side::Client, Task::Straight { trips }, &transport.names);
    let job = serde_json::to_string(&job).map_err(Error::json("a job"))?;
    let log =
        std::env::temp_dir().join(format!("m3-bench-{}-{trips}.callgrind", std::process::id()));
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--log-file={}", log.display()))
        .arg(&bench.site.exe)
        .args([PEER_ARGUMENT, &job]);
    let counted = count_under(command, &log);
    // It may never have been written.
    let _ = std::fs::remove_file(&log);
    counted
}

fn count_under(command: Command, log: &std::path::Path) -> Result<u64, Error> {
    let mut crew = Crew::new(SLOW_NS);
    crew.spawn(command, "the peer under callgrind".into(), vec![]).map_err(
        |error| match error {
            Error::Os { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Error::Unavailable {
                    why: "there is no valgrind to count instructions with".into(),
                    next: "install valgrind",
                }
            }
            error => error,
        },
    )?;
    crew.ready()?;
    crew.go(0, 0)?;
    crew.finish(0, &[0])?;
    drop(crew);
    let text = std::fs::read_to_string(log).map_err(Error::os("read callgrind's log"))?;
    collected(&text)
        .ok_or_else(|| Error::Usage("callgrind's log says nothing of what it collected".into()))
}

/// The number in callgrind's line `==1234== Collected : 5678`.
fn collected(log: &str) -> Option<u64> {
    let (_, rest) = log.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn memory(bench: &Bench, ours: &dyn Ours) -> Result<Found, Error> {
    let memory = ours.memory(&bench.site)?;
    let idle_ppm = memory.idle_cpu_ns as f64 * 1e6 / memory.idle_span_ns.max(1) as f64;
    Ok(vec![
        ("link", memory.link_bytes as f64, "bytes"),
        ("endpoint", memory.endpoint_bytes as f64, "bytes"),
        ("daemon", memory.daemon_bytes as f64, "bytes"),
        ("daemon links", memory.daemon_links as f64, "links"),
        ("idle cpu", idle_ppm, "ppm"),
    ])
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_found_in_the_log() {
        let log = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n==7== I   refs:      123,456\n";
        assert_eq!(collected(log), Some(123_456));
        assert_eq!(collected("valgrind: failed to start"), None);
    }
}
