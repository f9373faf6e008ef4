//! The allocator: private tables over the extents of one allocator member.
//!
//! Short-lived blocks come from the front and long-lived blocks from the back, so the two kinds do
//! not fragment each other (AnT's rule for its ICA). The tables order free ranges by address and,
//! for speed, in bins by size. Every range of a higher bin fits, so each bin needs one look-up.

use crate::words::UNIT_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// The expected lifetime of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BlockLifetime {
    /// Freed soon; allocated from the front.
    #[default]
    Short,
    /// Kept; allocated from the back.
    Long,
}

const BINS: usize = 64;

/// The free ranges of the extents. All sizes are in bytes and multiples of [`UNIT_BYTES`].
#[derive(Clone, Debug)]
pub struct Allocator {
    free: BTreeMap<u64, u64>,
    bins: Vec<BTreeSet<u64>>,
    free_bytes: u64,
    total_bytes: u64,
}

impl Default for Allocator {
    fn default() -> Self {
        Self {
            free: BTreeMap::new(),
            bins: vec![BTreeSet::new(); BINS],
            free_bytes: 0,
            total_bytes: 0,
        }
    }
}

fn bin_of(bytes: u64) -> usize {
    bytes.checked_ilog2().unwrap_or(0) as usize
}

impl Allocator {
    /// Adds an extent.
    pub fn add(&mut self, offset: u64, bytes: u64) {
        self.total_bytes += bytes;
        self.give(offset, bytes);
    }

    /// Takes a range of `bytes` bytes at a multiple of `align` (a power of two).
    pub fn take(&mut self, bytes: u64, align: u64, kind: BlockLifetime) -> Option<u64> {
        let align = align.max(UNIT_BYTES);
        let range = self.find(bytes, align, kind)?;
        let length = self.remove(range);
        let offset = match kind {
            BlockLifetime::Short => range.next_multiple_of(align),
            BlockLifetime::Long => (range + length - bytes) & !(align - 1),
        };
        if offset > range {
            self.insert(range, offset - range);
        }
        let (end, taken_end) = (range + length, offset + bytes);
        if end > taken_end {
            self.insert(taken_end, end - taken_end);
        }
        self.free_bytes -= bytes;
        Some(offset)
    }

    /// Gives a taken range back.
    pub fn give(&mut self, offset: u64, bytes: u64) {
        self.free_bytes += bytes;
        let (mut start, mut length) = (offset, bytes);
        if let Some((before, size)) =
            self.free.range(..offset).next_back().map(|(at, size)| (*at, *size))
            && before + size == offset
        {
            self.remove(before);
            (start, length) = (before, length + size);
        }
        let end = offset + bytes;
        if let Some(size) = self.free.get(&end).copied() {
            self.remove(end);
            length += size;
        }
        self.insert(start, length);
    }

    /// Free bytes.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Bytes of all extents.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The longest free range, in bytes.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        let bin = self.bins.iter().rev().find(|bin| !bin.is_empty());
        bin.and_then(|bin| bin.iter().map(|at| self.free[at]).max()).unwrap_or(0)
    }

    fn insert(&mut self, offset: u64, bytes: u64) {
        self.free.insert(offset, bytes);
        self.bins[bin_of(bytes)].insert(offset);
    }

    fn remove(&mut self, offset: u64) -> u64 {
        let bytes = self.free.remove(&offset).unwrap_or(0);
        self.bins[bin_of(bytes)].remove(&offset);
        bytes
    }

    /// The fitting range nearest to the front (short) or to the back (long).
    fn find(&self, bytes: u64, align: u64, kind: BlockLifetime) -> Option<u64> {
        // A range of this bin fits at any alignment of its first byte.
        let surely = bin_of(bytes + align - UNIT_BYTES).saturating_add(1);
        let mut best = self.bins[surely.min(BINS)..].iter().fold(None, |best, bin| {
            let next = if kind == BlockLifetime::Short { bin.first() } else { bin.last() };
            nearer(kind, best, next.copied())
        });
        // A range of a lower bin may still fit.
        if best.is_none() {
            for bin in &self.bins[bin_of(bytes)..surely.min(BINS)] {
                best = nearer(kind, best, self.search(bin, bytes, align, kind));
            }
        }
        best
    }

    fn search(
        &self,
        bin: &BTreeSet<u64>,
        bytes: u64,
        align: u64,
        kind: BlockLifetime,
    ) -> Option<u64> {
        let fits = |at: &&u64| {
            let length = self.free[*at];
            match kind {
                BlockLifetime::Short => at.next_multiple_of(align) + bytes <= *at + length,
                BlockLifetime::Long => {
                    length >= bytes && (*at + length - bytes) & !(align - 1) >= **at
                }
            }
        };
        match kind {
            BlockLifetime::Short => bin.iter().find(fits).copied(),
            BlockLifetime::Long => bin.iter().rev().find(fits).copied(),
        }
    }
}

fn nearer(kind: BlockLifetime, one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other, kind) {
        (Some(one), Some(other), BlockLifetime::Short) => Some(one.min(other)),
        (Some(one), Some(other), BlockLifetime::Long) => Some(one.max(other)),
        (one, other, _) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
