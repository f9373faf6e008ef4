//! The shared state of a schedule: listener, journal, living members, planned kills.

use super::frame::Frame;
use super::socket::Socket;
use m3ipc_abi::{NodeLimits, VmLimits};
use m3ipc_daemon::tables::{Credentials, Node, Quota, Record, VmSpec};
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use std::collections::BTreeSet;

/// The VM.
pub const VM: i32 = 0;
/// The requester of the link, and the other member. Process and slot have the same number.
pub const REQUESTER: i32 = 30;
pub const OTHER: i32 = 31;

/// Planted faults. The schedules must detect each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// No fault: the rules of the daemon.
    Real,
    /// The requester gets its link before the journal has the change and the peer has its event.
    RequesterFirst,
    /// One party's statement about a link counts for both parties.
    RecallForBoth,
    /// A new daemon does not notice members that died before its start.
    DeathUnseen,
}

/// The shared state of all threads.
pub struct Fixture {
    pub rules: Rules,
    /// The socket of the running daemon.
    pub listener: Mutex<Option<Arc<Socket>>>,
    pub listening: Condvar,
    pub journal: Mutex<Vec<Record>>,
    pub alive: Mutex<BTreeSet<i32>>,
    /// The sockets of all daemons, for reports of deaths by the kernel.
    pub daemon_sockets: Mutex<Vec<Arc<Socket>>>,
    /// Steps until the kill of the daemon, and of the other member.
    pub steps_left: AtomicUsize,
    pub other_steps_left: AtomicUsize,
    pub other_killed: AtomicBool,
    pub over: AtomicBool,
}

impl Fixture {
    pub fn new(rules: Rules) -> Self {
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
            daemon_sockets: Mutex::new(Vec::new()),
            steps_left: AtomicUsize::new(usize::MAX),
            other_steps_left: AtomicUsize::new(usize::MAX),
            other_killed: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Ends all waits.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        for daemon in &*self.daemon_sockets.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Kill);
        }
        let _listener = self.listener.lock().expect("no thread panics with the lock");
        self.listening.notify_all();
    }

    /// Kills the other member at its present step.
    pub fn kill_other(&self) {
        self.other_killed.store(true, Ordering::SeqCst);
        for daemon in &*self.daemon_sockets.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Wake(OTHER));
        }
    }

    /// Reports the end of a process to the daemons.
    pub fn report_death(&self, pid: i32) {
        self.alive.lock().expect("no thread panics with the lock").remove(&pid);
        for daemon in &*self.daemon_sockets.lock().expect("no thread panics with the lock") {
            let _ = daemon.send(Frame::Dead(pid));
        }
    }
}
