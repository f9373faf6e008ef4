//! The blocks that this member allocates: private tables that no other process sees.

use crate::allocator::{Allocator, BlockLifetime};
use crate::claim::{GENERATION_MASK, Span};
use crate::name::BlockName;
use crate::words::UNIT_BYTES;
use core::fmt;
use m3ipc_abi::Extent;
use std::collections::VecDeque;

/// The state of one own block number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnState {
    /// Not allocated.
    Free,
    /// This member holds the block.
    Held,
    /// Another member has the block, or will get it.
    Away,
    /// The same, and a call of this member goes on that may take the block back.
    InCall,
    /// The generation became void in this round. The number is free when no member known in a
    /// later round claims it.
    Void(u64),
}

/// One own block number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBlock {
    pub(crate) state: OwnState,
    pub(crate) span: Span,
    pub(crate) generation: u32,
}

/// The block numbers of one own extent.
struct OwnExtent {
    first_number: u32,
    blocks: Vec<OwnBlock>,
}

/// All own blocks.
#[derive(Default)]
pub(crate) struct OwnBlocks {
    allocator: Allocator,
    extents: Vec<OwnExtent>,
    free_numbers: Vec<u32>,
    /// Numbers in the states `Away` and `Void`, in the order of the next check.
    pending: VecDeque<u32>,
}

/// Their counts: an extent has thousands of numbers.
impl fmt::Debug for OwnBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnBlocks")
            .field("extents", &self.extents.len())
            .field("free_numbers", &self.free_numbers.len())
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl OwnBlocks {
    /// Adds an extent of this member, unless it is known. `numbers` is the size of a ledger.
    pub(crate) fn add_extent(&mut self, extent: Extent, numbers: u32) {
        if self.extents.iter().any(|own| own.first_number == extent.first_number) {
            return;
        }
        let last = extent.first_number.saturating_add(extent.numbers).min(numbers);
        let numbers = extent.first_number..last;
        self.allocator.add(extent.offset, extent.bytes);
        let fresh = OwnBlock {
            state: OwnState::Free,
            span: Span { offset: 0, units: 0 },
            generation: extent.generation & GENERATION_MASK,
        };
        self.extents.push(OwnExtent {
            first_number: extent.first_number,
            blocks: numbers.clone().map(|_| fresh).collect(),
        });
        self.free_numbers.extend(numbers.rev());
    }

    /// Takes a number and `units` units of memory. Returns the number, span and generation.
    pub(crate) fn take(
        &mut self,
        units: u32,
        align: u64,
        lifetime: BlockLifetime,
    ) -> Option<(u32, OwnBlock)> {
        // The number first: without one, the memory stays free.
        let number = *self.free_numbers.last()?;
        let offset = self.allocator.take(u64::from(units) * UNIT_BYTES, align, lifetime)?;
        // Extents lie within the area, whose limit is below 2^32 units.
        let offset = u32::try_from(offset / UNIT_BYTES).unwrap_or(u32::MAX);
        self.free_numbers.pop();
        let block = self.get_mut(number)?;
        block.state = OwnState::Held;
        block.span = Span { offset, units };
        Some((number, *block))
    }

    /// Frees the number and its memory.
    pub(crate) fn free(&mut self, number: u32) {
        let Some(block) = self.get_mut(number) else { return };
        block.state = OwnState::Free;
        let span = block.span;
        self.free_numbers.push(number);
        let (offset, units) = (u64::from(span.offset), u64::from(span.units));
        self.allocator.give(offset * UNIT_BYTES, units * UNIT_BYTES);
    }

    pub(crate) fn get(&self, number: u32) -> Option<&OwnBlock> {
        self.extents
            .iter()
            .find_map(|extent| extent.blocks.get(number.checked_sub(extent.first_number)? as usize))
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut OwnBlock> {
        self.extents.iter_mut().find_map(|extent| {
            extent.blocks.get_mut(number.checked_sub(extent.first_number)? as usize)
        })
    }

    /// Marks a block as away and queues it for a check.
    pub(crate) fn mark_away(&mut self, number: u32) {
        if let Some(block) = self.get_mut(number) {
            block.state = OwnState::Away;
            self.pending.push_back(number);
        }
    }

    /// Changes the state of a block of this name, if it is its own and has the former state.
    pub(crate) fn change(&mut self, name: &BlockName, former: OwnState, next: OwnState) {
        let block = self.get_mut(name.number);
        let of_name =
            |block: &&mut OwnBlock| block.state == former && block.generation == name.generation;
        if let Some(block) = block.filter(of_name) {
            block.state = next;
        }
    }

    /// Queues a number for a check.
    pub(crate) fn queue(&mut self, number: u32) {
        self.pending.push_back(number);
    }

    /// Takes a number out of the queue.
    pub(crate) fn unqueue(&mut self, number: u32) {
        self.pending.retain(|pending| *pending != number);
    }

    /// Whether no block is in use.
    pub(crate) fn is_idle(&self) -> bool {
        let mut blocks = self.extents.iter().flat_map(|extent| &extent.blocks);
        blocks.all(|block| block.state == OwnState::Free)
    }

    /// The number with the oldest check.
    pub(crate) fn next_pending(&mut self) -> Option<u32> {
        self.pending.pop_front()
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.allocator
    }
}
