//! Every subject does each of its works between two processes, and the checks find planted
//! faults. No upper bound on time is asserted.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use m3ipc_bench::job::{Carries, Load, SuiteName, Test};
use m3ipc_bench::measure::{Bench, Cell};
use m3ipc_bench::subject::Subject;
use m3ipc_bench::{Error, Measured, PEER_ARGUMENT, counts, subjects};
use m3ipc_report::schema::{Placement, Wait};
use m3ipc_report::stats::quantile;

const BINARY: &str = env!("CARGO_BIN_EXE_m3-bench");
const MINUTE_NS: u64 = 60_000_000_000;

/// A bench in the turn of one test (a run has one thread); the drop ends the node of its tests.
struct Turn {
    bench: Bench,
    _lock: MutexGuard<'static, ()>,
}

impl Turn {
    fn take() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let lock = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench::with_peers(BINARY.into()).expect("the kernel names its CPUs");
        Self { bench, _lock: lock }
    }

    /// Measures a subject; the kernel places the pair, so a spinning one on one CPU still ends.
    fn measure(
        &self,
        subject: &'static dyn Subject,
        load: Load,
        wait: Wait,
    ) -> Result<Measured, Error> {
        let load = Load { bytes: subject.bytes(&load), ..load };
        let placement = Placement::Any;
        self.bench.measure(&Cell { subject, load, wait, placement, experiment: None })
    }

    /// Measures each wait mode of a load, prints skips, and returns the number of modes.
    fn each_wait(
        &self,
        subject: &'static dyn Subject,
        load: Load,
        check: impl Fn(&Measured, &str),
    ) -> usize {
        let waits = subject.waits(&load);
        for &wait in waits {
            let what = format!("{} {load:?} {wait}", subject.name());
            match self.measure(subject, load, wait) {
                Ok(found) => check(&found, &what),
                Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {what}: {error}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
        waits.len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        subjects::end_node();
    }
}

/// A load of messages: 200 trips.
fn trips(test: Test) -> Load {
    Load::new(test, 0).over(MINUTE_NS, 0).limited(200)
}

/// A load of one death.
fn death() -> Load {
    Load::new(Test::Death { own_mb: 0 }, 0).limited(1)
}

fn named(name: &str) -> &'static dyn Subject {
    let suites = [SuiteName::Ipc, SuiteName::Copy];
    suites.iter().find_map(|&suite| subjects::find(suite, name)).expect("there is such a subject")
}

fn times(found: &Measured) -> u64 {
    found.round.samples.iter().map(|(_, number)| number).sum()
}

#[test]
fn each_mechanism_carries_each_of_its_works() {
    let turn = Turn::take();
    let check = |found: &Measured, what: &str| {
        assert!(found.trips >= 200 && times(found) >= found.trips / 3, "{what}: {}", found.trips);
        assert!(found.round.per_s > 0.0, "{what}");
    };
    for subject in subjects::all(SuiteName::Ipc) {
        let tests = [Test::Ipc1, Test::Ipc2, Test::Ipc3];
        let measured = tests.map(|test| turn.each_wait(subject, trips(test), check));
        if measured == [0; 3] {
            let paced = Load { pace_ns: Some(100_000), ..trips(Test::Ipc2) };
            assert!(turn.each_wait(subject, paced, |_, _| ()) > 0, "{}", subject.name());
        }
    }
}

#[test]
fn a_paced_trip_finds_its_server_asleep() {
    let load = Load { pace_ns: Some(1_000_000), ..trips(Test::Ipc2).limited(20) };
    let found = Turn::take().measure(named("futex-wake"), load, Wait::Block).expect("measured");
    assert_eq!(times(&found), 20);
    let switches = found.round.switches_per_op;
    assert!(switches > 0.5, "the server slept {switches} times a trip");
}

#[test]
fn four_pairs_at_once() {
    let load = Load { count: 4, ..trips(Test::Ipc2) };
    let found = Turn::take().measure(named("unix-seqpacket"), load, Wait::Block);
    assert!(found.expect("measured").trips >= 800);
}

#[test]
fn a_wrong_payload_is_found() {
    let found = Turn::take().measure(named("planted-fault"), trips(Test::Ipc2), Wait::Block);
    let text = found.expect_err("one answer of the planted fault is wrong").to_string();
    assert!(text.contains("client") && text.contains("payload corrupted in trip 99"), "{text}");
}

#[test]
fn a_client_gets_an_error_when_its_server_dies() {
    let turn = Turn::take();
    let all = subjects::all(SuiteName::Ipc).into_iter();
    for subject in all.filter(|subject| subject.tells_death()) {
        let found = turn.measure(subject, death(), subject.waits(&death())[0]);
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
        assert_eq!(times(&found), 1, "{}", subject.name());
    }
}

#[test]
fn a_measurement_that_hangs_is_ended_and_named() {
    // The client of a message queue gets no error when its server dies.
    let mut turn = Turn::take();
    turn.bench.grace_ns = 300_000_000;
    match turn.measure(named("posix-mq"), death(), Wait::Block) {
        Err(error @ Error::Stuck { .. }) => {
            assert!(error.to_string().contains("the client of posix-mq (pid "));
        }
        Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {error}"),
        other => panic!("not stuck: {other:?}"),
    }
}

#[test]
fn other_mechanisms_refuse_the_tests_of_m3ipc() {
    let load = Load::new(Test::Contact, 0).limited(1);
    let found = Turn::take().measure(named("pipe"), load, Wait::Block);
    let text = found.expect_err("a pipe has no bind").to_string();
    assert!(text.contains("pipe has no such measurement"), "{text}");
}

#[test]
fn the_tests_of_m3ipc_reach_their_subject() {
    let (turn, ours) = (Turn::take(), named("planted-ours"));
    let many = Load { count: 50, ..trips(Test::Clients) };
    assert!(turn.measure(ours, many, Wait::Block).expect("measured").trips >= 200);
    let contacts = Load::new(Test::Contact, 0).limited(10);
    let contacts = turn.measure(ours, contacts, Wait::Block).expect("measured");
    let median = |samples: &[(u64, u64)]| quantile(samples, 0.5);
    // The histogram keeps three digits.
    assert_eq!((median(&contacts.round.samples), median(&contacts.second)), (2_000, 1_000));
    match counts::instructions(&turn.bench, ours) {
        Ok(found) => assert!((1.0..100.0).contains(&found[0].1), "{found:?}"),
        Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_process_that_cannot_read_its_job_reports_it() {
    let output = Command::new(BINARY).args([PEER_ARGUMENT, "{}"]).output().expect("starts");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cannot read a job") && said.contains("same binary"), "{said}");
}

#[test]
fn each_subject_copies_blocks_of_each_test() {
    let turn = Turn::take();
    for subject in subjects::all(SuiteName::Copy) {
        for (bytes, aligned) in [(16, true), (64, false), (4_096, true), (70_001, false)] {
            for test in [Test::Copy1 { aligned }, Test::Copy2 { aligned }, Test::Stream] {
                turn.each_wait(subject, Load::new(test, bytes), |found, what| {
                    assert!(found.trips > 0 && found.round.per_s > 0.0, "{what}");
                });
            }
        }
    }
}

#[test]
fn a_wrong_block_is_found() {
    let (turn, aligned) = (Turn::take(), true);
    for test in [Test::Copy1 { aligned }, Test::Copy2 { aligned }, Test::Stream] {
        let found = turn.measure(named("planted-copy"), Load::new(test, 4_096), Wait::Block);
        let text = found.expect_err("its last block is wrong").to_string();
        assert!(text.contains("server") && text.contains("payload corrupted"), "{test:?}: {text}");
    }
}

#[test]
fn each_subject_of_memory_measures_something() {
    let turn = Turn::take();
    for subject in subjects::all(SuiteName::Area) {
        let loads = [(Test::Attach, 64 << 10), (Test::HandOver, 64 << 10), (Test::Pool, 4_096)];
        let measured = loads.map(|(test, bytes)| {
            turn.each_wait(subject, Load::new(test, bytes), |found, what| {
                assert!(found.trips > 0 && times(found) > 0, "{what}");
            })
        });
        assert_eq!(measured.iter().sum::<usize>(), 1, "{}", subject.name());
    }
}

#[test]
fn each_socket_is_measured_in_each_of_its_tests() {
    let turn = Turn::take();
    for subject in subjects::all(SuiteName::Sock) {
        if subject.name().starts_with("shim") {
            eprintln!("skipped: {}: the preload library has tests of its own", subject.name());
            continue;
        }
        for (test, bytes, count) in [
            (Test::SockStream, 1, 1),
            (Test::SockStream, 70_001, 1),
            (Test::SockTrip, 48, 1),
            (Test::SockAsleep, 48, 1),
            (Test::SockEpoll, 48, 3),
            (Test::SockConnect, 1, 1),
        ] {
            let pace_ns = (test == Test::SockAsleep).then_some(1_000_000);
            let load = Load::new(test, bytes).over(20_000_000, 0).limited(1 << 22);
            turn.each_wait(subject, Load { count, pace_ns, ..load }, |found, what| {
                assert!(found.trips > 0 && found.round.per_s > 0.0, "{what}");
                let has_wakeups = subject.name() == "com-socket" && test != Test::SockConnect;
                assert_eq!(found.round.bells_per_op.is_some(), has_wakeups, "{what}");
            });
        }
    }
}

#[test]
fn each_mechanism_is_cut_into_phases() {
    let turn = Turn::take();
    for subject in subjects::all(SuiteName::Phases) {
        let (carries, bytes) = match subject.name() {
            "futex" => (Carries::Nothing, 0),
            _ => (Carries::Short, 48),
        };
        // A stalled machine makes too few trips in a short time.
        let times_ns = [100_000_000, 1_000_000_000, 10_000_000_000];
        let mut tries = times_ns.into_iter().map(|time_ns| {
            let load = Load::new(Test::Phases { carries, queued: false }, bytes);
            turn.measure(subject, load.over(time_ns, 0), Wait::Block)
        });
        let is_final = |tried: &Result<_, _>| !matches!(tried, Err(Error::Unavailable { .. }));
        let found = tries.find(is_final).expect("enough trips in ten seconds");
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
        let phases = found.phases.expect("the trips are cut");
        assert!(!phases.cuts.is_empty() && phases.plain_ns > 0.0, "{}", subject.name());
    }
}
