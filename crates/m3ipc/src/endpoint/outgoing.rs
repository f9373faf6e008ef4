//! A message as it is posted: type, inline payload, and what travels beside it.

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
        })
    }

    /// A message without a payload beside it.
    #[inline]
    pub(super) fn short(message: &'a Message) -> Self {
        Self { m_type: message.m_type, payload: &message.payload, long: &[], block: None }
    }

    /// A message with the name of a block.
    pub(super) fn with_block(message: &'a Message, name: &'a [u8; BLOCK_NAME_BYTES]) -> Self {
        Self { m_type: message.m_type, payload: &message.payload, long: &[], block: Some(name) }
    }

    /// Whether the long payload fits no link, so that it travels as a block.
    #[inline]
    pub(super) fn is_large(self) -> bool {
        self.long.len() > LONG_MAX_BYTES
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
        Outgoing { long: &[], block: Some(name), ..self }
    }

    /// Another message with the same long payload.
    pub(super) fn with_message<'b>(self, message: &'b Message) -> Outgoing<'b>
    where
        'a: 'b,
    {
        Outgoing { m_type: message.m_type, payload: &message.payload, ..self }
    }
}
