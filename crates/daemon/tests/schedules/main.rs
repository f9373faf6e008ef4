//! T4: bind, first contact, death and takeover, as threads under the scheduler of shuttle.
//!
//! The threads are a daemon on the real tables ([`m3ipc_daemon::tables::Node`]), two members that
//! bind and make a link, a killer of the daemon and a killer of a member. Shuttle runs them in
//! schedules of its choice (PCT of depth 3, and random). It reports an endless wait as a deadlock.
//! At the end both members hold the same link, or the living one knows of the death.
//!
//! The steps copy `contact`, `recall_links` and `attach` of the daemon, and `first_contact` and
//! `reattach` of the library. Change them here when they change there.

mod daemon;
mod fixture;
mod frame;
mod member;
mod socket;

use fixture::{Fixture, Rules};
use shuttle::rand::Rng;
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;
use shuttle::sync::mpsc::channel;
use shuttle::thread;
use socket::Socket;

/// The approximate number of steps of a whole run: of the daemon, and of the other member.
const STEPS: usize = 32;
const OTHER_STEPS: usize = 12;

/// Runs daemons one after the other. A kill ends each one but the last, at a random step.
fn run_daemons(fixture: &Fixture, kills: usize) {
    for life in 0..=kills {
        let steps = if life == kills {
            usize::MAX
        } else {
            shuttle::rand::thread_rng().gen_range(0..STEPS)
        };
        fixture.steps_left.store(steps, Ordering::SeqCst);
        let socket = Arc::new(Socket::new());
        fixture
            .daemon_sockets
            .lock()
            .expect("no thread panics with the lock")
            .push(Arc::clone(&socket));
        // Read after the push: `end` sends a kill to every daemon in the list.
        if fixture.over.load(Ordering::SeqCst) {
            return;
        }
        daemon::run(fixture, &socket);
        *fixture.listener.lock().expect("no thread panics with the lock") = None;
        socket.close();
    }
}

/// One schedule with so many kills of the daemon, and perhaps one of the other member.
fn schedule(rules: Rules, kills: usize, kill_other: bool) {
    let fixture = Arc::new(Fixture::new(rules));
    let (bound, is_bound) = channel();
    let (other_fixture, own_fixture) = (Arc::clone(&fixture), Arc::clone(&fixture));
    let other = thread::spawn(move || member::other(&other_fixture, &bound));
    let requester = thread::spawn(move || member::requester(&own_fixture, &is_bound));
    let daemons = Arc::clone(&fixture);
    let daemons = thread::spawn(move || run_daemons(&daemons, kills));
    if kill_other {
        // The kill comes at a step of the member, or whenever the killer runs.
        let steps = shuttle::rand::thread_rng().gen_range(0..2 * OTHER_STEPS);
        if steps < OTHER_STEPS {
            fixture.other_steps_left.store(steps, Ordering::SeqCst);
        } else {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || fixture.kill_other());
        }
    }
    let requested = requester.join().expect("the requester does not panic");
    fixture.end();
    daemons.join().expect("the daemons do not panic");
    let held = other.join().expect("the other member does not panic");
    match (requested, held) {
        (Some(one), Some(other)) => {
            assert!(Arc::ptr_eq(&one, &other), "the members hold different links")
        }
        (Some(_), None) => assert!(kill_other, "the other member never got the link"),
        (None, _) => assert!(kill_other, "a death of a living member was reported"),
    }
}

/// The number of schedules of each kind; `M3_SCHEDULES` sets another number.
fn schedules() -> usize {
    std::env::var("M3_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(800)
}

/// Runs PCT schedules and random schedules.
fn explore(rules: Rules, kills: usize, kill_other: bool, count: usize) {
    shuttle::check_pct(move || schedule(rules, kills, kill_other), count, 3);
    shuttle::check_random(move || schedule(rules, kills, kill_other), count);
}

#[test]
fn all_schedules_end_well() {
    let cases = [(0, false), (0, true), (1, false), (2, false), (2, true)];
    for (kills, kill_other) in cases {
        explore(Rules::Real, kills, kill_other, schedules());
    }
    let all = cases.len() * schedules();
    println!("T4 schedules: {all} of PCT depth 3 and {all} random, 0 failures");
}

/// Whether the schedules detect a fault.
fn is_detected(rules: Rules, kills: usize, kill_other: bool) -> bool {
    std::panic::catch_unwind(|| explore(rules, kills, kill_other, 20_000)).is_err()
}

#[test]
fn planted_faults_are_detected() {
    let faults = [
        (Rules::RequesterFirst, 1, false),
        (Rules::RecallForBoth, 1, false),
        (Rules::DeathUnseen, 1, true),
    ];
    let missed: Vec<_> = faults
        .into_iter()
        .filter(|(rules, kills, kill_other)| !is_detected(*rules, *kills, *kill_other))
        .collect();
    assert!(missed.is_empty(), "not detected: {missed:?}");
    println!("T4 schedules: planted faults detected {0}/{0}", faults.len());
}
