//! One member of an area: its ledger, its own blocks, and its view of the other members.
//!
//! ```text
//!        allocate            give                 (message)            accept
//! FREE ------------> HELD ----------> GIVEN to B - - - - - - - - > HELD at B, next hop
//!   ^                  |  <----------   (after a withdrawn            |
//!   |                  |   take_back     message)                     | release
//!   +------------------+                                              v
//!   |     release                                                RETURNED at B
//!   +---------------------------------------------------------------- + sweep, by the allocator
//! ```
//!
//! The allocator member reuses a number and its memory in two steps. It first makes the old
//! generation void, and then checks that no living member claims it. A receiver first writes its
//! claim and then reads the allocator member's record. So at least one of the two sees the other.

mod accept;
mod give;
mod surrender;
mod sweep;

use crate::allocator::BlockLifetime;
use crate::block::{HeldBlock, ReadingKey};
use crate::claim::{Claim, ClaimState, Span};
use crate::extent_map::ExtentMap;
use crate::name::BlockName;
use crate::orphan_scan::{LedgerSet, is_in_use};
use crate::other_members::{OtherMember, OtherMembers};
use crate::own_blocks::OwnBlocks;
use crate::ownership_trace::{BlockStatus, trace_owner};
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, SPAN, UNIT_BYTES, word_index};
use m3ipc_abi::{Address, Extent};
use std::collections::{BTreeMap, BTreeSet};

/// The extents of this member have no free memory or number for a block. Ask the daemon for a
/// further extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for a block of {bytes} bytes in the extents of this member; get another extent")]
pub struct AreaFull {
    /// Bytes that the block takes, with the worst loss by alignment.
    pub bytes: u64,
}

/// The record of the last acceptance, for [`AreaMember::refuse`].
#[derive(Clone, Copy, Debug)]
struct LastAccepted {
    number: u32,
    /// This member's claim before.
    claim: u64,
    /// The generation before.
    generation: u32,
}

/// One member of an area. `O` is its own ledger; `P` are the ledgers of the others.
#[derive(Debug)]
pub struct AreaMember<O, P> {
    area: u32,
    index: u16,
    /// Number of records of each ledger.
    numbers: u32,
    own: O,
    others: OtherMembers<P>,
    extents: ExtentMap,
    blocks: OwnBlocks,
    /// Number of calls of [`mark_events_received`](Self::mark_events_received).
    round: u64,
    last_accepted: Option<LastAccepted>,
    /// The number of open readings of each block that this member reads.
    readings: BTreeMap<ReadingKey, u32>,
    /// The extents of a list that is not complete yet, by their first bytes.
    listed: Option<BTreeSet<u64>>,
}

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// A member that has just joined. `numbers` is the number of records of each ledger.
    pub fn new(area: u32, index: u16, numbers: u32, own: O) -> Self {
        Self {
            area,
            index,
            numbers,
            own,
            others: OtherMembers::default(),
            extents: ExtentMap::default(),
            blocks: OwnBlocks::default(),
            round: 0,
            last_accepted: None,
            readings: BTreeMap::new(),
            listed: None,
        }
    }

    /// The caller has received all daemon events about members up to now. Blocks that became void
    /// before may be free.
    ///
    /// A member joins before it claims a block, and the daemon announces it before it can claim. So
    /// this member knows every claimer of a void generation after the next round.
    pub fn mark_events_received(&mut self) {
        self.round += 1;
    }

    /// This member's index.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Another member may join. This member can give blocks to it already.
    pub fn expect_member(&mut self, index: u16, address: Address) {
        if index != self.index {
            self.others.expect(index, address);
        }
    }

    /// Another member has joined.
    pub fn learn_member(&mut self, index: u16, address: Address, ledger: P) {
        self.expect_member(index, address);
        self.others.set_ledger(index, ledger);
    }

    /// A member has died, or left. Its claims no longer count.
    pub fn member_left(&mut self, index: u16) {
        self.others.mark_gone(index);
    }

    /// The living member of this address. The report of the end of an earlier one may still come.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<u16> {
        self.others.latest(address).map(|other| other.index)
    }

    /// The address of another member, living or gone.
    #[must_use]
    pub fn address_of(&self, index: u16) -> Option<Address> {
        self.others.get(index).map(|other| other.address)
    }

    /// Whether a living member of this address has joined, and not only may.
    #[must_use]
    pub fn has_joined(&self, address: Address) -> bool {
        self.others.latest(address).is_some_and(OtherMember::has_ledger)
    }

    /// All other living members.
    pub fn members(&self) -> impl Iterator<Item = Address> {
        self.others.living().map(|other| other.address)
    }

    /// The daemon has given an extent to a member. This member allocates in its own extents.
    pub fn learn_extent(&mut self, extent: Extent) {
        if let Some(listed) = &mut self.listed {
            listed.insert(extent.offset);
        }
        self.extents.add(extent);
        if extent.allocator == self.index {
            self.blocks.add_extent(extent, self.numbers);
        }
    }

    /// Another daemon is about to list all extents. The former one may have taken some back without
    /// a report.
    pub fn begin_extent_list(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// The list is complete. Extents of others that it lacks are gone.
    pub fn end_extent_list(&mut self) {
        let Some(listed) = self.listed.take() else { return };
        let gone: Vec<u64> = self
            .extents
            .extents()
            .filter(|extent| extent.allocator != self.index && !listed.contains(&extent.offset))
            .map(|extent| extent.offset)
            .collect();
        gone.into_iter().for_each(|offset| self.extents.remove(offset));
    }

    /// The daemon has taken the extent of a dead member back.
    pub fn forget_extent(&mut self, offset: u64) {
        self.extents.remove(offset);
    }

    /// Begin and end of the adjacent extents around this offset, in bytes.
    #[must_use]
    pub fn span(&self, offset: u64) -> Option<(u64, u64)> {
        self.extents.span(offset)
    }

    /// Allocates a block; `align` is a power of two.
    ///
    /// # Errors
    /// [`AreaFull`], also if all block numbers are in use. A further extent brings both.
    pub fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        lifetime: BlockLifetime,
    ) -> Result<HeldBlock, AreaFull> {
        self.sweep_some();
        let full = AreaFull { bytes: bytes.saturating_add(align) };
        let units = bytes.max(1).div_ceil(UNIT_BYTES);
        let Ok(units) = u32::try_from(units) else { return Err(full) };
        if !align.is_power_of_two() {
            return Err(full);
        }
        let taken = match self.blocks.take(units, align, lifetime) {
            Some(taken) => taken,
            None => {
                self.sweep_all();
                self.blocks.take(units, align, lifetime).ok_or(full)?
            }
        };
        let (number, block) = taken;
        // The span first: a member that sees the claim then sees the span.
        self.own.store(word_index(number, SPAN), block.span.encode());
        self.claim(number, ClaimState::Held, 0, 0, block.generation);
        let allocator = self.index;
        let generation = block.generation;
        Ok(HeldBlock { number, generation, hop: 0, allocator, span: block.span, bytes })
    }

    /// Ends the holding of a block. Its allocator member frees it, at once or at its next sweep.
    pub fn release(&mut self, held: HeldBlock) {
        if held.allocator == self.index {
            self.void(held.number, held.generation, false);
        } else {
            self.claim(held.number, ClaimState::Returned, 0, held.hop, held.generation);
        }
    }

    /// Free bytes and all bytes of this member's extents.
    #[must_use]
    pub fn free_and_total_bytes(&self) -> (u64, u64) {
        (self.blocks.allocator().free_bytes(), self.blocks.allocator().total_bytes())
    }

    /// The longest free range in this member's extents, in bytes.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.blocks.allocator().largest_free()
    }

    /// Number of own blocks that other members have, or may have.
    #[must_use]
    pub fn blocks_away(&self) -> usize {
        self.blocks.pending_count()
    }

    /// The status of a block by the ledgers of all members.
    #[must_use]
    pub fn block_status(&self, number: u32, generation: u32) -> BlockStatus {
        let Some(allocator) = self.allocator_of(number) else { return BlockStatus::Gone };
        trace_owner(allocator, generation, self.count(), |member| {
            self.load(member, word_index(number, CLAIM)).map(Claim::decode)
        })
    }

    /// This member's claim to a block.
    #[must_use]
    pub fn own_claim(&self, number: u32) -> Claim {
        Claim::decode(self.own.load(word_index(number, CLAIM)))
    }

    /// The dead members whose extents are orphaned, as far as this member sees.
    #[must_use]
    pub fn orphaned_extents(&self) -> Vec<u16> {
        let all = self.extents.extents();
        let mut dead: Vec<u16> = all
            .map(|extent| extent.allocator)
            .filter(|index| self.others.is_dead(*index))
            .collect();
        dead.sort_unstable();
        dead.dedup();
        let used = |index: u16| {
            self.extents.extents().filter(|extent| extent.allocator == index).any(|extent| {
                let last = extent.first_number.saturating_add(extent.numbers).min(self.numbers);
                is_in_use(self, index, extent.first_number..last)
            })
        };
        dead.retain(|index| !used(*index));
        dead
    }

    /// The allocator member of a block number that the ledgers have a record for.
    fn allocator_of(&self, number: u32) -> Option<u16> {
        self.extents.allocator_of(number).filter(|_| number < self.numbers)
    }

    /// The span of a block by its allocator member, if it lies in that member's extents.
    fn span_of(&self, allocator: u16, number: u32) -> Option<Span> {
        if allocator == self.index {
            return self.blocks.get(number).map(|block| block.span);
        }
        let span = Span::decode(self.load(allocator, word_index(number, SPAN))?);
        self.extents.contains(allocator, span).then_some(span)
    }

    fn name(&self, held: &HeldBlock, hop: u32, shared: bool) -> BlockName {
        let (number, generation, bytes) = (held.number, held.generation, held.bytes);
        BlockName { area: self.area, number, generation, hop, bytes, shared, payload: false }
    }

    fn claim(&self, number: u32, state: ClaimState, other: u16, hop: u32, generation: u32) {
        let claim = Claim { state, other, hop, generation };
        self.own.store(word_index(number, CLAIM), claim.encode());
    }

    /// A word of a member's ledger.
    fn load(&self, member: u16, at: usize) -> Option<u64> {
        if member == self.index {
            return Some(self.own.load(at));
        }
        self.others.get(member).map(|other| other.load(at))
    }
}

impl<O: OwnLedgerWords, P: LedgerWords> LedgerSet for AreaMember<O, P> {
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64> {
        self.load(member, word_index(number, word))
    }

    fn lives(&self, member: u16) -> bool {
        member == self.index || self.others.get(member).is_some_and(|other| other.lives)
    }

    fn living(&self) -> impl Iterator<Item = u16> {
        let others = self.others.living().filter(|other| other.has_ledger());
        others.map(|other| other.index).chain([self.index])
    }

    fn count(&self) -> usize {
        self.others.count() + 1
    }
}

#[cfg(test)]
mod tests;
