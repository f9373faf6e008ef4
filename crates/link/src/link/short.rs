//! The steps of the fast path: for short messages, which have no payload beside their 40 bytes, and
//! for those whose payload lies in the link.
//!
//! Each of these functions does the ordinary case of a function of the parent module, in a few
//! instructions. In every other case it does nothing and says so; the caller then takes the general
//! function.

use super::Link;
use crate::head::Head;
use crate::slot::{self, MessageKind, SlotState, Withdrawing};
use crate::words::{LinePage, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Message, PAYLOAD_BYTES};

/// What a peer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Neither a message nor a notification.
    Nothing,
    /// This message or request, and no notification.
    Message(MessageKind, SlotState),
    /// Notifications, and no message.
    Notification,
    /// Anything else: both, an answer, or a word that no rule makes.
    Other,
}

impl<P: LinePage> Link<P> {
    /// Whether a message may be posted: the peer has taken the last one, its own slot is empty, and
    /// it awaits no answer. `false` also in rare cases in which a message may be posted.
    #[must_use]
    #[inline]
    pub fn is_ready_to_post(&self) -> bool {
        self.owed.is_none() && self.is_last_taken() && self.is_quiet()
    }

    /// The request that may be answered: the peer awaits an answer, and has taken the last message
    /// of this side. `None` also in rare cases in which an answer may be posted.
    #[must_use]
    #[inline(always)]
    pub fn ready_to_answer(&self) -> Option<SlotState> {
        let request = self.owed?;
        let is_ready = slot::is_answer_awaited(self.peer_word(), request) && self.is_last_taken();
        is_ready.then_some(request)
    }

    /// Whether the peer has taken the last message of this side, which was not withdrawn.
    #[must_use]
    #[inline]
    pub fn is_last_taken(&self) -> bool {
        self.last.is_taken_in(self.own_word().load(Ordering::Acquire))
    }

    /// Posts a short message, as [`post`](Self::post). The link must be
    /// [ready](Self::is_ready_to_post).
    #[inline(always)]
    pub fn post_short(
        &mut self,
        kind: MessageKind,
        stamp: u64,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> SlotState {
        self.publish(kind, (stamp, Head::short(m_type)), payload)
    }

    /// Posts a short answer to the request that is [ready](Self::ready_to_answer), as
    /// [`answer`](Self::answer). `false` if the peer does not await an answer any more.
    #[inline(always)]
    pub fn answer_short(
        &mut self,
        request: SlotState,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> bool {
        self.owed = None;
        let posted = self.post_short(MessageKind::Reply, request.sequence(), m_type, payload);
        self.is_answer_kept(request, posted)
    }

    /// The same with a payload that the link holds.
    #[inline]
    pub fn answer_long(
        &mut self,
        request: SlotState,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
        long: &[u8],
    ) -> bool {
        self.owed = None;
        let posted = self.post(MessageKind::Reply, request.sequence(), m_type, payload, long);
        self.is_answer_kept(request, posted)
    }

    /// The peer decides, as in [`answer`](Self::answer).
    #[inline(always)]
    fn is_answer_kept(&self, request: SlotState, posted: SlotState) -> bool {
        slot::is_answer_awaited(self.peer_word(), request)
            || self.withdraw(posted) == Ok(Withdrawing::Taken)
    }

    /// Whether the peer has surely sent neither a message nor a notification. This is the poll of
    /// most links: two loads.
    #[must_use]
    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        self.is_quiet() && !self.has_notification()
    }

    /// Looks for what the peer has sent, by two loads.
    #[must_use]
    #[inline(always)]
    pub fn look_for_all(&self) -> Look {
        // Acquire: as in `slot::peek`.
        let found = self.peer_word().load(Ordering::Acquire);
        let has_notification = self.has_notification();
        if !slot::is_full(found) {
            return if has_notification { Look::Notification } else { Look::Nothing };
        }
        match SlotState::of_asking(found) {
            Some((kind, state)) if !has_notification => Look::Message(kind, state),
            _ => Look::Other,
        }
    }

    /// Looks for a message or a request of the peer.
    #[must_use]
    #[inline(always)]
    pub fn look(&self) -> Option<(MessageKind, SlotState)> {
        // Acquire: as in `slot::peek`.
        SlotState::of_asking(self.peer_word().load(Ordering::Acquire))
    }

    /// The answer of the peer to this request, if it is there.
    #[must_use]
    #[inline(always)]
    pub fn look_for_answer(&self, request: SlotState) -> Option<SlotState> {
        // Acquire: as in `slot::peek`.
        let found = self.peer_word().load(Ordering::Acquire);
        let state = SlotState::of_kind(found, MessageKind::Reply)?;
        (self.peer_stamp() == request.sequence()).then_some(state)
    }

    /// Copies a short message of this kind and takes it. `None` if it is not short, or its sender
    /// withdrew it. The caller names the source.
    #[must_use]
    #[inline(always)]
    pub fn take_short(
        &mut self,
        kind: MessageKind,
        state: SlotState,
        source: Address,
    ) -> Option<Message> {
        let head = self.peer_head();
        if !head.is_short() {
            return None;
        }
        let payload = self.peer_payload();
        if !self.take_copied(kind, state) {
            return None;
        }
        Some(Message { source, m_type: head.m_type, payload })
    }

    /// Copies a message of this kind and takes it. `into` gives the memory for the payload beside
    /// it; the result has the full length. `None` if the payload is a block or longer than a link,
    /// or if the sender withdrew the message.
    #[must_use]
    #[inline]
    pub fn take_long<'a>(
        &mut self,
        kind: MessageKind,
        state: SlotState,
        source: Address,
        into: impl FnOnce(usize) -> &'a mut [u8],
    ) -> Option<(Message, usize)> {
        // One load: the peer may change the length at any time.
        let head = self.peer_head();
        let bytes = head.long_bytes()?;
        let long = into(bytes);
        let (m_type, payload) = (head.m_type, self.peer_payload());
        let fitting = bytes.min(long.len());
        if fitting > 0 {
            self.page.read(self.side.other().long(), &mut long[..fitting]);
        }
        self.take_copied(kind, state).then_some((Message { source, m_type, payload }, bytes))
    }

    /// Takes the message that was copied. `false` if its sender withdrew it.
    #[inline(always)]
    fn take_copied(&mut self, kind: MessageKind, state: SlotState) -> bool {
        if !slot::take(self.peer_word(), state) {
            return false;
        }
        if kind == MessageKind::Request {
            self.owed = Some(state);
        }
        true
    }
}
