//! The errors of timers.

use m3ipc_abi::Code;

/// Why a timer was not set.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, client) = node.pair();
/// use m3ipc::{Code, Pulse, TimerError};
/// use std::time::Duration;
///
/// let refused = loop {
///     if let Err(error) = server.set_timer(Pulse::default(), Duration::from_secs(9), None) {
///         break error;
///     }
/// };
/// assert_eq!((refused, refused.code()), (TimerError::TooMany(64), Code::NoMem));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The endpoint has as many timers as it may have.
    #[error("the endpoint has {0} timers already; cancel some")]
    TooMany(usize),
}

impl TimerError {
    /// The code of the C contract. The example is at [`TimerError`].
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::TooMany(_) => Code::NoMem,
        }
    }
}
