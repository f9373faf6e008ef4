//! T4: bind, first contact, death and takeover, as threads under a scheduler that looks for trouble.
//!
//! A daemon on the real tables ([`m3ipc_model::tables::Node`]), its journal, two members that
//! bind and meet, one who kills the daemon and one who kills a member. Shuttle runs them in
//! schedules of its choice (PCT, depth 3). Whoever waits for ever is found as a deadlock; in the end
//! both members hold the same link, or the one that lives was told of the death.
//!
//! What the daemon and the members do between two steps is written here as the
//! daemon's `contact`, `recall` and `attach` and the library's `contact_slow` and
//! `reattach` have it; a change there is made here too.

mod daemon;
mod member;
mod socket;

use m3ipc_abi::{Address, NodeLimits, VmLimits};
use m3ipc_model::tables::{Credentials, Node, Quota, Record, VmSpec};
use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use socket::Socket;
use std::collections::BTreeSet;

/// The one VM.
const VM: i32 = 0;
/// The one who asks for the link, and the other; process and slot have the same number.
const ASKER: i32 = 30;
const OTHER: i32 = 31;

/// Steps that a daemon has until all is done, about; and a member.
const STEPS: usize = 32;
const OTHER_STEPS: usize = 12;

/// Ways to break the rules, which the schedules must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// As the daemon has them.
    Real,
    /// The asker is told of its link before the change is written down and the peer told.
    AskerFirst,
    /// A recall by one party counts for both.
    RecallForBoth,
    /// A member that could not be looked at when a daemon began is forgotten.
    DeathUnseen,
}

/// The page of two, known by being the same.
#[derive(Debug)]
struct Page;

/// What a member asks.
#[derive(Debug)]
enum Ask {
    Bind,
    Mapped,
    Reattach(Address),
    Contact(Address),
    Recall(Vec<Address>),
}

/// What it is answered.
#[derive(Debug)]
enum Answer {
    Bound(Address),
    Contact(Arc<Page>),
    Done,
    Known,
    Died,
    Refused,
}

/// What it is told unasked.
#[derive(Debug)]
enum News {
    Contact(Address, Arc<Page>),
    Died(Address),
    /// Nothing; whoever is to be killed wakes, and sees that.
    Nudge,
}

/// What comes to a daemon.
#[derive(Debug)]
enum Frame {
    Hello(i32, Sender<News>),
    Ask(i32, Ask, Sender<Answer>),
    Dead(i32),
    Nudge(i32),
    Kill,
}

/// The machine they run on.
struct World {
    rules: Rules,
    /// Where the daemon listens, while one lives.
    listener: Mutex<Option<Arc<Socket>>>,
    listening: Condvar,
    journal: Mutex<Vec<Record>>,
    alive: Mutex<BTreeSet<i32>>,
    /// Every daemon's, for the kernel to say who has died.
    pidfds: Mutex<Vec<Arc<Socket>>>,
    /// Steps until the daemon is killed, and the other member.
    steps_left: AtomicUsize,
    other_steps_left: AtomicUsize,
    other_killed: AtomicBool,
    over: AtomicBool,
}

impl World {
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
            alive: Mutex::new(BTreeSet::from([ASKER, OTHER])),
            pidfds: Mutex::new(Vec::new()),
            steps_left: AtomicUsize::new(usize::MAX),
            other_steps_left: AtomicUsize::new(usize::MAX),
            other_killed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Daemons, one after the other: each but the last is killed at some step, if it gets there.
    fn daemons(&self, kills: usize) {
        for life in 0..=kills {
            let steps = if life == kills {
                usize::MAX
            } else {
                shuttle::rand::thread_rng().gen_range(0..STEPS)
            };
            self.steps_left.store(steps, Ordering::SeqCst);
            let socket = Arc::new(Socket::new());
            self.pidfds.lock().expect("no panic").push(Arc::clone(&socket));
            // Looked at once it can be told: who ends all tells those that are there.
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            daemon::run(self, &socket);
            *self.listener.lock().expect("no panic") = None;
            socket.close();
        }
    }

    /// Ends all that still waits for something.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        for daemon in &*self.pidfds.lock().expect("no panic") {
            let _ = daemon.send(Frame::Kill);
        }
        let _listener = self.listener.lock().expect("no panic");
        self.listening.notify_all();
    }

    /// Kills the other member, wherever it is just now.
    fn kill_other(&self) {
        self.other_killed.store(true, Ordering::SeqCst);
        for daemon in &*self.pidfds.lock().expect("no panic") {
            let _ = daemon.send(Frame::Nudge(OTHER));
        }
    }

    /// A process has ended.
    fn bury(&self, pid: i32) {
        self.alive.lock().expect("no panic").remove(&pid);
        for daemon in &*self.pidfds.lock().expect("no panic") {
            let _ = daemon.send(Frame::Dead(pid));
        }
    }
}

/// One schedule: daemons killed so many times, and whether the other member is.
fn schedule(rules: Rules, kills: usize, kill_other: bool) {
    let world = Arc::new(World::new(rules));
    let (bound, is_bound) = channel();
    let (theirs, ours) = (Arc::clone(&world), Arc::clone(&world));
    let other = thread::spawn(move || member::other(&theirs, &bound));
    let asker = thread::spawn(move || member::asker(&ours, &is_bound));
    let daemons = Arc::clone(&world);
    let daemons = thread::spawn(move || daemons.daemons(kills));
    if kill_other {
        // At one of its own steps, or whenever the killer gets to run.
        let steps = shuttle::rand::thread_rng().gen_range(0..2 * OTHER_STEPS);
        if steps < OTHER_STEPS {
            world.other_steps_left.store(steps, Ordering::SeqCst);
        } else {
            let world = Arc::clone(&world);
            thread::spawn(move || world.kill_other());
        }
    }
    let asked = asker.join().expect("the asker does not panic");
    world.end();
    daemons.join().expect("the daemons do not panic");
    let held = other.join().expect("the other does not panic");
    match (asked, held) {
        (Some(one), Some(other)) => assert!(Arc::ptr_eq(&one, &other), "they hold different links"),
        (Some(_), None) => assert!(kill_other, "the other never got the link"),
        (None, _) => assert!(kill_other, "told of the death of one who lives"),
    }
}

/// How many schedules of each kind; `M3_SCHEDULES` asks for more.
fn schedules() -> usize {
    std::env::var("M3_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(800)
}

/// Runs schedules of few chosen switches, and of switches by chance.
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
    println!("T4 schedules: {all} of PCT depth 3 and {all} by chance, 0 failures");
}

/// Whether a broken rule is noticed.
fn is_noticed(rules: Rules, kills: usize, kill_other: bool) -> bool {
    std::panic::catch_unwind(|| explore(rules, kills, kill_other, 20_000)).is_err()
}

#[test]
fn t4_planted_faults_are_noticed() {
    let faults = [
        (Rules::AskerFirst, 1, false),
        (Rules::RecallForBoth, 1, false),
        (Rules::DeathUnseen, 1, true),
    ];
    let missed: Vec<_> = faults
        .into_iter()
        .filter(|(rules, kills, kill_other)| !is_noticed(*rules, *kills, *kill_other))
        .collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
    println!("T4 schedules: planted faults noticed {0}/{0}", faults.len());
}
