//! A received message and the choice of its source.

use crate::error::ReceiveError;
use m3ipc_abi::{ANY, Address, Message};

/// The endpoints whose messages a receive takes. The example is at
/// [`Endpoint::receive`](crate::Endpoint::receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Every endpoint.
    Any,
    /// This endpoint alone.
    From(Address),
}

impl Source {
    pub(super) fn address(self) -> Address {
        match self {
            Self::Any => ANY,
            Self::From(address) => address,
        }
    }
}

impl From<Address> for Source {
    fn from(address: Address) -> Self {
        if address == ANY { Self::Any } else { Self::From(address) }
    }
}

/// A message and the facts about its delivery. The example is at
/// [`Endpoint::rcvrqst`](crate::Endpoint::rcvrqst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message with its source.
    pub message: Message,
    /// Length of the payload beside the message, in bytes.
    pub bytes: usize,
    /// Whether the sender waits for an answer.
    pub is_request: bool,
    /// Whether this is a notification. The type of the message is no proof: a sender
    /// may choose the type of a notification.
    pub is_notification: bool,
}

impl Received {
    /// Fails if the payload is longer than the caller's buffer.
    pub(crate) fn whole_in(self, buffer_bytes: usize) -> Result<Self, ReceiveError> {
        let Self { message, bytes, is_request, .. } = self;
        if bytes > buffer_bytes {
            return Err(ReceiveError::too_small(message, bytes, buffer_bytes, is_request));
        }
        Ok(self)
    }
}
