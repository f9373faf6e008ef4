//! Counted figures of m3ipc: instructions by callgrind, memory, and the waits of many clients.

mod fairness;
mod memory;

use std::process::Command;

use m3ipc_report::names::{C_CALLS, COUNTED};
use m3ipc_report::results::Results;
use m3ipc_report::schema::{Count, Placement, Wait};

use self::memory::Found;
use crate::error::Error;
use crate::job::{Load, Test};
use crate::measure::{Bench, Cell};
use crate::processes::Processes;
use crate::rounds::note;
use crate::subject::Subject;
use crate::{subjects, unique};

/// The count of a program of C, beside that of one of Rust.
const IN_C: (&str, &dyn Subject) = (COUNTED[0], subjects::C_CALLS);
/// Trips of the two runs under the counter. Their difference is free of start and end.
const FEW: u64 = 1_000;
const MANY: u64 = 20_000;
/// Counts of which the least is taken.
const COUNTS: usize = 4;
/// Time limit for start and work under the counter.
const SLOW_NS: u64 = 60_000_000_000;

/// Counts, and adds the figures, or the reason for their absence.
pub fn run(bench: &Bench, only: &[String], results: &mut Results) {
    let ours = subjects::M3IPC;
    for (test, subject) in COUNTED.map(|test| (test, ours)).into_iter().chain([IN_C]) {
        if !m3ipc_report::matches(only, &[test, subject.name()]) {
            continue;
        }
        let found = match test {
            "memory" => memory::find(bench),
            "fairness" => fairness::find(bench),
            _ => instructions(bench, subject),
        };
        match found {
            Ok(found) => {
                let count = |(what, value, unit): (&str, f64, &str)| {
                    let (test, mechanism) = (test.into(), subject.name().into());
                    Count { test, mechanism, what: what.into(), value, unit: unit.into() }
                };
                results.counts.extend(found.into_iter().map(count));
            }
            Err(error) => _ = note(&error, format!("{test}: {error}"), results),
        }
    }
}

/// Instructions per round trip of both sides.
pub fn instructions(bench: &Bench, subject: &'static dyn Subject) -> Result<Found, Error> {
    let what = if subject.name() == C_CALLS { "per trip in C" } else { "per trip" };
    let few = least(bench, subject, FEW)?;
    let many = least(bench, subject, MANY)?;
    Ok(vec![(what, many.saturating_sub(few) as f64 / (MANY - FEW) as f64, "instructions")])
}

/// The least of some counts. A yield that finds the other side still without the CPU is counted
/// too, and a trip between awake endpoints has none.
fn least(bench: &Bench, subject: &'static dyn Subject, trips: u64) -> Result<u64, Error> {
    let counts: Result<Vec<u64>, Error> =
        (0..COUNTS).map(|_| counted(bench, subject, trips)).collect();
    Ok(counts?.into_iter().min().unwrap_or(0))
}

fn counted(bench: &Bench, subject: &'static dyn Subject, trips: u64) -> Result<u64, Error> {
    let load = Load::new(Test::Straight, 0).limited(trips);
    let load = Load { bytes: subject.bytes(&load), ..load };
    let placement = Placement::Any;
    let cell = Cell { subject, load, wait: Wait::Adaptive, placement, experiment: None };
    let mut opened = subject.open(&bench.site, &load)?;
    let party = opened.parties.pop().ok_or(Error::PeerGone)?;
    let job = cell.job(party.role, None, party.inherited.names, bench.clock);
    let log = unique::path("callgrind");
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"])
        .envs(opened.environment.drain(..))
        .arg(format!("--log-file={}", log.display()))
        .arg(&bench.site.exe);
    let mut processes = Processes::new(SLOW_NS);
    let who = "the process under callgrind".into();
    let counted = processes
        .spawn(command, who, job, party.inherited.fds)
        .map_err(missing_valgrind)
        .and_then(|()| processes.ready())
        .and_then(|()| processes.go(0, 0))
        .and_then(|()| processes.finish(0, &[0]));
    drop(processes);
    let text = std::fs::read_to_string(&log);
    // The log may never have been written.
    let _ = std::fs::remove_file(&log);
    counted?;
    let text = text.map_err(Error::os("read callgrind's log"))?;
    collected(&text).ok_or_else(|| Error::Usage("callgrind's log holds no count".into()))
}

fn missing_valgrind(error: Error) -> Error {
    match error {
        Error::Os { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            let why = "there is no valgrind to count instructions with".into();
            Error::Unavailable { why, next: "install valgrind" }
        }
        error => error,
    }
}

/// The number in callgrind's line `==1234== Collected : 5678`.
fn collected(log: &str) -> Option<u64> {
    let (_, rest) = log.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_found_in_the_log() {
        let log =
            "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n==7== I   refs: 123,456\n";
        assert_eq!(collected(log), Some(123_456));
        assert_eq!(collected("valgrind: failed to start"), None);
    }
}
