//! The sweep: the allocator member frees the blocks that no member has any more.

use super::AreaMember;
use crate::claim::{ClaimState, former_generation, next_generation};
use crate::own_blocks::OwnState;
use crate::ownership_trace::BlockStatus;
use crate::words::{LedgerWords, OwnLedgerWords};

/// Blocks that each allocation checks.
const SWEEP_STEP: usize = 2;

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Checks a few of the blocks that are away.
    pub(super) fn sweep_some(&mut self) {
        for _ in 0..SWEEP_STEP.min(self.blocks.pending_count()) {
            self.sweep_one();
        }
    }

    /// Checks all blocks that are away.
    pub fn sweep_all(&mut self) {
        for _ in 0..self.blocks.pending_count() {
            self.sweep_one();
        }
    }

    fn sweep_one(&mut self) {
        let Some(number) = self.blocks.next_pending() else { return };
        let Some(block) = self.blocks.get(number).copied() else { return };
        match block.state {
            OwnState::Away => {
                if self.is_unused(number, block.generation) {
                    self.void(number, block.generation, true);
                }
                self.blocks.queue(number);
            }
            // The generation of a void block is already the next one.
            OwnState::Void(round) if round < self.round => {
                if self.others.claimer(number, former_generation(block.generation)).is_some() {
                    self.blocks.queue(number);
                } else {
                    self.blocks.free(number);
                }
            }
            OwnState::Void(_) | OwnState::InCall => self.blocks.queue(number),
            OwnState::Free | OwnState::Held => {}
        }
    }

    /// Whether no living member has or awaits the block.
    fn is_unused(&self, number: u32, generation: u32) -> bool {
        match self.block_status(number, generation) {
            BlockStatus::Returned { .. } => true,
            BlockStatus::Held { by, .. } | BlockStatus::Shared { by, .. } => {
                self.others.is_dead(by)
            }
            // A message from or to a dead member is never taken.
            BlockStatus::Pending { to, from, .. } => {
                self.others.is_dead(to) || self.others.is_dead(from)
            }
            BlockStatus::Gone | BlockStatus::Unclear => false,
        }
    }

    /// Makes a generation void. The number and its memory are free at once if no member can claim
    /// them; otherwise a sweep of a later round checks the block.
    pub(super) fn void(&mut self, number: u32, generation: u32, was_away: bool) {
        let shared = self.own_claim(number).state == ClaimState::Shared;
        let (next, round) = (next_generation(generation), self.round);
        self.claim(number, ClaimState::Free, 0, 0, next);
        if let Some(block) = self.blocks.get_mut(number) {
            block.generation = next;
            block.state = OwnState::Void(round);
        }
        self.own.fence(); // pairs with the fences of `accept` and `accept_shared`
        if was_away {
            return;
        }
        if shared {
            self.blocks.queue(number);
        } else {
            // No member got the block under this generation, so none can claim it.
            self.blocks.free(number);
        }
    }
}
