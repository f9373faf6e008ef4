//! How a request to one server ended.

use m3ipc_abi::{Address, Message};

/// How a request to one server ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// An answer, and the length of its payload.
    Answered(Message, usize),
    /// A relay: the server to ask instead, and the message in place of the request, if any.
    Relayed(Address, Option<Message>),
}

impl RequestEnd {
    /// The end of a message that awaits no answer: it was taken.
    pub(super) const TAKEN: Self = Self::Answered(Message::new(0), 0);
}
