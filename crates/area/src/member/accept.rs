//! Acceptance of given and shared blocks: the checks of a hand-over.

use super::{AreaMember, LastAccepted};
use crate::accept_error::AcceptError;
use crate::block::{HeldBlock, SharedReading};
use crate::claim::{Claim, ClaimState, Span, former_generation, next_generation};
use crate::name::{BlockName, ClaimedBlockName};
use crate::own_blocks::OwnState;
use crate::ownership_trace::BlockStatus;
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, READING, UNIT_BYTES, word_index};
use core::ops::Range;

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Accepts a block that `from` gave to this member. `from` is the member behind the link that
    /// brought the name.
    ///
    /// # Errors
    /// [`AcceptError`]; the block keeps its holder.
    pub fn accept(&mut self, from: u16, name: &ClaimedBlockName) -> Result<HeldBlock, AcceptError> {
        let BlockName { number, generation, hop, bytes, .. } = name.0;
        let (allocator, span) = self.check_given(from, name)?;
        let before = self.own.load(word_index(number, CLAIM));
        self.last_accepted = Some(LastAccepted { number, claim: before, generation });
        if allocator == self.index {
            return self.accept_own(number, generation, bytes);
        }
        self.claim(number, ClaimState::Held, 0, hop, generation);
        m3ipc_sys::pause_point("server.block_claimed");
        // Pairs with the fence of another member in `accept` or `take_back`, and with that of the
        // allocator member in `void`.
        self.own.fence();
        let held = BlockStatus::Held { by: self.index, hop };
        let is_holder = self.block_status(number, generation) == held;
        let elsewhere = self.others.claimer(number, generation);
        if !is_holder || elsewhere.is_some() {
            self.own.store(word_index(number, CLAIM), before);
            return Err(elsewhere.map_or(AcceptError::NotGiven(number), |by| {
                AcceptError::Elsewhere { number, by }
            }));
        }
        Ok(HeldBlock { number, generation, hop, allocator, span, bytes })
    }

    /// The place of the content of a block that `from` gave to this member, in bytes of the area.
    /// Nothing changes: the giver can take the block back at any time, and write into it.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn find_given(
        &self,
        from: u16,
        name: &ClaimedBlockName,
    ) -> Result<Range<u64>, AcceptError> {
        let (_, span) = self.check_given(from, name)?;
        let begin = u64::from(span.offset) * UNIT_BYTES;
        // The length is one within the span.
        Ok(begin..begin + name.0.bytes)
    }

    /// The allocator member of a block that was given to this member, and its span.
    fn check_given(&self, from: u16, name: &ClaimedBlockName) -> Result<(u16, Span), AcceptError> {
        let BlockName { number, generation, hop, bytes, shared, .. } = name.0;
        if shared {
            return Err(AcceptError::WrongKind(number));
        }
        let found = self.checked_span(number, bytes)?;
        let given = BlockStatus::Pending { to: self.index, hop, from };
        match self.block_status(number, generation) == given {
            true => Ok(found),
            false => Err(AcceptError::NotGiven(number)),
        }
    }

    /// Whether an accepted block is still held by this member alone. Ask after new members became
    /// known. If not, [release](Self::release) the block.
    #[must_use]
    pub fn is_mine_alone(&self, held: &HeldBlock) -> bool {
        let (number, generation) = (held.number, held.generation);
        // This allocator member made the former generation void when it accepted the block.
        let is_claimed_before = held.allocator == self.index
            && self.others.claimer(number, former_generation(generation)).is_some();
        self.block_status(number, generation) == BlockStatus::Held { by: self.index, hop: held.hop }
            && self.others.claimer(number, generation).is_none()
            && !is_claimed_before
    }

    /// Releases a block that this member accepted although another member claims it too.
    pub fn reject(&mut self, held: HeldBlock) {
        if held.allocator != self.index {
            return self.release(held);
        }
        self.claim(held.number, ClaimState::Free, 0, 0, held.generation);
        let round = self.round;
        if let Some(block) = self.blocks.get_mut(held.number) {
            block.state = OwnState::Void(round);
        }
        self.blocks.queue(held.number);
    }

    /// Undoes the last acceptance: its message was withdrawn before this member took it, so the
    /// giver will look for the block. Any other block is [released](Self::release).
    pub fn refuse(&mut self, held: HeldBlock) {
        let last = self.last_accepted.take().filter(|last| last.number == held.number);
        let Some(last) = last else { return self.release(held) };
        if held.allocator == self.index
            && let Some(block) = self.blocks.get_mut(held.number)
        {
            block.generation = last.generation;
            self.blocks.mark_away(held.number);
        }
        self.own.store(word_index(held.number, CLAIM), last.claim);
    }

    /// Accepts a block of this allocator member. A new generation makes all former claims void.
    fn accept_own(
        &mut self,
        number: u32,
        generation: u32,
        bytes: u64,
    ) -> Result<HeldBlock, AcceptError> {
        let next = next_generation(generation);
        self.claim(number, ClaimState::Held, 0, 0, next);
        self.own.fence(); // pairs with the fence of another member in `accept`
        let elsewhere = self.others.claimer(number, generation);
        if elsewhere.is_some() {
            self.claim(number, ClaimState::Free, 0, 0, next);
        }
        let (allocator, round) = (self.index, self.round);
        let block = self.blocks.get_mut(number).ok_or(AcceptError::Outside(number))?;
        block.generation = next;
        if let Some(by) = elsewhere {
            block.state = OwnState::Void(round);
            return Err(AcceptError::Elsewhere { number, by });
        }
        block.state = OwnState::Held;
        let span = block.span;
        self.blocks.unqueue(number);
        Ok(HeldBlock { number, generation: next, hop: 0, allocator, span, bytes })
    }

    /// Begins to read a block that `from` shares.
    ///
    /// # Errors
    /// [`AcceptError`]; this member does not read the block.
    pub fn accept_shared(
        &mut self,
        from: u16,
        name: &ClaimedBlockName,
    ) -> Result<SharedReading, AcceptError> {
        let BlockName { number, generation, hop, bytes, shared, .. } = name.0;
        if !shared {
            return Err(AcceptError::WrongKind(number));
        }
        let (_, span) = self.checked_span(number, bytes)?;
        let status = BlockStatus::Shared { by: from, hop };
        if self.block_status(number, generation) != status {
            return Err(AcceptError::NotGiven(number));
        }
        let reading = SharedReading { number, generation, hop, span, bytes };
        // The record has room for readings of one generation and hop.
        let open = self.readings.range((number, 0, 0)..=(number, u32::MAX, u32::MAX)).next();
        if open.is_some_and(|(key, _)| *key != reading.key()) {
            return Err(AcceptError::NotGiven(number));
        }
        self.mark_reading(ClaimState::Reading, number, hop, generation);
        // Pairs with the fence of the holder in `unshare`, and of the allocator member in `void`.
        self.own.fence();
        *self.readings.entry(reading.key()).or_default() += 1;
        if self.block_status(number, generation) != status {
            self.finish(reading);
            return Err(AcceptError::NotGiven(number));
        }
        Ok(reading)
    }

    /// Ends the reading of a block. A member may read a block several times; the last end counts.
    pub fn finish(&mut self, reading: SharedReading) {
        let key = reading.key();
        let left = self.readings.get(&key).map_or(0, |count| count.saturating_sub(1));
        if left > 0 {
            self.readings.insert(key, left);
            return;
        }
        self.readings.remove(&key);
        self.mark_reading(ClaimState::Done, reading.number, reading.hop, reading.generation);
    }

    fn mark_reading(&self, state: ClaimState, number: u32, hop: u32, generation: u32) {
        let reading = Claim { state, other: 0, hop, generation };
        self.own.store(word_index(number, READING), reading.encode());
    }

    /// The allocator member of a block, and its span, if it holds the claimed content.
    fn checked_span(&self, number: u32, bytes: u64) -> Result<(u16, Span), AcceptError> {
        let outside = AcceptError::Outside(number);
        let allocator = self.allocator_of(number).ok_or(outside)?;
        let span = self.span_of(allocator, number).ok_or(outside)?;
        let capacity = u64::from(span.units) * UNIT_BYTES;
        if bytes > capacity {
            return Err(AcceptError::TooLong { number, bytes, capacity });
        }
        Ok((allocator, span))
    }
}
