//! The link: the one page between exactly two endpoints. [`crate::layout`] has its layout.
//!
//! Both parties can write the whole page. So each party keeps a private record of its posted
//! message and of the request that it owes an answer to. It believes the page only where a rule
//! leads from that record to the word it reads. A peer can spoil only its own conversation.

mod canceller;
mod holding;
mod holding_block;
mod notification;
mod pulse;
mod short;

pub use canceller::RequestCanceller;
pub use short::Look;

use crate::head::Head;
use crate::layout::{HEAD, LinkSide, STAMP};
use crate::message::{AnswerOutcome, Arrival, Payload, TakenMessage};
use crate::pulse_places::PulsePlaces;
use crate::slot::{
    self, Cancelled, MessageFate, MessageKind, RuleBroken, SlotPhase, SlotRefusal, SlotState,
    Withdrawing,
};
use crate::words::{LinePage, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::{BLOCK_NAME_BYTES, LONG_MAX_BYTES, PAYLOAD_BYTES};
use m3ipc_shm::SharedPage;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// One party's side of a link.
#[derive(Debug)]
pub struct Link<P: LinePage = SharedPage> {
    /// The slot of this side, and that of the peer.
    own: Slot<P>,
    peer: Slot<P>,
    /// The notifications of the peer.
    peer_notifications: P::Line,
    page: P,
    side: LinkSide,
    /// The last message of this side, as it was posted.
    last: SlotState,
    /// The taken request that this side has not answered yet.
    owed: Option<SlotState>,
    /// The same request, once this side has posted a message that is no reply: its take answers.
    owed_behind: Option<SlotState>,
    /// The name of the block that came with the last taken message.
    block_name: [u8; BLOCK_NAME_BYTES],
    pulses: PulsePlaces,
    /// Whether the peer is a proxy, which holds messages.
    may_peer_hold: bool,
}

/// A slot: its line, and its offset in the page.
#[derive(Debug)]
struct Slot<P: LinePage> {
    line: P::Line,
    offset: usize,
}

impl Link {
    /// Maps a link as one of its parties.
    ///
    /// # Errors
    /// Those of [`SharedPage::map`].
    pub fn map(memory: impl AsFd, side: LinkSide) -> Result<Self, Errno> {
        Ok(Self::over(SharedPage::map(memory)?, side))
    }
}

impl<P: LinePage> Link<P> {
    /// The link in this memory, as one of its parties.
    pub fn over(page: P, side: LinkSide) -> Self {
        let slot = |offset: usize| Slot { line: page.line(offset), offset };
        Self {
            own: slot(side.slot()),
            peer: slot(side.other().slot()),
            peer_notifications: page.line(side.other().notification()),
            page,
            side,
            last: SlotState::NEW,
            owed: None,
            owed_behind: None,
            block_name: [0; BLOCK_NAME_BYTES],
            pulses: PulsePlaces::default(),
            may_peer_hold: false,
        }
    }

    #[inline(always)]
    fn own_word(&self) -> &P::Word64 {
        self.page.word_in(&self.own.line, 0)
    }

    #[inline(always)]
    fn peer_word(&self) -> &P::Word64 {
        self.page.word_in(&self.peer.line, 0)
    }

    /// The stamp beside the message in the peer's slot.
    #[inline(always)]
    fn peer_stamp(&self) -> u64 {
        self.page.word_in(&self.peer.line, STAMP).load(Ordering::Relaxed)
    }

    /// The head of the message in the peer's slot. The peer may change it at any time.
    #[inline(always)]
    fn peer_head(&self) -> Head {
        Head::of(self.page.word_in(&self.peer.line, HEAD).load(Ordering::Relaxed))
    }

    /// The payload of the message in the peer's slot.
    #[inline(always)]
    fn peer_payload(&self) -> [u8; PAYLOAD_BYTES] {
        self.page.read_payload(&self.peer.line, self.peer.offset)
    }

    /// Writes all of a message but what lies beside its payload, and publishes it.
    #[inline(always)]
    fn publish(
        &mut self,
        kind: MessageKind,
        (stamp, head): (u64, Head),
        payload: &[u8; PAYLOAD_BYTES],
    ) -> SlotState {
        let line = &self.own.line;
        self.page.word_in(line, STAMP).store(stamp, Ordering::Relaxed);
        self.page.word_in(line, HEAD).store(head.word(), Ordering::Relaxed);
        self.page.write_payload(line, self.own.offset, payload);
        self.last = slot::post(self.own_word(), self.last, kind);
        self.last
    }

    /// Whether the slot is free: the last message has been taken, refused or withdrawn.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    #[inline]
    pub fn is_free(&self) -> Result<bool, RuleBroken> {
        let found = self.own_word().load(Ordering::Acquire);
        if found == self.last.encode() {
            return Ok(self.last.phase() != SlotPhase::Full);
        }
        let withdrawn = self.last.in_phase(SlotPhase::Empty).encode();
        match slot::fate_in(found, self.last, self.may_peer_hold) {
            MessageFate::Taken | MessageFate::Refused(_) => Ok(true),
            MessageFate::Held(held) => Ok(!held.is_undecided()),
            MessageFate::Gone if found == withdrawn => Ok(true),
            MessageFate::Open | MessageFate::Gone => Err(RuleBroken),
        }
    }

    /// Whether this side has never posted a message.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.last == SlotState::NEW
    }

    /// Writes and publishes a message. The slot must be [free](Self::is_free). Afterwards, read the
    /// peer's wait mode and wake it if needed.
    #[inline]
    pub fn post<'a>(
        &mut self,
        kind: MessageKind,
        stamp: u64,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
        long: impl Into<Payload<'a>>,
    ) -> SlotState {
        let Payload { bytes: long, is_block } = long.into();
        debug_assert!(long.len() <= LONG_MAX_BYTES);
        let long = &long[..long.len().min(LONG_MAX_BYTES)];
        if !long.is_empty() {
            self.page.write(self.side.long(), long);
        }
        if self.owed_behind.is_some() && self.is_last_taken() {
            self.owed_behind = None;
        }
        let posted = self.publish(kind, (stamp, Head::long(m_type, long.len(), is_block)), payload);
        if matches!(kind, MessageKind::Send | MessageKind::Request) && self.owed.is_some() {
            self.owed_behind = self.owed.take();
        }
        posted
    }

    /// Whether the peer has taken this message.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    #[inline]
    pub fn is_taken(&self, posted: SlotState) -> Result<bool, RuleBroken> {
        slot::is_taken(self.own_word(), posted, self.may_peer_hold)
    }

    /// Whether the peer has refused this message, and why.
    #[must_use]
    #[inline]
    pub fn refusal(&self, posted: SlotState) -> Option<SlotRefusal> {
        slot::refusal(self.own_word(), posted)
    }

    /// What became of this message.
    #[must_use]
    #[inline]
    pub fn fate(&self, posted: SlotState) -> MessageFate {
        slot::fate(self.own_word(), posted, self.may_peer_hold)
    }

    /// Refuses a message whose block cannot be accepted. `false` if the peer withdrew it.
    /// Afterwards, read the peer's wait mode and wake it if needed.
    #[must_use]
    pub fn refuse(&self, arrival: Arrival, refusal: SlotRefusal) -> bool {
        slot::refuse(self.peer_word(), arrival.state, refusal)
    }

    /// Takes this message back, unless the peer has taken or holds it.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    pub fn withdraw(&self, posted: SlotState) -> Result<Withdrawing, RuleBroken> {
        slot::withdraw(self.own_word(), posted, self.may_peer_hold)
    }

    /// Ends a message: withdraws it or, if the peer has taken or holds it, leaves it behind. After
    /// [`Cancelled::Taken`], poll for the answer once more.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    pub fn cancel(&self, request: SlotState) -> Result<Cancelled, RuleBroken> {
        slot::cancel(self.own_word(), request, self.may_peer_hold)
    }

    /// The message in the peer's slot.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word is no state.
    #[inline]
    pub fn peek(&self) -> Result<Option<Arrival>, RuleBroken> {
        let Some(state) = slot::peek(self.peer_word())? else { return Ok(None) };
        Ok(Some(Arrival { state, stamp: self.peer_stamp() }))
    }

    /// Whether the peer's slot certainly has no message. Cheaper than [`peek`](Self::peek).
    #[must_use]
    #[inline]
    pub fn is_quiet(&self) -> bool {
        slot::is_quiet(self.peer_word())
    }

    /// The message in the peer's slot that answers `request`: an answer to it, or any message that
    /// the peer posted after it took the request.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word is no state.
    #[inline]
    pub fn peek_answer(&self, request: SlotState) -> Result<Option<Arrival>, RuleBroken> {
        Ok(self.peek()?.filter(|arrival| match arrival.state.kind() {
            // The own word is read after the peer's word: a message that the peer posted after the
            // take then shows the request as taken.
            MessageKind::Send | MessageKind::Request => self.is_taken(request) == Ok(true),
            MessageKind::Reply | MessageKind::Relay => arrival.stamp == request.sequence(),
        }))
    }

    /// Copies a message and takes it. `Ok(None)` if the peer withdrew it meanwhile. The long
    /// payload goes to the front of `long`, as far as it fits; the result has its full length.
    ///
    /// # Errors
    /// [`RuleBroken`] if the claimed length exceeds a link.
    #[inline]
    pub fn take(
        &mut self,
        arrival: Arrival,
        long: &mut [u8],
    ) -> Result<Option<TakenMessage>, RuleBroken> {
        let head = self.peer_head();
        let (has_block, claimed) = (head.has_block(), head.claimed_bytes());
        let long_bytes = if has_block { 0 } else { claimed.min(LONG_MAX_BYTES) };
        let taken = TakenMessage {
            kind: arrival.state.kind(),
            m_type: head.m_type,
            payload: self.peer_payload(),
            long_bytes,
            has_block,
        };
        if long_bytes > 0 {
            let fitting = long_bytes.min(long.len());
            self.page.read(self.side.other().long(), &mut long[..fitting]);
        }
        if has_block {
            self.page.read(self.side.other().long(), &mut self.block_name);
        }
        if !slot::take(self.peer_word(), arrival.state) {
            return Ok(None);
        }
        if claimed > LONG_MAX_BYTES || has_block && claimed != BLOCK_NAME_BYTES {
            return Err(RuleBroken);
        }
        if taken.kind == MessageKind::Request {
            self.owed = Some(arrival.state);
        }
        Ok(Some(taken))
    }

    /// The length of the payload that the message in the peer's slot claims to bring. The peer may
    /// change it before the take, which reads it again.
    #[must_use]
    #[inline]
    pub fn claimed_long_bytes(&self) -> usize {
        let head = self.peer_head();
        if head.has_block() { 0 } else { head.claimed_bytes() }
    }

    /// Whether the message in the peer's slot claims to bring the name of a block. Accept the block
    /// before the take: a sender may end as soon as its message is taken.
    #[must_use]
    #[inline]
    pub fn has_incoming_block(&self) -> bool {
        self.peer_head().has_block()
    }

    /// The claimed name in the peer's slot. It means nothing if the peer withdraws the message.
    #[must_use]
    pub fn incoming_block_name(&self) -> [u8; BLOCK_NAME_BYTES] {
        let mut name = [0; BLOCK_NAME_BYTES];
        self.page.read(self.side.other().long(), &mut name);
        name
    }

    /// The claimed name of the block that came with the last taken message.
    #[must_use]
    pub fn block_name(&self) -> &[u8; BLOCK_NAME_BYTES] {
        &self.block_name
    }

    /// The last message of this side, as it was posted.
    #[must_use]
    pub fn posted(&self) -> SlotState {
        self.last
    }

    /// The taken request that this side has not answered yet, neither by a reply nor by another
    /// message that the peer has taken.
    #[must_use]
    pub fn owed(&self) -> Option<SlotState> {
        self.owed.or_else(|| self.owed_behind.filter(|_| !self.is_last_taken()))
    }

    /// Whether this side has taken a request, and has posted nothing since.
    #[must_use]
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.owed.is_some()
    }

    /// This side owes the answer to a taken request again: it has withdrawn its answer.
    pub fn owe_again(&mut self, request: SlotState) {
        self.owed = Some(request);
    }

    /// Whether the peer awaits an answer of this side, as far as this side can see.
    #[must_use]
    #[inline]
    pub fn owes_answer(&self) -> bool {
        self.owed().is_some_and(|request| slot::is_answer_awaited(self.peer_word(), request))
    }

    /// Withdraws an answer that still lies in the slot although this side owes an answer to a later
    /// request. The peer gave the earlier request up, and takes no answer to it any more.
    ///
    /// # Errors
    /// [`RuleBroken`] if a word follows from no rule.
    pub fn withdraw_void_answer(&self) -> Result<(), RuleBroken> {
        let is_answer = matches!(self.last.kind(), MessageKind::Reply | MessageKind::Relay);
        if is_answer && self.owes_answer() && self.fate(self.last) == MessageFate::Open {
            self.withdraw(self.last)?;
        }
        Ok(())
    }

    /// Posts the answer to the last taken request, unless the peer abandoned it.
    ///
    /// # Errors
    /// [`RuleBroken`] if a word follows from no rule.
    #[inline]
    pub fn answer<'a>(
        &mut self,
        kind: MessageKind,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
        long: impl Into<Payload<'a>>,
    ) -> Result<AnswerOutcome, RuleBroken> {
        if !self.owes_answer() {
            (self.owed, self.owed_behind) = (None, None);
            return Ok(AnswerOutcome::NotAwaited);
        }
        if !self.is_free()? {
            self.withdraw_void_answer()?;
            if !self.is_free()? {
                return Ok(AnswerOutcome::NotAwaited);
            }
        }
        let Some(request) = self.owed() else { return Ok(AnswerOutcome::NotAwaited) };
        (self.owed, self.owed_behind) = (None, None);
        let posted = self.post(kind, request.sequence(), m_type, payload, long);
        // The peer decides: if it abandoned the request before it could see the answer, the answer
        // goes back.
        if slot::is_answer_awaited(self.peer_word(), request)
            || self.withdraw(posted)? == Withdrawing::Taken
        {
            Ok(AnswerOutcome::Posted)
        } else {
            Ok(AnswerOutcome::NotAwaited)
        }
    }

    /// Whether the message of this side is younger than a message of the peer with this stamp. Of
    /// equal stamps, the message of side [`LinkSide::Zero`] is the elder.
    #[must_use]
    pub fn is_younger_than(&self, stamp: u64) -> bool {
        let own = self.page.word64(self.own.offset + STAMP).load(Ordering::Relaxed);
        own > stamp || own == stamp && self.side == LinkSide::One
    }
}

#[cfg(test)]
mod tests;
