//! Errors: one small enum per operation.
//!
//! Each variant is one cause. The methods `code` give the code of the C contract.
//!
//! | cause | variants |
//! |---|---|
//! | mistake of the caller | `Stale`, `NoSuchSlot`, `TooLong`, `BufferTooSmall`, `WrongSize` |
//! | missing right | `Denied`, `CallDenied`, `NotGranted` |
//! | the peer died | `Died`, `DiedBefore`, `DiedAfter`, `Nobody` |
//! | the peer broke the rules | `PeerBroke` |
//! | the node of the peer is lost | `Unreachable`, `AnswerLost`, `Unknown` |
//! | the call ended early | `WouldBlock`, `TimedOut`, `Interrupted`, `Woken`, `Deadlock` |
//! | the same after the take | `TimedOutAfter`, `InterruptedAfter` |
//! | the caller's endpoint is gone | `Unbound` |
//! | operating system or daemon | `System` |

mod fail;
mod grant;
mod peer;
mod priority;
mod refusal;
mod reply_receive;
#[cfg(test)]
mod tests;
mod text;
mod timer;

/// An error with a number: a code of the C contract, or an errno of a socket. `Debug` of an
/// [`Unsent`](crate::Unsent) prints it.
///
/// ```
/// use m3ipc::{Address, ErrorNumber, SendError};
///
/// assert_eq!(SendError::Died(Address(5)).number(), -109);
/// ```
pub trait ErrorNumber: std::error::Error {
    /// The number.
    fn number(&self) -> i32;
}

pub(crate) use fail::Fail;
pub use grant::GrantError;
pub use peer::{
    BindError, CopyError, NotifyError, PulseError, ReceiveError, ReplyError, SendError,
    SendRecError, UnbindError, WaitError, WakeupError, WatchError,
};
pub use priority::PriorityError;
pub use refusal::{AreaError, NameError, NodeError, Refusal};
pub use reply_receive::ReplyReceiveError;
pub use timer::TimerError;
