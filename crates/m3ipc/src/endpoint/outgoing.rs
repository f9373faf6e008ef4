//! A message as it is posted: type, inline payload, and what travels beside it.

use crate::octets::Octets;
use m3ipc_abi::{BLOCK_NAME_BYTES, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message, PAYLOAD_BYTES};
use m3ipc_link::Payload;

/// A message as it is posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) m_type: i32,
    pub(super) payload: &'a [u8; PAYLOAD_BYTES],
    pub(super) long: &'a [u8],
    /// The name of a block, in place of a long payload.
    pub(super) block: Option<&'a [u8; BLOCK_NAME_BYTES]>,
    /// Whether the receiver gets a block of its own with these bytes, and no long payload.
    pub(super) as_block: bool,
}

/// Bytes of another node that travel beside a message.
#[derive(Debug)]
pub(crate) struct Beside {
    bytes: Octets,
    /// Whether they are the content of a block.
    is_block: bool,
}

impl From<Vec<u8>> for Beside {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Octets(bytes), is_block: false }
    }
}

impl Beside {
    /// Nothing.
    pub(super) const fn none() -> Self {
        Self { bytes: Octets(Vec::new()), is_block: false }
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The content of a block.
    pub(crate) const fn block(bytes: Vec<u8>) -> Self {
        Self { bytes: Octets(bytes), is_block: true }
    }
}

impl<'a> Outgoing<'a> {
    /// A message with a long payload; `None` if that is longer than [`LARGE_MAX_BYTES`].
    #[inline]
    pub(super) fn new(message: &'a Message, long: &'a [u8]) -> Option<Self> {
        (long.len() <= LARGE_MAX_BYTES).then_some(Self {
            m_type: message.m_type,
            payload: &message.payload,
            long,
            block: None,
            as_block: false,
        })
    }

    /// A message with these bytes beside it; `None` if they are more than [`LARGE_MAX_BYTES`].
    pub(super) fn with(message: &'a Message, beside: &'a Beside) -> Option<Self> {
        let as_block = beside.is_block;
        Self::new(message, &beside.bytes).map(|outgoing| Self { as_block, ..outgoing })
    }

    /// A message without a payload beside it.
    #[inline]
    pub(super) fn short(message: &'a Message) -> Self {
        let Message { m_type, payload, .. } = message;
        Self { m_type: *m_type, payload, long: &[], block: None, as_block: false }
    }

    /// A message with the name of a block.
    pub(super) fn with_block(message: &'a Message, name: &'a [u8; BLOCK_NAME_BYTES]) -> Self {
        Self { block: Some(name), ..Self::short(message) }
    }

    /// Whether the bytes have to travel as a block: they fit no link, or become a block.
    #[inline]
    pub(super) fn is_large(self) -> bool {
        self.long.len() > LONG_MAX_BYTES || self.as_block
    }

    /// The part that travels beside the message in the link.
    #[inline]
    pub(super) fn payload_view(self) -> Payload<'a> {
        match self.block {
            Some(name) => Payload::block(name),
            None => self.long.into(),
        }
    }

    /// The same message without the block, whose owner is the first receiver already.
    pub(super) fn without_block(self) -> Self {
        Self { block: None, ..self }
    }

    /// The same message with a block in place of its long payload.
    pub(super) fn carrying<'b>(self, name: &'b [u8; BLOCK_NAME_BYTES]) -> Outgoing<'b>
    where
        'a: 'b,
    {
        Outgoing { long: &[], block: Some(name), as_block: false, ..self }
    }

    /// Another message with the same long payload.
    pub(super) fn with_message<'b>(self, message: &'b Message) -> Outgoing<'b>
    where
        'a: 'b,
    {
        Outgoing { m_type: message.m_type, payload: &message.payload, ..self }
    }
}
