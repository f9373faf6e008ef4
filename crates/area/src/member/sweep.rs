//! Sweeping: the home finds out which of its blocks have come free elsewhere.

use super::{AreaMember, OwnState, word_of};
use crate::claim::{ClaimState, next_generation};
use crate::ownership_trace::BlockStatus;
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, UNIT_BYTES};

/// Blocks looked at with each allocation.
const SWEEP_STEP: usize = 2;

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Looks at a few of the blocks that are out.
    pub(super) fn sweep_some(&mut self) {
        for _ in 0..SWEEP_STEP.min(self.out.len()) {
            self.sweep_one();
        }
    }

    /// Looks at all blocks that are out.
    pub fn sweep_all(&mut self) {
        for _ in 0..self.out.len() {
            self.sweep_one();
        }
    }

    fn sweep_one(&mut self) {
        let Some(number) = self.out.pop_front() else { return };
        let Some(block) = self.own_block(number).copied() else { return };
        match block.state {
            OwnState::Out if self.is_over(number, block.generation) => {
                self.void(number, block.generation, true);
                self.out.push_back(number);
            }
            // The generation of a void block is the next one already.
            OwnState::Void(turn) if turn < self.turn => self.settle(number, block.generation),
            OwnState::Void(_) => self.out.push_back(number),
            OwnState::Out => self.out.push_back(number),
            OwnState::Free | OwnState::Here => {}
        }
    }

    /// Whether nobody living has or awaits the block.
    fn is_over(&self, number: u32, generation: u32) -> bool {
        let dead = |member: u16| self.peer(member).is_some_and(|peer| !peer.lives);
        match self.block_status(number, generation) {
            BlockStatus::Returned { .. } => true,
            BlockStatus::Held { by, .. } | BlockStatus::Shared { by, .. } => dead(by),
            // Nobody takes a message of a dead one.
            BlockStatus::Pending { to, from, .. } => dead(to) || dead(from),
            BlockStatus::Gone => false,
        }
    }

    /// Makes a generation void; the number and its room are free at once where nobody can claim it,
    /// else the block is to be looked at in a later turn.
    pub(super) fn void(&mut self, number: u32, generation: u32, was_out: bool) {
        let shared = crate::claim::Claim::decode(self.own.load(word_of(number, CLAIM))).state
            == ClaimState::Shared;
        let (next, turn) = (next_generation(generation), self.turn);
        self.claim(number, ClaimState::Free, 0, 0, next);
        if let Some(block) = self.own_block(number) {
            block.generation = next;
            block.state = OwnState::Void(turn);
        }
        self.own.fence(); // pairs with that of `accept` and `accept_shared`
        if was_out {
            return;
        }
        if shared {
            self.out.push_back(number);
        } else {
            // It never left, or came home under this generation: nobody can claim it.
            self.free(number);
        }
    }

    /// Frees a void block, unless somebody claims its former generation.
    fn settle(&mut self, number: u32, generation: u32) {
        let former = generation.wrapping_sub(1) & 0xff_ffff;
        if self.claimer(number, former).is_some() {
            self.out.push_back(number);
        } else {
            self.free(number);
        }
    }

    fn free(&mut self, number: u32) {
        let Some(block) = self.own_block(number) else { return };
        block.state = OwnState::Free;
        let span = block.span;
        self.free_numbers.push(number);
        let (offset, bytes) = (u64::from(span.offset), u64::from(span.units));
        self.allocator.give(offset * UNIT_BYTES, bytes * UNIT_BYTES);
    }
}
