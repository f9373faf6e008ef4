//! The processes and threads that the daemon watches, by their pidfds.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

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
    /// Sends a signal to a watched process. A pidfd never reaches another process with that id.
    pub(crate) fn signal(&self, pid: i32, signal: m3ipc_sys::Signal) {
        if let Some(watch) = self.processes.get(&pid) {
            // The process may have ended already.
            let _ = m3ipc_sys::signal(&watch.fd, signal);
        }
    }
}
