//! The time limit of a request to the daemon, which is a part of a call.

use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use std::time::Duration;

/// The limit of a request in a call without a limit.
const UNLIMITED_NS: u64 = 10_000_000_000;
/// The limit of a request in a call that does not wait. A daemon that runs answers far sooner.
pub(super) const NO_WAIT_NS: u64 = 100_000_000;
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

    /// The end of the wait, by the monotonic clock.
    pub(super) fn at_ns(self) -> u64 {
        self.at_ns
    }

    /// Whether the caller set the limit.
    pub(super) fn is_own(self) -> bool {
        self.is_own
    }

    /// The time that is left.
    pub(super) fn left(self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(m3ipc_sys::monotonic_ns()))
    }

    /// Whether no time is left.
    pub(super) fn has_passed(self) -> bool {
        m3ipc_sys::monotonic_ns() >= self.at_ns
    }

    /// The failure of a call whose limit passed without an answer of the daemon.
    pub(super) fn failure(self) -> Fail {
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
