//! How a request ends without its answer.

use m3ipc::SendError;

/// Why a request ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No endpoint lives at the address, or the peer died.
    Died,
    /// The peer moves to another node.
    Moved,
    /// The time limit passed.
    TimedOut,
    /// The caller gave the request up.
    Cancelled,
    /// The server has no room for the request: its limits are reached.
    Busy,
    /// The server shuts down.
    ShuttingDown,
    /// The own endpoint is gone.
    Closed,
    /// The peer broke the format of calls, or the rules of the link.
    PeerBroke,
    /// The body is longer than [`Config::max_body_bytes`](crate::Config::max_body_bytes), or the
    /// codec cannot encode the value.
    BadRequest(String),
    /// The link refused the message. [`SendError::TooLong`]: it is longer than the peer takes.
    Link(SendError),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Died => "the server is dead",
            Self::Moved => "the server moves to another node; call again",
            Self::TimedOut => "the time limit passed",
            Self::Cancelled => "the caller gave it up",
            Self::Busy => "the server has no room; call later",
            Self::ShuttingDown => "the server shuts down; call its successor",
            Self::Closed => "the own endpoint is gone; bind again",
            Self::PeerBroke => "the server broke the rules; check its version",
            Self::BadRequest(why) => why,
            Self::Link(error) => return error.fmt(f),
        })
    }
}

impl Reason {
    pub(crate) fn of(error: SendError) -> Self {
        match error {
            SendError::Died(_) | SendError::Stale(_) => Self::Died,
            SendError::Moved(_) => Self::Moved,
            SendError::PeerBroke(_) => Self::PeerBroke,
            SendError::Unbound(_) => Self::Closed,
            other => Self::Link(other),
        }
    }
}

/// A failure that the server gives as its answer.
///
/// ```
/// let fault = m3ipc_calls::Fault::new("no such file");
/// assert_eq!(fault.to_string(), "no such file");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What the server says.
    pub message: String,
}

impl Fault {
    /// A failure with this text. The example is at [`Fault`].
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The end of a request without its answer. The kind says whether a repeat is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server never began the request, and never will.
    #[error("the server did not take the request: {0}")]
    NotTaken(Reason),
    /// The server took the request. Its work may have been done, or not.
    #[error("the server took the request and gave no answer: {0}")]
    Taken(Reason),
    /// The server answered with a failure, or with bytes that are no answer of the expected type.
    #[error("the server answered: {0}")]
    Answered(Fault),
}
