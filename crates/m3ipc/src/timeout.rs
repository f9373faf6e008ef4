//! Time limits of calls.

use std::time::Duration;

/// How long a call may take, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Only what can be done now. A peer that waits for the caller counts as
    /// ready, and gets the time that a wake-up takes.
    Now,
    /// At most so long.
    After(Duration),
    /// As long as it takes.
    Never,
}

impl Timeout {
    /// The limit in the contract's form: milliseconds, 0 for now, negative for never.
    #[must_use]
    pub fn from_ms(ms: i64) -> Self {
        match u64::try_from(ms) {
            Ok(0) => Self::Now,
            Ok(ms) => Self::After(Duration::from_millis(ms)),
            Err(_) => Self::Never,
        }
    }

    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Self::Now => Deadline { at_ns: 0, no_wait: true },
            Self::After(limit) => {
                let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                Deadline {
                    at_ns: m3ipc_sys::monotonic_ns().saturating_add(limit_ns),
                    no_wait: false,
                }
            }
            Self::Never => Deadline::NEVER,
        }
    }
}

impl From<Duration> for Timeout {
    fn from(limit: Duration) -> Self {
        Self::After(limit)
    }
}

/// A time limit as a point of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at_ns: u64,
    pub(crate) no_wait: bool,
}

impl Deadline {
    /// None.
    pub(crate) const NEVER: Self = Self { at_ns: u64::MAX, no_wait: false };

    pub(crate) fn is_finite(self) -> bool {
        self.at_ns != u64::MAX
    }
}
