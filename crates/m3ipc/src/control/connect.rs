//! The connection to a daemon, which is started if none runs.

use super::fail::unreachable;
use crate::error::Fail;
use crate::{runtime, spawn};
use m3ipc_sys::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The time that a new daemon may take until it answers.
const START_LIMIT_NS: u64 = 5_000_000_000;
/// The time after which a second daemon is started, if the first gives no answer.
const START_AGAIN_NS: u64 = 200_000_000;

/// What to do if no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// Fail.
    Fail,
    /// Start the successor of a killed daemon, or else fail.
    Revive,
    /// Start a daemon that is ready for use.
    Start,
    /// Start a daemon that waits for `drvs_init`.
    StartUninitialised,
}

pub(super) fn connect_or_start(directory: &Path, if_absent: IfAbsent) -> Result<OwnedFd, Fail> {
    let path = runtime::socket(directory);
    match m3ipc_sys::connect(&path) {
        Ok(socket) => return Ok(socket),
        // A killed daemon leaves a socket that refuses connections.
        Err(Errno::CONNREFUSED) if if_absent != IfAbsent::Fail => {}
        Err(Errno::NOENT) if !matches!(if_absent, IfAbsent::Fail | IfAbsent::Revive) => {}
        Err(errno) => return Err(unreachable(&path, errno)),
    }
    let deadline_ns = m3ipc_sys::monotonic_ns() + START_LIMIT_NS;
    loop {
        // Start more than once: a dying daemon may still hold its lock, and a new daemon that finds
        // the lock gives up.
        spawn::daemon(directory, if_absent == IfAbsent::StartUninitialised)?;
        let again_ns = deadline_ns.min(m3ipc_sys::monotonic_ns() + START_AGAIN_NS);
        loop {
            match m3ipc_sys::connect(&path) {
                Ok(socket) => return Ok(socket),
                Err(errno) if m3ipc_sys::monotonic_ns() > deadline_ns => {
                    return Err(unreachable(&path, errno));
                }
                Err(_) if m3ipc_sys::monotonic_ns() > again_ns => break,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}
