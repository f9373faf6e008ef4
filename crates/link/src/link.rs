//! The link: the one page between exactly two endpoints.
//!
//! ```text
//! 0x000 cell of side 0: state word, stamp, type, long bytes, 40 bytes of payload
//! 0x040 cell of side 1
//! 0x080 notify of side 0: pending, argument      0x0c0 notify of side 1
//! 0x100 knock of side 0 (it sleeps there)        0x140 knock of side 1
//! 0x180 long payload of side 0, 1,792 bytes      0x880 long payload of side 1
//! 0xf80 berth of side 0                          0xfc0 berth of side 1
//! ```
//!
//! Both sides can write all of it, so each keeps its own record of what it
//! posted and what it owes, and believes the page only where a rule leads from
//! that record to what it reads. What a peer can spoil here is the talk with itself.

use crate::slot::{self, MessageKind, RuleBroken, SlotPhase, SlotState};
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::{BLOCK_NAME_BYTES, LONG_MAX_BYTES, PAYLOAD_BYTES};
use m3ipc_shm::SharedPage;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of a link in bytes.
pub const LINK_BYTES: usize = m3ipc_shm::PAGE_BYTES;

const CELL: usize = 0x000;
const CELL_BYTES: usize = 0x40;
const STAMP: usize = 8;
const TYPE: usize = 16;
const LONG_BYTES: usize = 20;
const PAYLOAD: usize = 24;
/// Beside the length: what is there is the name of a block.
const IS_BLOCK: u32 = 1 << 31;
const NOTIFY: usize = 0x080;
const NOTIFY_BYTES: usize = 0x40;
const ARGUMENT: usize = 8;
const KNOCK: usize = 0x100;
const KNOCK_BYTES: usize = 0x40;
const LONG: usize = 0x180;
const BERTH: usize = 0xf80;
const BERTH_BYTES: usize = 0x40;

const _: () = assert!(PAYLOAD + PAYLOAD_BYTES == CELL_BYTES);
const _: () = assert!(LONG + 2 * LONG_MAX_BYTES <= BERTH);
const _: () = assert!(BERTH + 2 * BERTH_BYTES <= LINK_BYTES);

/// Which of its two parties one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSide {
    /// The party whose request made the link.
    Zero,
    /// The other.
    One,
}

impl LinkSide {
    /// The other party.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Zero => Self::One,
            Self::One => Self::Zero,
        }
    }

    const fn times(self, bytes: usize) -> usize {
        match self {
            Self::Zero => 0,
            Self::One => bytes,
        }
    }
}

/// What goes beside a message: a long payload, or the name of a block.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    is_block: bool,
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

/// A message that lies in the peer's cell, not yet taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its state word.
    pub state: SlotState,
    /// When it was posted, by the peer's word; for answers, the number of the request.
    pub stamp: u64,
}

/// A message that was taken: a private copy.
#[derive(Clone, Copy, Debug)]
pub struct TakenMessage {
    /// What it is.
    pub kind: MessageKind,
    /// Its type.
    pub m_type: i32,
    /// Its payload.
    pub payload: [u8; PAYLOAD_BYTES],
    /// Length of the long payload that was copied beside, in bytes.
    pub long_bytes: usize,
    /// The name of a block came instead: see [`Link::block_name`].
    pub has_block: bool,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The peer has it or will find it.
    Posted,
    /// The peer does not wait for one (any more).
    NotAwaited,
}

/// One party's side of a link.
#[derive(Debug)]
pub struct Link<P = SharedPage> {
    page: P,
    side: LinkSide,
    /// The last message posted here, as it was posted.
    last: SlotState,
    /// The request taken from the peer and not yet answered.
    owed: Option<SlotState>,
    /// The name of the block that came with the message taken last.
    block_name: [u8; BLOCK_NAME_BYTES],
}

impl Link {
    /// Maps a link as one of its parties.
    ///
    /// # Errors
    /// Of [`SharedPage::map`].
    pub fn map(memory: impl AsFd, side: LinkSide) -> Result<Self, Errno> {
        Ok(Self::over(SharedPage::map(memory)?, side))
    }
}

impl<P: Page> Link<P> {
    /// The link in this memory, as one of its parties.
    pub fn over(page: P, side: LinkSide) -> Self {
        Self { page, side, last: SlotState::NEW, owed: None, block_name: [0; BLOCK_NAME_BYTES] }
    }

    fn own_cell(&self) -> usize {
        CELL + self.side.times(CELL_BYTES)
    }

    fn peer_cell(&self) -> usize {
        CELL + self.side.other().times(CELL_BYTES)
    }

    #[inline]
    fn own_word(&self) -> &P::Word64 {
        self.page.word64(self.own_cell())
    }

    #[inline]
    fn peer_word(&self) -> &P::Word64 {
        self.page.word64(self.peer_cell())
    }

    /// Whether the last message posted here has left the cell.
    ///
    /// # Errors
    /// [`Broken`] where the peer wrote what no rule allows.
    #[inline]
    pub fn is_free(&self) -> Result<bool, RuleBroken> {
        let found = self.own_word().load(Ordering::Acquire);
        if found == self.last.encode() {
            return Ok(self.last.phase != SlotPhase::Full);
        }
        let left =
            [SlotPhase::Taken, SlotPhase::Empty].map(|phase| self.last.in_phase(phase).encode());
        if left.contains(&found) { Ok(true) } else { Err(RuleBroken) }
    }

    /// Whether nothing was ever posted here.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.last == SlotState::NEW
    }

    /// Writes and publishes a message. The caller has seen that the cell [is free](Self::is_free).
    #[inline]
    pub fn post<'a>(
        &mut self,
        kind: MessageKind,
        stamp: u64,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
        long: impl Into<Payload<'a>>,
    ) -> SlotState {
        let cell = self.own_cell();
        let Payload { bytes: long, is_block } = long.into();
        debug_assert!(long.len() <= LONG_MAX_BYTES);
        let long = &long[..long.len().min(LONG_MAX_BYTES)];
        if !long.is_empty() {
            self.page.write(LONG + self.side.times(LONG_MAX_BYTES), long);
        }
        self.page.word64(cell + STAMP).store(stamp, Ordering::Relaxed);
        self.page.word32(cell + TYPE).store(m_type.cast_unsigned(), Ordering::Relaxed);
        let long_bytes = u32::try_from(long.len()).expect("no longer than LONG_MAX_BYTES");
        let flag = if is_block { IS_BLOCK } else { 0 };
        self.page.word32(cell + LONG_BYTES).store(long_bytes | flag, Ordering::Relaxed);
        self.page.write(cell + PAYLOAD, payload);
        self.last = slot::post(self.own_word(), self.last, kind);
        self.last
    }

    /// Whether the peer has taken this message.
    ///
    /// # Errors
    /// [`Broken`] where the peer wrote what no rule allows.
    #[inline]
    pub fn is_taken(&self, posted: SlotState) -> Result<bool, RuleBroken> {
        slot::is_taken(self.own_word(), posted)
    }

    /// Takes this message back: `Ok(false)` where the peer has it.
    ///
    /// # Errors
    /// [`Broken`] where the peer wrote what no rule allows.
    pub fn withdraw(&self, posted: SlotState) -> Result<bool, RuleBroken> {
        slot::withdraw(self.own_word(), posted)
    }

    /// Says that no answer to this taken request is awaited any more; look once more afterwards.
    pub fn abandon(&self, posted: SlotState) {
        slot::abandon(self.own_word(), posted);
    }

    /// What lies in the peer's cell.
    ///
    /// # Errors
    /// [`Broken`] where the word is no state.
    #[inline]
    pub fn peek(&self) -> Result<Option<Arrival>, RuleBroken> {
        let Some(state) = slot::peek(self.peer_word())? else { return Ok(None) };
        let stamp = self.page.word64(self.peer_cell() + STAMP).load(Ordering::Relaxed);
        Ok(Some(Arrival { state, stamp }))
    }

    /// Whether the peer has surely posted nothing that was not taken: cheaper than [`look`](Self::look).
    #[must_use]
    #[inline]
    pub fn is_quiet(&self) -> bool {
        slot::is_quiet(self.peer_word())
    }

    /// What lies there for one who awaits the answer to `request`: an answer
    /// to it, or any message of the peer once it has taken the request, which is one too.
    ///
    /// # Errors
    /// [`Broken`] where the word is no state.
    #[inline]
    pub fn peek_answer(&self, request: SlotState) -> Result<Option<Arrival>, RuleBroken> {
        Ok(self.peek()?.filter(|arrival| match arrival.state.kind {
            // Read after the peer's word: what it posted after taking the request shows it taken.
            MessageKind::Send | MessageKind::Request => self.is_taken(request) == Ok(true),
            MessageKind::Reply | MessageKind::Relay => arrival.stamp == request.sequence,
        }))
    }

    /// Copies a message and takes it; `Ok(None)` where it was withdrawn meanwhile.
    /// The long payload goes to the front of `long`, as far as it fits; its
    /// full length is told.
    ///
    /// # Errors
    /// [`Broken`] where the message is longer than a link holds.
    #[inline]
    pub fn take(
        &mut self,
        arrival: Arrival,
        long: &mut [u8],
    ) -> Result<Option<TakenMessage>, RuleBroken> {
        let cell = self.peer_cell();
        let word = self.page.word32(cell + LONG_BYTES).load(Ordering::Relaxed);
        let has_block = word & IS_BLOCK != 0;
        let claimed = (word & !IS_BLOCK) as usize;
        let long_bytes = if has_block { 0 } else { claimed.min(LONG_MAX_BYTES) };
        let mut incoming = TakenMessage {
            kind: arrival.state.kind,
            m_type: self.page.word32(cell + TYPE).load(Ordering::Relaxed).cast_signed(),
            payload: [0; PAYLOAD_BYTES],
            long_bytes,
            has_block,
        };
        self.page.read(cell + PAYLOAD, &mut incoming.payload);
        if long_bytes > 0 {
            let room = long_bytes.min(long.len());
            self.page.read(LONG + self.side.other().times(LONG_MAX_BYTES), &mut long[..room]);
        }
        if has_block {
            self.page.read(LONG + self.side.other().times(LONG_MAX_BYTES), &mut self.block_name);
        }
        if !slot::take(self.peer_word(), arrival.state) {
            return Ok(None);
        }
        if claimed > LONG_MAX_BYTES || has_block && claimed != BLOCK_NAME_BYTES {
            return Err(RuleBroken);
        }
        if incoming.kind == MessageKind::Request {
            self.owed = Some(arrival.state);
        }
        Ok(Some(incoming))
    }

    /// Whether the message in the peer's cell carries the name of a block, by the peer's claim: to be accepted before
    /// the message is taken, since a sender may end as soon as it is.
    #[must_use]
    #[inline]
    pub fn has_incoming_block(&self) -> bool {
        self.page.word32(self.peer_cell() + LONG_BYTES).load(Ordering::Relaxed) & IS_BLOCK != 0
    }

    /// That name: a claim, and of no meaning where the message is withdrawn meanwhile.
    #[must_use]
    pub fn incoming_block_name(&self) -> [u8; BLOCK_NAME_BYTES] {
        let mut name = [0; BLOCK_NAME_BYTES];
        self.page.read(LONG + self.side.other().times(LONG_MAX_BYTES), &mut name);
        name
    }

    /// The name of the block that came with the message taken last, if one did: the peer's claim.
    #[must_use]
    pub fn block_name(&self) -> &[u8; BLOCK_NAME_BYTES] {
        &self.block_name
    }

    /// The last message posted here, as it was posted.
    #[must_use]
    pub fn posted(&self) -> SlotState {
        self.last
    }

    /// The request taken from the peer and not yet answered.
    #[must_use]
    pub fn owed(&self) -> Option<SlotState> {
        self.owed
    }

    /// Whether the peer awaits an answer from here, as far as one can tell before answering.
    #[must_use]
    #[inline]
    pub fn owes_answer(&self) -> bool {
        self.owed.is_some_and(|request| slot::answer_is_posted(self.peer_word(), request))
    }

    /// Posts the answer to the request taken last, unless the peer has given up.
    ///
    /// # Errors
    /// [`Broken`] where the peer wrote what no rule allows.
    #[inline]
    pub fn answer<'a>(
        &mut self,
        kind: MessageKind,
        m_type: i32,
        payload: &[u8; PAYLOAD_BYTES],
        long: impl Into<Payload<'a>>,
    ) -> Result<AnswerOutcome, RuleBroken> {
        if !self.owes_answer() || !self.is_free()? {
            self.owed = None;
            return Ok(AnswerOutcome::NotAwaited);
        }
        let Some(request) = self.owed.take() else { return Ok(AnswerOutcome::NotAwaited) };
        let posted = self.post(kind, request.sequence, m_type, payload, long);
        // The point of no return is the peer's: if it gave up before it could
        // see the answer, the answer goes back.
        if slot::answer_is_posted(self.peer_word(), request) || !self.withdraw(posted)? {
            Ok(AnswerOutcome::Posted)
        } else {
            Ok(AnswerOutcome::NotAwaited)
        }
    }

    /// Whether the message posted here came later than one of the peer with
    /// this stamp; of equal stamps the party that made the link is the elder.
    #[must_use]
    pub fn is_younger_than(&self, stamp: u64) -> bool {
        let own = self.page.word64(self.own_cell() + STAMP).load(Ordering::Relaxed);
        own > stamp || own == stamp && self.side == LinkSide::One
    }

    /// Sets the one bit of this side's notification, and its argument.
    #[inline]
    pub fn notify(&self, argument: u64) {
        let line = NOTIFY + self.side.times(NOTIFY_BYTES);
        if argument != 0 {
            self.page.word64(line + ARGUMENT).fetch_or(argument, Ordering::Relaxed);
        }
        let pending = self.page.word32(line);
        pending.swap(1, Ordering::SeqCst);
        pending.fence_after_update(); // pairs with the sleeper's look after `Status::sleep`
    }

    /// Whether the peer has taken what this side notified.
    #[must_use]
    pub fn is_notification_taken(&self) -> bool {
        self.page.word32(NOTIFY + self.side.times(NOTIFY_BYTES)).load(Ordering::SeqCst) == 0
    }

    /// Whether the peer has notified.
    #[must_use]
    #[inline]
    pub fn has_notification(&self) -> bool {
        let line = NOTIFY + self.side.other().times(NOTIFY_BYTES);
        self.page.word32(line).load(Ordering::SeqCst) != 0
    }

    /// Takes the peer's notification, with its argument.
    #[inline]
    pub fn take_notification(&self) -> Option<u64> {
        if !self.has_notification() {
            return None;
        }
        let line = NOTIFY + self.side.other().times(NOTIFY_BYTES);
        self.page.word32(line).swap(0, Ordering::SeqCst);
        let argument = self.page.word64(line + ARGUMENT);
        // A locked exchange only where there is something to exchange.
        Some(if argument.load(Ordering::Relaxed) == 0 {
            0
        } else {
            argument.swap(0, Ordering::Relaxed)
        })
    }

    /// The word this side sleeps on.
    #[must_use]
    #[inline]
    pub fn own_wake_word(&self) -> &P::Word32 {
        self.page.word32(KNOCK + self.side.times(KNOCK_BYTES))
    }

    /// The word that says whether this side lies still for the peer to copy: see [`berth`](crate::berth).
    #[must_use]
    #[inline]
    pub fn own_copy_gate(&self) -> &P::Word32 {
        self.page.word32(BERTH + self.side.times(BERTH_BYTES))
    }

    /// The word that says whether the peer lies still.
    #[must_use]
    #[inline]
    pub fn peer_copy_gate(&self) -> &P::Word32 {
        self.page.word32(BERTH + self.side.other().times(BERTH_BYTES))
    }

    /// Ends a copy with the peer, and wakes it where it sleeps until then.
    #[inline]
    pub fn end_copy(&self) {
        let word = self.peer_copy_gate();
        if crate::copy_gate::end_copy(word) {
            self.page.wake(word);
        }
    }

    /// Wakes the peer, who sleeps on its word of this link.
    pub fn wake_peer(&self) {
        let knock = self.page.word32(KNOCK + self.side.other().times(KNOCK_BYTES));
        knock.bump();
        self.page.wake(knock);
    }
}

#[cfg(test)]
mod tests;
