//! The values that go into a link and come out of it.

use crate::slot::{MessageKind, SlotState};
use m3ipc_abi::{BLOCK_NAME_BYTES, PAYLOAD_BYTES};

/// The part of a message beyond its 40 bytes: a long payload, or the name of a block.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_block: bool,
}

impl<'a> Payload<'a> {
    /// The name of a block.
    #[must_use]
    pub fn block(name: &'a [u8; BLOCK_NAME_BYTES]) -> Self {
        Self { bytes: name, is_block: true }
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, is_block: false }
    }
}

impl<'a> From<&'a Vec<u8>> for Payload<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self { bytes, is_block: false }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self { bytes, is_block: false }
    }
}

/// A message in the peer's slot that this side has not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its state word.
    pub state: SlotState,
    /// The time of its post, as the peer claims. For an answer: the number of the request.
    pub stamp: u64,
}

/// A taken message: a private copy.
#[derive(Clone, Copy, Debug)]
pub struct TakenMessage {
    /// Its kind.
    pub kind: MessageKind,
    /// Its type.
    pub m_type: i32,
    /// Its payload.
    pub payload: [u8; PAYLOAD_BYTES],
    /// Length of its long payload, in bytes.
    pub long_bytes: usize,
    /// Whether it brought the name of a block: see [`Link::block_name`](crate::Link::block_name).
    pub has_block: bool,
}

/// The outcome of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The peer has the answer, or will find it.
    Posted,
    /// The peer does not await an answer, or no longer does.
    NotAwaited,
}
