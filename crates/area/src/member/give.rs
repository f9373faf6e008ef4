//! Giving and sharing a block, and taking it back.

use super::AreaMember;
use crate::block::HeldBlock;
use crate::claim::{Claim, ClaimState, HOP_MAX};
use crate::name::BlockName;
use crate::own_blocks::OwnState;
use crate::ownership_trace::BlockStatus;
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, READING, word_index};

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Gives a block to another member. Send the name to exactly that member.
    ///
    /// # Errors
    /// The block, if it is at its last hop and must return to its allocator member, or if `to` is
    /// this member.
    pub fn give(&mut self, held: HeldBlock, to: u16) -> Result<BlockName, HeldBlock> {
        if held.hop >= HOP_MAX || to == self.index {
            return Err(held);
        }
        let name = self.name(&held, held.hop + 1, false);
        if held.allocator == self.index {
            self.blocks.mark_away(held.number);
        }
        self.claim(held.number, ClaimState::Given, to, held.hop, held.generation);
        Ok(name)
    }

    /// Takes a given block back after its message was withdrawn. `None` if a member claims the
    /// block all the same: the receiver broke the rules.
    pub fn take_back(&mut self, name: &BlockName) -> Option<HeldBlock> {
        let allocator = self.allocator_of(name.number)?;
        let (number, generation, hop) = (name.number, name.generation, name.hop.checked_sub(1)?);
        if !matches!(self.block_status(number, generation), BlockStatus::Pending { from, hop, .. }
            if from == self.index && hop == name.hop)
        {
            return None;
        }
        let given = self.own.load(word_index(number, CLAIM));
        self.claim(number, ClaimState::Held, 0, hop, generation);
        // Pairs with the fence of `accept`: a receiver that read the name knows the number.
        self.own.fence();
        if self.others.claimer(number, generation).is_some() {
            self.own.store(word_index(number, CLAIM), given);
            return None;
        }
        let span = self.span_of(allocator, number)?;
        if allocator == self.index {
            self.blocks.get_mut(number)?.state = OwnState::Held;
            self.blocks.unqueue(number);
        }
        Some(HeldBlock { number, generation, hop, allocator, span, bytes: name.bytes })
    }

    /// Gives a block up that could not be taken back. Its allocator member frees it as soon as no
    /// living member claims it.
    pub fn abandon(&mut self, name: &BlockName) {
        let (number, generation) = (name.number, name.generation);
        if self.extents.allocator_of(number) != Some(self.index) {
            let hop = name.hop.saturating_sub(1);
            return self.claim(number, ClaimState::Returned, 0, hop, generation);
        }
        let away = self
            .blocks
            .get(number)
            .is_some_and(|block| block.state == OwnState::Away && block.generation == generation);
        if away {
            self.void(number, generation, true);
        }
    }

    /// Lets other members read a block. Send the name to each of them.
    pub fn share(&mut self, held: &HeldBlock) -> BlockName {
        self.claim(held.number, ClaimState::Shared, 0, held.hop, held.generation);
        self.name(held, held.hop, true)
    }

    /// The number of `readers` that live and have not finished. Each reader has taken the name.
    #[must_use]
    pub fn readers_left(&self, held: &HeldBlock, readers: &[u16]) -> usize {
        let HeldBlock { hop, generation, .. } = *held;
        let done = Claim { state: ClaimState::Done, other: 0, hop, generation }.encode();
        let reads = |reader: &&u16| {
            self.others.get(**reader).is_some_and(|other| {
                other.lives && other.load(word_index(held.number, READING)) != done
            })
        };
        readers.iter().filter(reads).count()
    }

    /// Takes a shared block back for exclusive use. `false` while a member reads it.
    pub fn unshare(&mut self, held: &HeldBlock) -> bool {
        self.claim(held.number, ClaimState::Held, 0, held.hop, held.generation);
        self.own.fence(); // pairs with the fence of `accept_shared`
        let free = self.others.claimer(held.number, held.generation).is_none();
        if !free {
            self.claim(held.number, ClaimState::Shared, 0, held.hop, held.generation);
        }
        free
    }
}
