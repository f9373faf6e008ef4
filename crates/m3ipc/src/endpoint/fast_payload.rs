//! What travels beside a message on the fast path: nothing, or a payload in the link.
//!
//! A verb runs the same steps for both. Only its post and its take differ, so a short message pays
//! nothing for the long ones. A payload that no link holds takes the slow path.

use super::buffer::Buffer;
use super::peer::Peer;
use m3ipc_abi::{Address, LONG_MAX_BYTES, Message};
use m3ipc_link::{Link, MessageKind, SlotState};

/// How a verb posts its message.
pub(super) trait Outward: Copy {
    /// Posts a message. The link must be [ready](Link::is_ready_to_post).
    fn post(self, link: &mut Link, kind: MessageKind, stamp: u64, message: &Message) -> SlotState;
    /// Posts the answer to the request that is [ready](Link::ready_to_answer). `false` if the peer
    /// does not await an answer any more.
    fn answer(self, link: &mut Link, request: SlotState, message: &Message) -> bool;
}

/// How a verb takes a message.
pub(super) trait Inward {
    /// A taken message.
    type Taken;
    /// Takes a message. `None` if it was not taken.
    fn take(&mut self, peer: &mut Peer, kind: MessageKind, found: SlotState)
    -> Option<Self::Taken>;
    /// A notification, which has nothing beside it.
    fn notification(&mut self, message: Message) -> Self::Taken;
    /// The source of a taken message.
    fn source(taken: &Self::Taken) -> Address;
}

/// Nothing travels beside the message.
#[derive(Clone, Copy)]
pub(super) struct Nothing;

/// A payload that a link holds, perhaps an empty one.
#[derive(Clone, Copy)]
pub(super) struct InLink<'a>(&'a [u8]);

impl<'a> InLink<'a> {
    /// This payload; `None` if no link holds it.
    #[inline]
    pub(super) fn new(long: &'a [u8]) -> Option<Self> {
        (long.len() <= LONG_MAX_BYTES).then_some(Self(long))
    }
}

impl Outward for Nothing {
    #[inline(always)]
    fn post(self, link: &mut Link, kind: MessageKind, stamp: u64, message: &Message) -> SlotState {
        link.post_short(kind, stamp, message.m_type, &message.payload)
    }

    #[inline(always)]
    fn answer(self, link: &mut Link, request: SlotState, message: &Message) -> bool {
        link.answer_short(request, message.m_type, &message.payload)
    }
}

impl Outward for InLink<'_> {
    #[inline]
    fn post(self, link: &mut Link, kind: MessageKind, stamp: u64, message: &Message) -> SlotState {
        link.post(kind, stamp, message.m_type, &message.payload, self.0)
    }

    #[inline]
    fn answer(self, link: &mut Link, request: SlotState, message: &Message) -> bool {
        link.answer_long(request, message.m_type, &message.payload, self.0)
    }
}

impl Inward for Nothing {
    type Taken = Message;

    #[inline(always)]
    fn take(&mut self, peer: &mut Peer, kind: MessageKind, found: SlotState) -> Option<Message> {
        peer.take_short(kind, found)
    }

    #[inline(always)]
    fn notification(&mut self, message: Message) -> Message {
        message
    }

    #[inline(always)]
    fn source(taken: &Message) -> Address {
        taken.source
    }
}

/// The payload goes to the caller's memory; its full length is beside the message.
impl Inward for &mut Buffer<'_> {
    type Taken = (Message, usize);

    #[inline]
    fn take(
        &mut self,
        peer: &mut Peer,
        kind: MessageKind,
        found: SlotState,
    ) -> Option<(Message, usize)> {
        let source = peer.address();
        peer.link_mut().take_long(kind, found, source, |bytes| self.for_link(bytes))
    }

    #[inline]
    fn notification(&mut self, message: Message) -> (Message, usize) {
        self.for_link(0);
        (message, 0)
    }

    #[inline]
    fn source((message, _bytes): &(Message, usize)) -> Address {
        message.source
    }
}
