//! How a request to one server ended.

use m3ipc_abi::{Address, MESSAGE_BYTES, Message, PAYLOAD_BYTES};

/// How a request to one server ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// An answer, and the length of its payload.
    Answered(Message, usize),
    /// The same with a block, whose bytes a stand-in has copied in place of a payload.
    ByBlock(Message, usize),
    /// A relay: the server to ask instead, and the message in place of the request, if any.
    Relayed(Address, Option<Message>),
}

impl RequestEnd {
    /// The end of a message that awaits no answer: it was taken.
    pub(super) const TAKEN: Self = Self::Answered(Message::new(0), 0);
}

/// The payload of a relay: the server to ask.
pub(super) fn payload_of_relay(next: Address) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    payload[..4].copy_from_slice(&next.0.to_ne_bytes());
    payload
}

/// What lies beside a relay whose message stands in place of the client's.
pub(super) fn words_of_relay(message: &Message) -> [u8; MESSAGE_BYTES] {
    let mut words = [0; MESSAGE_BYTES];
    words[4..8].copy_from_slice(&message.m_type.to_ne_bytes());
    words[8..].copy_from_slice(&message.payload);
    words
}
