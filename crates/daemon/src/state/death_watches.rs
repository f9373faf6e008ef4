//! The processes and threads that the daemon watches, by pidfds and liveness locks.

use crate::death_watcher::{DeathWatcher, YieldLimit};
use crate::quota::Charge;
use crate::token::Token;
use m3ipc_link::ControlPageView;
use m3ipc_sys::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// The first process of the system or of a PID namespace. Its end would end all others.
pub(crate) const INIT: i32 = 1;

/// A pidfd, and its token in the daemon's poll.
#[derive(Debug)]
pub(crate) struct PidfdWatch {
    pub(crate) fd: OwnedFd,
    pub(crate) token: Token,
}

/// All watched processes and threads.
#[derive(Debug)]
pub(crate) struct DeathWatches {
    processes: HashMap<i32, PidfdWatch>,
    threads: HashMap<(i32, i32), PidfdWatch>,
    /// The charges for the watched creators of VMs, by VM.
    creators: HashMap<i32, Vec<Charge>>,
    liveness_locks: DeathWatcher,
    /// Of the yields to notified peers.
    pub(crate) yields: YieldLimit,
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalOutcome {
    /// It was sent, or the process has ended.
    Done,
    /// The process has rights of another user. The daemon, which may signal all processes, must not
    /// be lent to end such a program.
    Refused,
    /// The process is not watched yet, or the system lacks the resources to read its users.
    Unknown,
}

impl DeathWatches {
    /// No process and no thread, and a watcher of liveness locks.
    pub(crate) fn new(liveness_locks: DeathWatcher) -> Self {
        let (processes, threads, creators) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { processes, threads, creators, liveness_locks, yields: YieldLimit::default() }
    }

    /// Whether a process is watched.
    pub(crate) fn has_process(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Adds a process, whose pidfd is polled.
    pub(crate) fn add_process(&mut self, pid: i32, watch: PidfdWatch) {
        self.processes.insert(pid, watch);
    }

    /// Removes a process.
    pub(crate) fn remove_process(&mut self, pid: i32) -> Option<PidfdWatch> {
        self.processes.remove(&pid)
    }

    /// Whether a thread is watched.
    pub(crate) fn has_thread(&self, pid: i32, tid: i32) -> bool {
        self.threads.contains_key(&(pid, tid))
    }

    /// Adds a thread, whose pidfd is polled.
    pub(crate) fn add_thread(&mut self, pid: i32, tid: i32, watch: PidfdWatch) {
        self.threads.insert((pid, tid), watch);
    }

    /// Removes a thread.
    pub(crate) fn remove_thread(&mut self, pid: i32, tid: i32) -> Option<PidfdWatch> {
        self.threads.remove(&(pid, tid))
    }

    /// Keeps the charges for the watched creator of a VM.
    pub(crate) fn add_creator(&mut self, vm: i32, charges: Vec<Charge>) {
        self.creators.insert(vm, charges);
    }

    /// Gives the charges for the creator of a VM back.
    pub(crate) fn remove_creator(&mut self, vm: i32) {
        self.creators.remove(&vm);
    }

    /// Watches the liveness lock of an endpoint: see [`DeathWatcher::watch`].
    pub(crate) fn watch_lock(
        &mut self,
        token: Token,
        (pid, tid): (i32, Option<i32>),
        control_page: &Arc<ControlPageView>,
    ) {
        self.liveness_locks.watch(token, pid, tid, control_page);
    }

    /// Ends the watch of a connection's liveness lock.
    pub(crate) fn unwatch_lock(&mut self, token: Token) {
        self.liveness_locks.unwatch(token);
    }

    /// The connections whose liveness locks the kernel has marked.
    pub(crate) fn take_ended(&mut self) -> Vec<Token> {
        self.liveness_locks.take_ended()
    }

    /// Sends a signal to a watched process, if it has the rights of this user alone at this moment.
    /// A pidfd never reaches another process with that id.
    pub(crate) fn signal(&self, pid: i32, uid: u32, signal: m3ipc_sys::Signal) -> SignalOutcome {
        let Some(watch) = self.processes.get(&pid) else { return SignalOutcome::Unknown };
        let users = match m3ipc_sys::process_users(pid, &watch.fd) {
            Ok(users) => users,
            Err(Errno::SRCH) if has_ended(watch) => return SignalOutcome::Done,
            Err(errno) => {
                if crate::log::admits(uid) {
                    tracing::warn!(pid, %errno, "the users of a process cannot be read now");
                }
                return SignalOutcome::Unknown;
            }
        };
        // A process of root may have given up rights since; root may end it all the same.
        if pid == INIT || (uid != 0 && users != [uid; 4]) {
            if crate::log::admits(uid) {
                tracing::warn!(pid, uid, ?users, "a process with other rights gets no signal");
            }
            return SignalOutcome::Refused;
        }
        match m3ipc_sys::signal(&watch.fd, signal) {
            Ok(()) | Err(Errno::SRCH) => SignalOutcome::Done,
            Err(Errno::PERM) => {
                if crate::log::admits(uid) {
                    tracing::warn!(pid, uid, "the daemon may not signal a process; see CAP_KILL");
                }
                SignalOutcome::Refused
            }
            Err(errno) => {
                if crate::log::admits(uid) {
                    tracing::warn!(pid, %errno, "a process cannot be signalled now");
                }
                SignalOutcome::Unknown
            }
        }
    }
}

impl DeathWatches {
    /// Whether a watched process has ended, though the event loop may not have seen that yet.
    pub(crate) fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_some_and(has_ended)
    }
}

/// Whether the process of a pidfd has ended. A process that /proc hides has not.
fn has_ended(watch: &PidfdWatch) -> bool {
    m3ipc_sys::wait_readable(&[watch.fd.as_fd()], 0) == Ok(true)
}
