//! The errors of an answer that is followed by a receive.

use super::{ReceiveError, ReplyError};
use m3ipc_abi::Code;

/// Which half of a [`reply_receive`](crate::Endpoint::reply_receive) failed, and why.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, mut client) = node.pair();
/// use m3ipc::{Address, Code, Message, ReplyReceiveError};
///
/// match server.reply_receive(Address(1_000_000), &Message::new(0)) {
///     Err(error @ ReplyReceiveError::Reply(_)) => assert_eq!(error.code(), Code::Range),
///     other => panic!("the VM has no such slot: {other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyReceiveError {
    /// The answer was not given. Nothing was received.
    #[error(transparent)]
    Reply(ReplyError),
    /// No message was received. The answer was given before, if its client still waited.
    #[error("no message was received after the answer: {0}")]
    Receive(ReceiveError),
}

impl ReplyReceiveError {
    /// The code of the C contract. The example is at [`ReplyReceiveError`].
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Reply(error) => error.code(),
            Self::Receive(error) => error.code(),
        }
    }
}
