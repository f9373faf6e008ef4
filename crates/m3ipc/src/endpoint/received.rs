//! A received message and the choice of its source.

use crate::error::{Fail, ReceiveError};
use m3ipc_abi::{ANY, Address, Code, HARDWARE, Message, SYSTEM};
use m3ipc_link::MessageKind;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// A notification with a code and a value. The example is at
/// [`Endpoint::pulse`](crate::Endpoint::pulse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// What it is about. The programs choose the meaning.
    pub code: u8,
    /// The value. The programs choose the meaning.
    pub value: u64,
}

/// The kind of what a receive took. The sender of a message cannot choose it. The example is at
/// [`Endpoint::latest_kind`](crate::Endpoint::latest_kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceivedKind {
    /// A message or an answer.
    Message,
    /// A message whose sender waits for an answer.
    Request,
    /// A notification.
    Notification,
    /// A pulse, of a peer or of a timer of the endpoint itself.
    Pulse(Pulse),
    /// The report that this endpoint, which the caller watches, is gone.
    Death(Address),
}

impl From<MessageKind> for ReceivedKind {
    fn from(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Request => Self::Request,
            MessageKind::Send | MessageKind::Reply | MessageKind::Relay => Self::Message,
        }
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
    /// may choose the type of a notification. A pulse is no notification here:
    /// [`Endpoint::latest_kind`](crate::Endpoint::latest_kind) has its code and value.
    pub is_notification: bool,
    /// The watched endpoint whose death this notification reports. The example is at
    /// [`Endpoint::watch`](crate::Endpoint::watch).
    pub died: Option<Address>,
}

impl Received {
    /// The notification of a source. Only HARDWARE and SYSTEM have an argument.
    pub(super) fn of_notification(source: Address, bits: u64) -> Self {
        Self::notification(source, Self::argument_of(source, bits))
    }

    /// The argument of a notification with these bits.
    pub(super) fn argument_of(source: Address, bits: u64) -> u64 {
        if source == HARDWARE || source == SYSTEM { bits } else { 0 }
    }

    /// A notification, with the time of day.
    pub(super) fn notification(source: Address, bits: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, rest_ns) = (now.as_secs().cast_signed(), i64::from(now.subsec_nanos()));
        let message = Message::notification(source, bits, seconds, rest_ns);
        Self { message, bytes: 0, is_request: false, is_notification: true, died: None }
    }

    /// A pulse.
    pub(super) fn pulse(message: Message) -> Self {
        Self { message, bytes: 0, is_request: false, is_notification: false, died: None }
    }

    /// Fails if the payload is longer than the caller's buffer.
    pub(crate) fn whole_in(self, buffer_bytes: usize) -> Result<Self, ReceiveError> {
        let Self { message, bytes, is_request, .. } = self;
        if bytes > buffer_bytes {
            return Err(ReceiveError::too_small(message, bytes, buffer_bytes, is_request));
        }
        Ok(self)
    }
}

/// Whether a receive found nothing, so that it has looked for everything.
pub(super) fn is_empty(received: &Result<Received, Fail>) -> bool {
    received.as_ref().is_err_and(|fail| fail.code == Code::Again)
}
