//! The connection to a daemon, which is started if none runs.

use super::fail::{not_serving, unreachable};
use super::limit::RequestLimit;
use crate::error::Fail;
use crate::{daemon, runtime, spawn};
use m3ipc_sys::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The time after which a second daemon is started, if the first gives no answer.
const START_AGAIN_NS: u64 = 200_000_000;

/// The time in the queue of a daemon before a caller that does not wait checks whether that daemon
/// is stopped.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

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

/// Connects to the daemon that runs. A caller that does not wait leaves the full queue of a stopped
/// daemon soon.
fn connect_unless_stopped(
    directory: &Path,
    limit: RequestLimit,
) -> Result<OwnedFd, runtime::ConnectError> {
    let first = if limit.is_brief() { limit.left().min(QUEUE_PAUSE) } else { limit.left() };
    match runtime::connect_within(directory, first) {
        Err(error)
            if error.errno() == Some(Errno::AGAIN)
                && limit.is_brief()
                && !daemon::is_stopped(directory, None::<OwnedFd>) =>
        {
            runtime::connect_within(directory, limit.left())
        }
        other => other,
    }
}

/// A connection to an accepted daemon: the only way to one.
pub(super) fn connect_or_start(
    directory: &Path,
    if_absent: IfAbsent,
    limit: RequestLimit,
) -> Result<OwnedFd, Fail> {
    let error = match connect_unless_stopped(directory, limit) {
        Ok(socket) => return Ok(socket),
        Err(error) => error,
    };
    let may_start = match error.errno() {
        // A killed daemon leaves a socket that refuses connections.
        Some(Errno::CONNREFUSED) => if_absent != IfAbsent::Fail,
        Some(Errno::NOENT) => !matches!(if_absent, IfAbsent::Fail | IfAbsent::Revive),
        _ => false,
    };
    if !may_start {
        return Err(unreachable(&error));
    }
    let deadline_ns = limit.end_ns();
    loop {
        // Start more than once: a dying daemon may still hold its lock, and a new daemon that finds
        // the lock gives up.
        spawn::daemon(directory, if_absent == IfAbsent::StartUninitialised, deadline_ns)?;
        let again_ns = deadline_ns.min(m3ipc_sys::monotonic_ns() + START_AGAIN_NS);
        loop {
            match runtime::connect_within(directory, limit.left()) {
                Ok(socket) => return Ok(socket),
                Err(error) if error.errno().is_none() => return Err(unreachable(&error)),
                Err(error) if m3ipc_sys::monotonic_ns() > deadline_ns => {
                    return Err(not_serving(&error));
                }
                Err(_) if m3ipc_sys::monotonic_ns() > again_ns => break,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}
