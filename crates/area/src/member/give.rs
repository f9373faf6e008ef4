//! Giving and sharing a block, and taking it back.

use super::AreaMember;
use crate::block::{HeldBlock, ReturnedBlock};
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

    /// Gives a block with the message of a call. Until [`end_call`](Self::end_call) or
    /// [`take_back`](Self::take_back), no sweep frees the block, whether the receiver lives or not.
    ///
    /// # Errors
    /// As [`give`](Self::give).
    pub fn give_in_call(&mut self, held: HeldBlock, to: u16) -> Result<BlockName, HeldBlock> {
        let name = self.give(held, to)?;
        self.blocks.change(&name, OwnState::Away, OwnState::InCall);
        Ok(name)
    }

    /// The call has ended, and its message was taken: the block is the receiver's.
    pub fn end_call(&mut self, name: &BlockName) {
        self.blocks.change(name, OwnState::InCall, OwnState::Away);
    }

    /// Takes a given block back after its message was withdrawn.
    ///
    /// `None` if a member claims the block all the same: the receiver broke the rules. Also `None`
    /// if both the receiver and the allocator member are gone: the block may be free already. After
    /// events about members, ask [`is_returned`](Self::is_returned) too.
    pub fn take_back(&mut self, name: &BlockName) -> Option<ReturnedBlock> {
        let allocator = self.allocator_of(name.number)?;
        let (number, generation, hop) = (name.number, name.generation, name.hop.checked_sub(1)?);
        let BlockStatus::Pending { to, from, hop: next } = self.block_status(number, generation)
        else {
            return None;
        };
        if from != self.index || next != name.hop {
            return None;
        }
        let span = self.span_of(allocator, number)?;
        let given = self.own.load(word_index(number, CLAIM));
        self.claim(number, ClaimState::Held, 0, hop, generation);
        // Pairs with the fence of `accept`: a receiver that read the name knows the number. Pairs
        // with the fence of the allocator member in `void`: one of the two sees the other.
        self.own.fence();
        let held = HeldBlock { number, generation, hop, allocator, span, bytes: name.bytes };
        let returned = ReturnedBlock { held, receiver: to };
        if !self.is_returned(&returned) {
            self.own.store(word_index(number, CLAIM), given);
            return None;
        }
        if allocator == self.index {
            self.blocks.get_mut(number)?.state = OwnState::Held;
            self.blocks.unqueue(number);
        }
        Some(returned)
    }

    /// Whether a block that was taken back is held by this member alone. If not,
    /// [release](Self::release) the block.
    ///
    /// If the allocator member and the receiver are gone, the orphan scan may have freed the block
    /// before this member claimed it. The members learn of both deaths before such a scan.
    #[must_use]
    pub fn is_returned(&self, returned: &ReturnedBlock) -> bool {
        let ReturnedBlock { held, receiver } = returned;
        let is_orphan = self.others.is_dead(held.allocator) && self.others.is_dead(*receiver);
        !is_orphan && self.is_mine_alone(held)
    }

    /// Gives a block up that could not be taken back. Its allocator member frees it as soon as no
    /// living member claims it.
    pub fn abandon(&mut self, name: &BlockName) {
        let (number, generation) = (name.number, name.generation);
        self.end_call(name);
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
