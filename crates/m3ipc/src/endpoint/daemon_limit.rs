//! The time limit of a request to the daemon, which is a part of a call.

use crate::control::ANSWER_NS;
pub(super) use crate::control::NO_WAIT_NS;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use std::time::Duration;

/// The limit of a request in an answer, which has no limit of its own. Only a large payload to a
/// new client needs the daemon.
const REPLY_NS: u64 = ANSWER_NS;

/// The end of the wait for a daemon, and the failure that it means.
#[derive(Clone, Copy, Debug)]
pub(super) struct DaemonLimit {
    at_ns: u64,
    /// The time from the first request on, until that request fixes the end; then 0.
    span_ns: u64,
    no_wait: bool,
    /// Whether the caller set the limit.
    is_own: bool,
}

impl Default for DaemonLimit {
    fn default() -> Self {
        Self { at_ns: 0, span_ns: NO_WAIT_NS, no_wait: true, is_own: true }
    }
}

impl DaemonLimit {
    /// The limit in a call that ends at this deadline.
    #[inline]
    pub(super) fn of(deadline: Deadline) -> Self {
        let span_ns = match (deadline.no_wait, deadline.is_finite()) {
            (true, _) => NO_WAIT_NS,
            (false, false) => ANSWER_NS,
            (false, true) => 0,
        };
        let Deadline { at_ns, no_wait } = deadline;
        Self { at_ns, span_ns, no_wait, is_own: deadline.is_finite() }
    }

    /// The limit in an answer.
    #[inline]
    pub(super) fn of_answer() -> Self {
        Self { at_ns: u64::MAX, span_ns: REPLY_NS, no_wait: false, is_own: true }
    }

    /// The limit for a call without a deadline.
    pub(super) fn default_from_now() -> Self {
        Self::of(Deadline::NEVER).begun()
    }

    /// The same limit with its end fixed. A second call changes nothing.
    pub(super) fn begun(self) -> Self {
        match self.span_ns {
            0 => self,
            span_ns => Self { at_ns: m3ipc_sys::monotonic_ns() + span_ns, span_ns: 0, ..self },
        }
    }

    /// The end of the wait, by the monotonic clock.
    pub(super) fn at_ns(self) -> u64 {
        self.at_ns
    }

    /// Whether the caller set the limit.
    pub(super) fn is_own(self) -> bool {
        self.is_own
    }

    /// Whether the caller does not wait, so that it awaits no stopped daemon.
    pub(super) fn is_no_wait(self) -> bool {
        self.no_wait
    }

    /// The time that is left.
    pub(super) fn left(self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(m3ipc_sys::monotonic_ns()))
    }

    /// Whether no time is left.
    pub(super) fn has_passed(self) -> bool {
        m3ipc_sys::monotonic_ns() >= self.at_ns
    }

    /// The failure of a call whose limit passed without an answer of the daemon, for this reason.
    pub(super) fn failure(self, silence: impl FnOnce() -> String) -> Fail {
        match (self.no_wait, self.is_own) {
            (true, _) => Code::Again.into(),
            (false, true) => Code::TimedOut.into(),
            (false, false) => Fail::new(Code::NotConn, silence()),
        }
    }
}
