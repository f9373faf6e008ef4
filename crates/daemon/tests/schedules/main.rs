//! T4: bind, first contact, death and takeover, as threads under the scheduler of shuttle.
//!
//! The threads are a daemon on the real tables ([`m3ipc_daemon::tables::Node`]), two members that
//! bind and make a link, a killer of the daemon and a killer of a member. Shuttle runs them in
//! schedules of its choice (PCT of depth 3, and random). It reports an endless wait as a deadlock.
//! At the end both members hold the same link, or the living one knows of the death.
//!
//! The steps copy `contact`, `recall_links` and `attach` of the daemon, and `contact_slow` and
//! `reattach` of the library. Change them here when they change there.

mod daemon;
mod member;
mod socket;

use m3ipc_abi::{Address, NodeLimits, VmLimits};
use m3ipc_daemon::tables::{Credentials, Node, Quota, Record, VmSpec};
use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use socket::Socket;
use std::collections::BTreeSet;

/// The VM.
const VM: i32 = 0;
/// The requester of the link, and the other member. Process and slot have the same number.
const REQUESTER: i32 = 30;
const OTHER: i32 = 31;

/// The approximate number of steps of a whole run: of the daemon, and of the other member.
const STEPS: usize = 32;
const OTHER_STEPS: usize = 12;

/// Planted faults. The schedules must detect each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// No fault: the rules of the daemon.
    Real,
    /// The requester gets its link before the journal has the change and the peer has its event.
    RequesterFirst,
    /// One party's statement about a link counts for both parties.
    RecallForBoth,
    /// A new daemon does not notice members that died before its start.
    DeathUnseen,
}

/// The page of a link. Identity distinguishes pages.
#[derive(Debug)]
struct Page;

/// A request of a member.
#[derive(Debug)]
enum Request {
    Bind,
    Mapped,
    Reattach(Address),
    Contact(Address),
    Recall(Vec<Address>),
}

/// The answer to a request.
#[derive(Debug)]
enum Answer {
    Bound(Address),
    Contact(Arc<Page>),
    Done,
    Known,
    Died,
    Refused,
}

/// An event from the daemon.
#[derive(Debug)]
enum Event {
    Contact(Address, Arc<Page>),
    Died(Address),
    /// No content: it wakes a member that is to be killed.
    Wake,
}

/// A frame to a daemon.
#[derive(Debug)]
enum Frame {
    Greeting(i32, Sender<Event>),
    Request(i32, Request, Sender<Answer>),
    Dead(i32),
    Wake(i32),
    Kill,
}

/// The shared state of all threads.
struct Fixture {
    rules: Rules,
    /// The socket of the running daemon.
    listener: Mutex<Option<Arc<Socket>>>,
    listening: Condvar,
    journal: Mutex<Vec<Record>>,
    alive: Mutex<BTreeSet<i32>>,
    /// The sockets of all daemons, for reports of deaths by the kernel.
    pidfds: Mutex<Vec<Arc<Socket>>>,
    /// Steps until the kill of the daemon, and of the other member.
    steps_left: AtomicUsize,
    other_steps_left: AtomicUsize,
    other_killed: AtomicBool,
    over: AtomicBool,
}

impl Fixture {
    fn new(rules: Rules) -> Self {
        let mut node = Node::new(0, NodeLimits::DEFAULT, Quota::default());
        let root = Credentials::new(0, 0, 1);
        let limits = VmLimits { tasks: 5, procs: 50 };
        let vm =
            node.vm_init(VmSpec { id: Some(VM), ..VmSpec::new("schedules", limits, &root) }, &root);
        assert_eq!(vm, Ok(VM));
        Self {
            rules,
            listener: Mutex::new(None),
            listening: Condvar::new(),
            journal: Mutex::new(node.snapshot()),
            alive: Mutex::new(BTreeSet::from([REQUESTER, OTHER])),
            pidfds: Mutex::new(Vec::new()),
            steps_left: AtomicUsize::new(usize::MAX),
            other_steps_left: AtomicUsize::new(usize::MAX),
            other_killed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Runs daemons one after the other. A kill ends each one but the last, at a random step.
    fn daemons(&self, kills: usize) {
        for life in 0..=kills {
            let steps = if life == kills {
                usize::MAX
            } else {
                shuttle::rand::thread_rng().gen_range(0..STEPS)
            };
            self.steps_left.store(steps, Ordering::SeqCst);
            let socket = Arc::new(Socket::new());
            self.pidfds.lock().expect("no thread panics with the lock").push(Arc::clone(&socket));
            // Read after the push: `end` sends a kill to every daemon in the list.
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            daemon::run(self, &socket);
            *self.listener.lock().expect("no thread panics with the lock") = None;
            socket.close();
        }
    }

    /// Ends all waits.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        for daemon in &*self.pidfds.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Kill);
        }
        let _listener = self.listener.lock().expect("no thread panics with the lock");
        self.listening.notify_all();
    }

    /// Kills the other member at its present step.
    fn kill_other(&self) {
        self.other_killed.store(true, Ordering::SeqCst);
        for daemon in &*self.pidfds.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Wake(OTHER));
        }
    }

    /// Reports the end of a process to the daemons.
    fn report_death(&self, pid: i32) {
        self.alive.lock().expect("no thread panics with the lock").remove(&pid);
        for daemon in &*self.pidfds.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Dead(pid));
        }
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
    let daemons = thread::spawn(move || daemons.daemons(kills));
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
fn t4_all_schedules_end_well() {
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
fn t4_planted_faults_are_detected() {
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
