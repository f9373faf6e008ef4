//! Requests to the daemon about areas, within the time limit of the surrounding call.
//!
//! The daemon may be stopped: then the limit ends the wait. It may be gone, or not yet started
//! again: then the request goes to its successor.

use super::Endpoint;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The limit of a request in a call without a limit.
const UNLIMITED_NS: u64 = 10_000_000_000;
/// The limit of a request in a call that does not wait. A daemon that runs answers far sooner.
pub(super) const NO_WAIT_NS: u64 = 100_000_000;
/// The first and the longest pause while no daemon takes connections. Each attempt may start a
/// process.
const ABSENT_PAUSE: Duration = Duration::from_millis(2);
const ABSENT_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The end of the wait for a daemon, and the failure that it means.
#[derive(Clone, Copy, Debug)]
pub(super) struct DaemonLimit {
    at_ns: u64,
    no_wait: bool,
    /// Whether the caller set the limit.
    is_own: bool,
}

impl Default for DaemonLimit {
    fn default() -> Self {
        Self { at_ns: 0, no_wait: true, is_own: true }
    }
}

impl DaemonLimit {
    /// The limit in a call that ends at this deadline.
    pub(super) fn of(deadline: Deadline) -> Self {
        Self { at_ns: deadline.at_ns, no_wait: deadline.no_wait, is_own: deadline.is_finite() }
    }

    /// The limit for a call without a deadline.
    pub(super) fn default_from_now() -> Self {
        Self::of(Deadline::NEVER).begun()
    }

    /// The same limit with its end fixed: calls without a limit have one for the daemon.
    pub(super) fn begun(self) -> Self {
        let now_ns = m3ipc_sys::monotonic_ns();
        let at_ns = match (self.no_wait, self.is_own) {
            (true, _) => now_ns + NO_WAIT_NS,
            (false, false) => self.at_ns.min(now_ns + UNLIMITED_NS),
            (false, true) => self.at_ns,
        };
        Self { at_ns, ..self }
    }

    /// The same limit, at most this far in the future.
    pub(super) fn at_most(self, from_now_ns: u64) -> Self {
        let begun = self.begun();
        Self { at_ns: begun.at_ns.min(m3ipc_sys::monotonic_ns() + from_now_ns), ..begun }
    }

    pub(super) fn has_passed(self) -> bool {
        m3ipc_sys::monotonic_ns() >= self.at_ns
    }

    /// The failure of a call whose limit passed without an answer of the daemon.
    fn failure(self) -> Fail {
        match (self.no_wait, self.is_own) {
            (true, _) => Code::Again.into(),
            (false, true) => Code::TimedOut.into(),
            (false, false) => Fail::new(
                Code::NotConn,
                "the node daemon does not answer; it may be stopped (its pid is in the file `lock` \
                 of the runtime directory), or see its log",
            ),
        }
    }
}

impl Endpoint {
    /// Sends a request to the daemon, or to its successor if it died, and awaits the reply.
    pub(super) fn ask_within(
        &mut self,
        request: &Request,
        limit: DaemonLimit,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let limit = limit.begun();
        let mut pause = ABSENT_PAUSE;
        loop {
            let asked = if limit.is_own {
                self.control.request_until(request, limit.at_ns)
            } else {
                self.control.request_through(request, limit.at_ns)
            };
            match asked {
                Err(fail) if fail.code == Code::NotConn && limit.has_passed() => {
                    return Err(if limit.is_own { limit.failure() } else { fail });
                }
                Err(fail) if fail.code == Code::NotConn => {
                    self.find_daemon(limit, pause)?;
                    pause = (2 * pause).min(ABSENT_PAUSE_MAX);
                }
                Err(fail) if fail.code == Code::TimedOut => return Err(limit.failure()),
                other => return other,
            }
        }
    }

    /// Connects to the successor of a daemon that is gone, or pauses.
    fn find_daemon(&mut self, limit: DaemonLimit, pause: Duration) -> Result<(), Fail> {
        self.reattach_if_closed();
        self.check_bound()?;
        if self.control.is_closed() {
            let left_ns = limit.at_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            std::thread::sleep(pause.min(Duration::from_nanos(left_ns)));
        }
        Ok(())
    }
}
