//! The processes and threads that the daemon watches, by their pidfds.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

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
}

impl WatchedProcesses {
    /// Sends a signal to a watched process of this user. A pidfd never reaches another process with
    /// that id. `false` if the process now has rights of another user: the daemon, which may signal
    /// all processes, must not be lent to end such a program.
    pub(crate) fn signal(&self, pid: i32, uid: u32, signal: m3ipc_sys::Signal) -> bool {
        let Some(watch) = self.processes.get(&pid) else { return true };
        let Ok(users) = m3ipc_sys::process_users(pid, &watch.fd) else { return true };
        // A process of root may have given up rights since; root may end it all the same.
        if pid == INIT || (uid != 0 && users != [uid; 4]) {
            tracing::warn!(pid, uid, ?users, "a process with other rights gets no signal");
            return false;
        }
        // The process may have ended already.
        let _ = m3ipc_sys::signal(&watch.fd, signal);
        true
    }
}
