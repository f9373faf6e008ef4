//! The processes and threads that the daemon watches, by their pidfds.

use crate::quota::Charge;
use m3ipc_sys::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

/// The first process of the system or of a PID namespace. Its end would end all others.
pub(crate) const INIT: i32 = 1;

/// A pidfd, and its token in the daemon's poll.
#[derive(Debug)]
pub(crate) struct PidfdWatch {
    pub(crate) fd: OwnedFd,
    pub(crate) token: u64,
}

/// All watched processes and threads.
#[derive(Debug, Default)]
pub(crate) struct WatchedProcesses {
    pub(crate) processes: HashMap<i32, PidfdWatch>,
    pub(crate) threads: HashMap<(i32, i32), PidfdWatch>,
    /// The charges for the watched creators of VMs, by VM.
    pub(crate) creators: HashMap<i32, Vec<Charge>>,
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

impl WatchedProcesses {
    /// Sends a signal to a watched process, if it has the rights of this user alone at this moment.
    /// A pidfd never reaches another process with that id.
    pub(crate) fn signal(&self, pid: i32, uid: u32, signal: m3ipc_sys::Signal) -> SignalOutcome {
        let Some(watch) = self.processes.get(&pid) else { return SignalOutcome::Unknown };
        let users = match m3ipc_sys::process_users(pid, &watch.fd) {
            Ok(users) => users,
            Err(Errno::SRCH) if has_ended(watch) => return SignalOutcome::Done,
            Err(errno) => {
                tracing::warn!(pid, %errno, "the users of a process cannot be read now");
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
                tracing::warn!(pid, uid, "the daemon may not signal this process; see CAP_KILL");
                SignalOutcome::Refused
            }
            Err(errno) => {
                tracing::warn!(pid, %errno, "a process cannot be signalled now");
                SignalOutcome::Unknown
            }
        }
    }
}

impl WatchedProcesses {
    /// Whether a watched process has ended, though the event loop may not have seen that yet.
    pub(crate) fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_some_and(has_ended)
    }
}

/// Whether the process of a pidfd has ended. A process that /proc hides has not.
fn has_ended(watch: &PidfdWatch) -> bool {
    m3ipc_sys::wait_readable(&[watch.fd.as_fd()], 0) == Ok(true)
}
