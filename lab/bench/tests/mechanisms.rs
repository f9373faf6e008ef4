//! Every mechanism carries 200 checked round trips between two processes; a
//! planted fault and a hanging peer are found. No bound on time is asserted.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use m3ipc_bench::job::{Placement, Task, Wait, Work};
use m3ipc_bench::measure::{Bench, Cell, Round};
use m3ipc_bench::mechanism::{self, Mechanism};
use m3ipc_bench::{Error, counts, peer};

const BINARY: &str = env!("CARGO_BIN_EXE_m3-bench");
const TRIPS: Task = Task::Trips { pace_ns: None, span_ns: 60_000_000_000, limit: Some(200) };

/// A bench, and the turn of this test: a run has one thread.
fn bench() -> (Bench, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (Bench::with_peers(BINARY.into()).expect("the kernel says which CPUs there are"), turn)
}

fn cell(mechanism: &'static dyn Mechanism, work: Work, wait: Wait) -> Cell {
    // Wherever the kernel puts them: what spins on a machine of one CPU is slow then, but ends.
    Cell { mechanism, work, wait, placement: Placement::Any, pairs: 1 }
}

fn named(name: &str) -> &'static dyn Mechanism {
    mechanism::by_name(name).expect("there is such a mechanism")
}

#[test]
fn each_mechanism_carries_each_of_its_works() {
    let (bench, _turn) = bench();
    for mechanism in mechanism::all() {
        for &work in mechanism.works() {
            for &wait in mechanism.waits() {
                let what = format!("{} {work} {wait}", mechanism.name());
                match bench.trips(&cell(mechanism, work, wait), TRIPS, 0) {
                    Ok(Round { samples, trips, per_s, .. }) => {
                        assert!(
                            trips >= 200 && samples.count() >= trips / 3,
                            "{what}: only {trips} trips"
                        );
                        assert!(samples.quantile(0.5) <= samples.max() && per_s > 0.0, "{what}");
                    }
                    Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {what}: {error}"),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_paced_trip_finds_its_server_asleep() {
    let (bench, _turn) = bench();
    let task = Task::Trips { pace_ns: Some(1_000_000), span_ns: 60_000_000_000, limit: Some(20) };
    let round = bench
        .trips(&cell(named("futex-wake"), Work::Ipc2, Wait::Block), task, 0)
        .expect("measured");
    assert_eq!(round.samples.count(), 20);
    assert!(round.switches_per_op > 0.5, "the server slept {} times a trip", round.switches_per_op);
}

#[test]
fn four_pairs_at_once() {
    let (bench, _turn) = bench();
    let cell = Cell { pairs: 4, ..cell(named("unix-seqpacket"), Work::Ipc2, Wait::Block) };
    let round = bench.trips(&cell, TRIPS, 0).expect("measured");
    assert!(round.trips >= 800);
}

#[test]
fn a_spoilt_payload_is_found() {
    let (bench, _turn) = bench();
    let error = bench
        .trips(&cell(named("planted-fault"), Work::Ipc2, Wait::Block), TRIPS, 0)
        .expect_err("one answer of the planted fault is spoilt");
    let text = error.to_string();
    assert!(text.contains("client") && text.contains("payload corrupted in trip 99"), "{text}");
}

#[test]
fn a_client_is_told_of_its_servers_death() {
    let (bench, _turn) = bench();
    for mechanism in mechanism::all().into_iter().filter(|mechanism| mechanism.tells_death()) {
        let wait = mechanism.waits()[0];
        let round = bench
            .deaths(&cell(mechanism, Work::Ipc2, wait), Task::Death { own_mb: 0 }, 1)
            .unwrap_or_else(|error| panic!("{}: {error}", mechanism.name()));
        assert_eq!(round.samples.count(), 1, "{}", mechanism.name());
    }
}

#[test]
fn a_measurement_that_hangs_is_ended_and_named() {
    // Nobody tells the client of a message queue that its server has died.
    let (bench, _turn) = bench();
    let bench = Bench { grace_ns: 300_000_000, ..bench };
    match bench.deaths(
        &cell(named("posix-mq"), Work::Ipc2, Wait::Block),
        Task::Death { own_mb: 0 },
        1,
    ) {
        Err(error @ Error::Stuck { .. }) => {
            assert!(error.to_string().contains("the client of posix-mq (pid "))
        }
        Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {error}"),
        other => panic!("not stuck: {other:?}"),
    }
}

#[test]
fn what_only_m3ipc_has_is_refused_by_others() {
    let (bench, _turn) = bench();
    let error = bench
        .contacts(&cell(named("pipe"), Work::Ipc2, Wait::Block), 1)
        .expect_err("a pipe has no bind");
    assert!(error.to_string().contains("pipe has no such measurement"), "{error}");
}

#[test]
fn what_only_m3ipc_has_reaches_its_methods() {
    let (bench, _turn) = bench();
    let ours = named("planted-ours");
    let many = Cell { pairs: 50, ..cell(ours, Work::Ipc2, Wait::Block) };
    assert!(bench.one_of_many(&many, TRIPS, 0).expect("measured").trips >= 200);
    let contacts = bench.contacts(&cell(ours, Work::Ipc2, Wait::Block), 10).expect("measured");
    assert_eq!((contacts.samples.quantile(0.5), contacts.binds.quantile(0.5)), (2_000, 1_000));
    match counts::instructions(&bench, ours) {
        Ok(found) => assert!((1.0..100.0).contains(&found[0].1), "{found:?}"),
        Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_peer_that_cannot_read_its_job_says_so() {
    let output = Command::new(BINARY).args([peer::PEER_ARGUMENT, "{}"]).output().expect("starts");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cannot read a job") && said.contains("same binary"), "{said}");
}
