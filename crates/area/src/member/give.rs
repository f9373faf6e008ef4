//! Giving a block to another, and taking it back where the message did not get there.

use super::{AreaMember, HeldBlock, OwnState};
use crate::claim::{ClaimState, HOP_MAX};
use crate::name::BlockName;
use crate::ownership_trace::BlockStatus;
use crate::words::{LedgerWords, OwnLedgerWords};

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Gives a block to another member: from here on it is not the giver's.
    /// The name is to be sent to exactly that member.
    ///
    /// # Errors
    /// The block, where it has been in so many hands that it has to go home first.
    pub fn give(&mut self, held: HeldBlock, to: u16) -> Result<BlockName, HeldBlock> {
        if held.hop >= HOP_MAX || to == self.me {
            return Err(held);
        }
        let name = self.name(&held, held.hop + 1, false);
        if held.home == self.me
            && let Some(block) = self.own_block(held.number)
        {
            block.state = OwnState::Out;
            self.out.push_back(held.number);
        }
        self.claim(held.number, ClaimState::Given, to, held.hop, held.generation);
        Ok(name)
    }

    /// Takes back what was given under this name, since its message was surely withdrawn.
    /// `None` where it is somebody's all the same: who was given it must have broken the rules.
    pub fn take_back(&mut self, name: &BlockName) -> Option<HeldBlock> {
        let home = self.plan.allocator_of(name.number)?;
        let (number, generation, hop) = (name.number, name.generation, name.hop.checked_sub(1)?);
        if !matches!(self.block_status(number, generation), BlockStatus::Pending { from, hop, .. }
            if from == self.me && hop == name.hop)
        {
            return None;
        }
        let given = self.own.load(super::word_of(number, crate::words::CLAIM));
        self.claim(number, ClaimState::Held, 0, hop, generation);
        self.own.fence(); // pairs with that of `accept`: whoever took the name knows its number
        if self.claimer(number, generation).is_some() {
            self.own.store(super::word_of(number, crate::words::CLAIM), given);
            return None;
        }
        let is_home = home == self.me;
        let span = match self.own_block(number) {
            Some(block) if is_home => {
                block.state = OwnState::Here;
                block.span
            }
            _ => self.place_at(home, number)?,
        };
        self.out.retain(|out| *out != number || !is_home);
        Some(HeldBlock { number, generation, hop, home, span: span, bytes: name.bytes })
    }

    /// Gives up what was given under this name and could not be taken back: its home's it is, as soon as nobody
    /// living claims it any more.
    pub fn abandon(&mut self, name: &BlockName) {
        let (number, generation) = (name.number, name.generation);
        if self.plan.allocator_of(number) != Some(self.me) {
            let hop = name.hop.saturating_sub(1);
            return self.claim(number, ClaimState::Returned, 0, hop, generation);
        }
        if self
            .own_block(number)
            .is_some_and(|block| block.state == OwnState::Out && block.generation == generation)
        {
            self.void(number, generation, true);
        }
    }
}
