//! Short messages, which have no payload beside their 40 bytes: the steps of the fast path.
//!
//! Each of these functions does the ordinary case of a function of the parent module, in a few
//! instructions. In every other case it does nothing and says so; the caller then takes the general
//! function.

use super::Link;
use crate::layout::{LONG_BYTES, PAYLOAD, STAMP, TYPE};
use crate::slot::{self, MessageKind, SlotPhase, SlotState};
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Message, PAYLOAD_BYTES};

/// What a look at the peer's slot found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// No message and no request.
    Nothing,
    /// A message.
    Send(SlotState),
    /// A request.
    Request(SlotState),
}

impl<P: Page> Link<P> {
    /// Whether a message may be posted: the peer has taken the last one, its own slot is empty, and
    /// it awaits no answer. `false` also in rare cases in which a message may be posted.
    #[must_use]
    #[inline]
    pub fn is_ready_to_post(&self) -> bool {
        self.owed.is_none() && self.is_last_taken() && self.is_quiet()
    }

    /// Whether an answer may be posted: the peer awaits one, and has taken the last message of this
    /// side. `false` also in rare cases in which an answer may be posted.
    #[must_use]
    #[inline]
    pub fn is_ready_to_answer(&self) -> bool {
        self.owes_answer() && self.is_last_taken()
    }

    #[inline]
    fn is_last_taken(&self) -> bool {
        self.own_word().load(Ordering::Acquire) == self.last.in_phase(SlotPhase::Taken).encode()
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
        let slot = self.own_slot;
        self.page.word64(slot + STAMP).store(stamp, Ordering::Relaxed);
        self.page.word32(slot + TYPE).store(m_type.cast_unsigned(), Ordering::Relaxed);
        self.page.word32(slot + LONG_BYTES).store(0, Ordering::Relaxed);
        self.page.write(slot + PAYLOAD, payload);
        self.last = slot::post(self.own_word(), self.last, kind);
        self.last
    }

    /// Posts a short answer, as [`answer`](Self::answer). The link must be
    /// [ready](Self::is_ready_to_answer). `false` if the peer does not await an answer any more.
    #[inline(always)]
    pub fn answer_short(&mut self, m_type: i32, payload: &[u8; PAYLOAD_BYTES]) -> bool {
        let Some(request) = self.owed.take() else { return false };
        let posted = self.post_short(MessageKind::Reply, request.sequence(), m_type, payload);
        // The peer decides, as in `answer`.
        slot::is_answer_awaited(self.peer_word(), request) || self.withdraw(posted) == Ok(false)
    }

    /// Looks for a message or a request of the peer.
    #[must_use]
    #[inline(always)]
    pub fn look(&self) -> Look {
        // Acquire: as in `slot::peek`.
        let found = self.peer_word().load(Ordering::Acquire);
        let of_kind = |kind| SlotState::of_kind(found, kind);
        let request = of_kind(MessageKind::Request).map(Look::Request);
        request.or_else(|| of_kind(MessageKind::Send).map(Look::Send)).unwrap_or(Look::Nothing)
    }

    /// The answer of the peer to this request, if it is there.
    #[must_use]
    #[inline(always)]
    pub fn look_for_answer(&self, request: SlotState) -> Option<SlotState> {
        // Acquire: as in `slot::peek`.
        let found = self.peer_word().load(Ordering::Acquire);
        let state = SlotState::of_kind(found, MessageKind::Reply)?;
        let stamp = self.page.word64(self.peer_slot + STAMP).load(Ordering::Relaxed);
        (stamp == request.sequence()).then_some(state)
    }

    /// Copies a short message of this kind and takes it; all but the source. `false` if it is not
    /// short, or its sender withdrew it: the copy is then void.
    #[must_use]
    #[inline(always)]
    pub fn take_short(&mut self, kind: MessageKind, state: SlotState, into: &mut Message) -> bool {
        let slot = self.peer_slot;
        if self.page.word32(slot + LONG_BYTES).load(Ordering::Relaxed) != 0 {
            return false;
        }
        into.m_type = self.page.word32(slot + TYPE).load(Ordering::Relaxed).cast_signed();
        self.page.read(slot + PAYLOAD, &mut into.payload);
        if !slot::take(self.peer_word(), state) {
            return false;
        }
        if kind == MessageKind::Request {
            self.owed = Some(state);
        }
        true
    }
}
