//! Time limits of calls.

use std::time::Duration;

/// How long a call may take as a whole.
///
/// ```
/// use m3ipc::Timeout;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// assert_eq!(Timeout::from(second), Timeout::After(second));
/// assert_eq!(Timeout::from(None), Timeout::Never);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Do only what is possible now. A peer that already waits for the caller counts as ready,
    /// and gets the time that a wake-up takes.
    NoWait,
    /// Wait at most this long.
    After(Duration),
    /// Wait without a limit.
    Never,
}

impl Timeout {
    /// Converts the form of the C contract: milliseconds, 0 for no wait, negative for no limit.
    ///
    /// ```
    /// # use m3ipc::Timeout;
    /// assert_eq!(Timeout::from_ms(0), Timeout::NoWait);
    /// assert_eq!(Timeout::from_ms(-1), Timeout::Never);
    /// ```
    #[must_use]
    pub fn from_ms(ms: i64) -> Self {
        match u64::try_from(ms) {
            Ok(0) => Self::NoWait,
            Ok(ms) => Self::After(Duration::from_millis(ms)),
            Err(_) => Self::Never,
        }
    }

    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Self::NoWait => Deadline { at_ns: 0, no_wait: true },
            Self::After(limit) => {
                let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                let at_ns = m3ipc_sys::monotonic_ns().saturating_add(limit_ns);
                Deadline { at_ns, no_wait: false }
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

/// `None` is no limit.
impl From<Option<Duration>> for Timeout {
    fn from(limit: Option<Duration>) -> Self {
        limit.map_or(Self::Never, Self::After)
    }
}

/// A time limit as a point of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at_ns: u64,
    pub(crate) no_wait: bool,
}

impl Deadline {
    /// No limit.
    pub(crate) const NEVER: Self = Self { at_ns: u64::MAX, no_wait: false };

    pub(crate) fn is_finite(self) -> bool {
        self.at_ns != u64::MAX
    }
}
