//! The time limit of requests to the daemon, which may be stopped or out of descriptors.

use crate::timeout::{Deadline, Timeout};
use std::time::Duration;

/// The time for one answer of the daemon, in nanoseconds. A daemon that runs answers far sooner.
pub(crate) const ANSWER_NS: u64 = 5_000_000_000;
/// The same for a caller that does not wait. If the daemon is stopped, such a call ends sooner.
pub(crate) const NO_WAIT_NS: u64 = 100_000_000;

/// The limit of each request of a connection: [`ANSWER_NS`], and the end of the caller's own limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimit {
    at_ns: u64,
    /// Whether the caller does not wait, so that it awaits no stopped daemon.
    is_brief: bool,
}

impl RequestLimit {
    /// No limit of the caller.
    pub(crate) const ANSWER: Self = Self { at_ns: u64::MAX, is_brief: false };

    /// The limit of a caller that sets one for all requests together, from now on.
    pub(crate) fn of(limit: Timeout) -> Self {
        Self::until(limit.deadline())
    }

    /// The limit of a request in a call with this deadline.
    pub(crate) fn until(deadline: Deadline) -> Self {
        match deadline.no_wait {
            true => Self { at_ns: m3ipc_sys::monotonic_ns() + NO_WAIT_NS, is_brief: true },
            false => Self { at_ns: deadline.at_ns, is_brief: false },
        }
    }

    /// Whether the caller does not wait, so that it awaits no stopped daemon.
    pub(crate) fn is_brief(self) -> bool {
        self.is_brief
    }

    /// The end of the caller's own limit, if there is one, by the monotonic clock.
    pub(crate) fn at_ns(self) -> Option<u64> {
        (self.at_ns != u64::MAX).then_some(self.at_ns)
    }

    /// The end of a request that begins now, by the monotonic clock.
    pub(crate) fn end_ns(self) -> u64 {
        self.at_ns.min(m3ipc_sys::monotonic_ns().saturating_add(ANSWER_NS))
    }

    /// The time until the end of a request that begins now.
    pub(crate) fn left(self) -> Duration {
        Duration::from_nanos(self.end_ns().saturating_sub(m3ipc_sys::monotonic_ns()))
    }
}
