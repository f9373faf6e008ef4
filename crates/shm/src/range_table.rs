//! The ranges of a region that this process uses, and those that it may not touch.
//!
//! Leased ranges do not overlap, except equal ranges that are all leased for reading. A forbidden
//! range is unmapped for this process by its protection; a new lease of it lifts the protection. A
//! range that was never mapped is neither leased nor copied.

use crate::copier_steps::Marks;
use core::fmt;
use std::collections::BTreeMap;

/// One leased range, stored under its first offset.
#[derive(Clone, Copy, Debug)]
struct Lease {
    bytes: usize,
    /// Number of reading leases; 0 for one writing lease.
    readers: usize,
}

/// The leased and the forbidden ranges of one region, by offset.
#[derive(Default)]
pub(crate) struct RangeTable {
    leases: BTreeMap<usize, Lease>,
    /// Length of each forbidden range, by offset.
    forbidden: BTreeMap<usize, usize>,
    /// Length of each range that is not mapped, by offset.
    unmapped: BTreeMap<usize, usize>,
    /// The marks of the region's copiers, which the lock of this table guards.
    marks: Marks,
}

/// The counts: each block of an area has a range.
impl fmt::Debug for RangeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeTable")
            .field("leases", &self.leases.len())
            .field("forbidden", &self.forbidden.len())
            .finish_non_exhaustive()
    }
}

impl RangeTable {
    /// The marks of the region's copiers.
    pub(crate) fn marks(&mut self) -> &mut Marks {
        &mut self.marks
    }

    /// Whether `offset .. end` can be leased, for writing or for reading.
    pub(crate) fn is_leasable(&self, offset: usize, end: usize, writes: bool) -> bool {
        if self.unmapped_in(offset, end).is_some() {
            return false;
        }
        // Leases do not overlap: the last lease that begins before `end` is the only candidate.
        match self.leases.range(..end).next_back() {
            Some((at, lease)) if at + lease.bytes > offset => {
                *at == offset && at + lease.bytes == end && lease.readers > 0 && !writes
            }
            _ => true,
        }
    }

    /// Adds a lease of a range that [`is_leasable`](Self::is_leasable).
    pub(crate) fn add_lease(&mut self, offset: usize, end: usize, writes: bool) {
        let readers = usize::from(!writes);
        self.leases
            .entry(offset)
            .and_modify(|lease| lease.readers += readers)
            .or_insert(Lease { bytes: end - offset, readers });
    }

    /// Removes one lease of the range that begins at `offset`.
    pub(crate) fn remove_lease(&mut self, offset: usize) {
        match self.leases.get_mut(&offset) {
            Some(lease) if lease.readers > 1 => lease.readers -= 1,
            _ => drop(self.leases.remove(&offset)),
        }
    }

    /// Whether the range that begins at `offset` has exactly one lease.
    pub(crate) fn is_sole_lease(&self, offset: usize) -> bool {
        self.leases.get(&offset).is_some_and(|lease| lease.readers <= 1)
    }

    /// Whether any range is leased for writing.
    pub(crate) fn has_writer(&self) -> bool {
        self.leases.values().any(|lease| lease.readers == 0)
    }

    /// Whether an access by this process to `offset .. end` would meet a lease: any lease for a
    /// write access, a writing lease for a read access.
    pub(crate) fn is_in_use(&self, offset: usize, end: usize, write: bool) -> bool {
        let overlapping = self.leases.range(..end).rev();
        overlapping
            .take_while(|(at, lease)| *at + lease.bytes > offset)
            .any(|(_, lease)| write || lease.readers == 0)
    }

    /// The widest range around `offset .. end` of which an access by this process meets no lease
    /// and no forbidden range, as [`is_in_use`](Self::is_in_use). It may end above the region.
    pub(crate) fn unused_around(
        &self,
        offset: usize,
        end: usize,
        write: bool,
    ) -> Option<(usize, usize)> {
        let is_met = |lease: &Lease| write || lease.readers == 0;
        if self.is_in_use(offset, end, write) || !self.is_accessible(offset, end) {
            return None;
        }
        let lease_below = self.leases.range(..offset).rev().find(|(_, lease)| is_met(lease));
        let lease_above = self.leases.range(end..).find(|(_, lease)| is_met(lease));
        let forbidden_below = self.forbidden.range(..offset).next_back();
        let forbidden_above = self.forbidden.range(end..).next();
        let from = lease_below.map_or(0, |(at, lease)| at + lease.bytes);
        let from = from.max(forbidden_below.map_or(0, |(at, bytes)| at + bytes));
        let above = lease_above.map_or(usize::MAX, |(at, _)| *at);
        let above = above.min(forbidden_above.map_or(usize::MAX, |(at, _)| *at));
        let unmapped_below = self.unmapped.range(..offset).next_back();
        let unmapped_above = self.unmapped.range(end..).next();
        let from = from.max(unmapped_below.map_or(0, |(at, bytes)| at + bytes));
        Some((from, above.min(unmapped_above.map_or(usize::MAX, |(at, _)| *at))))
    }

    /// Whether this process may access all of `offset .. end`.
    pub(crate) fn is_accessible(&self, offset: usize, end: usize) -> bool {
        self.forbidden_in(offset, end).is_none() && self.unmapped_in(offset, end).is_none()
    }

    /// Marks a range as not mapped.
    pub(crate) fn set_unmapped(&mut self, offset: usize, bytes: usize) {
        self.unmapped.insert(offset, bytes);
    }

    /// The part of `offset .. end` at its end that is not mapped: its offset and length.
    pub(crate) fn unmapped_in(&self, offset: usize, end: usize) -> Option<(usize, usize)> {
        let (at, bytes) = self.unmapped.range(..end).next_back()?;
        let (from, until) = ((*at).max(offset), (at + bytes).min(end));
        (from < until).then(|| (from, until - from))
    }

    /// Marks a range that [`unmapped_in`](Self::unmapped_in) found as mapped.
    pub(crate) fn set_mapped(&mut self, offset: usize, bytes: usize) {
        let Some((at, length)) = self.unmapped.range(..=offset).next_back() else { return };
        let (at, end) = (*at, at + length);
        self.unmapped.remove(&at);
        if offset > at {
            self.unmapped.insert(at, offset - at);
        }
        if end > offset + bytes {
            self.unmapped.insert(offset + bytes, end - offset - bytes);
        }
    }

    /// Marks a range as forbidden.
    pub(crate) fn forbid(&mut self, offset: usize, bytes: usize) {
        self.forbidden.insert(offset, bytes);
    }

    /// Marks the forbidden range at `offset` as allowed again.
    pub(crate) fn allow(&mut self, offset: usize) {
        self.forbidden.remove(&offset);
    }

    /// A forbidden range that overlaps `offset .. end`: its offset and length.
    pub(crate) fn forbidden_in(&self, offset: usize, end: usize) -> Option<(usize, usize)> {
        let last = self.forbidden.range(..end).next_back().map(|(at, bytes)| (*at, *bytes));
        last.filter(|(at, bytes)| at + bytes > offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(table: &mut RangeTable, offset: usize, end: usize, writes: bool) -> bool {
        let leasable = table.is_leasable(offset, end, writes);
        if leasable {
            table.add_lease(offset, end, writes);
        }
        leasable
    }

    #[test]
    fn a_writing_lease_excludes_all_others() {
        let mut table = RangeTable::default();
        assert!(lease(&mut table, 64, 128, true) && table.has_writer());
        for (offset, end) in [(64, 128), (0, 65), (127, 192), (0, 192), (64, 65)] {
            assert!(!lease(&mut table, offset, end, false), "{offset} to {end}");
            assert!(!lease(&mut table, offset, end, true), "{offset} to {end}");
        }
        assert!(lease(&mut table, 0, 64, true) && lease(&mut table, 128, 129, false));
        table.remove_lease(64);
        assert!(lease(&mut table, 64, 128, false));
    }

    #[test]
    fn equal_reading_leases_share_a_range() {
        let mut table = RangeTable::default();
        assert!(lease(&mut table, 64, 128, false) && table.is_sole_lease(64));
        assert!(lease(&mut table, 64, 128, false) && !table.is_sole_lease(64));
        assert!(!lease(&mut table, 64, 96, false), "only an equal range is shared");
        assert!(!table.has_writer() && !lease(&mut table, 64, 128, true));
        assert!(table.is_in_use(0, 65, true) && !table.is_in_use(0, 65, false));
        table.remove_lease(64);
        table.remove_lease(64);
        assert!(lease(&mut table, 64, 128, true) && table.is_in_use(127, 200, false));
    }

    #[test]
    fn an_unused_range_ends_at_its_neighbours() {
        let mut table = RangeTable::default();
        assert_eq!(table.unused_around(5, 6, true), Some((0, usize::MAX)));
        assert!(lease(&mut table, 64, 128, false) && lease(&mut table, 256, 320, true));
        table.forbid(512, 64);
        table.forbid(0, 8);
        assert_eq!(table.unused_around(130, 140, true), Some((128, 256)));
        assert_eq!(table.unused_around(130, 140, false), Some((8, 256)), "readers may read");
        assert_eq!(table.unused_around(64, 128, false), Some((8, 256)));
        assert_eq!(table.unused_around(320, 512, true), Some((320, 512)));
        assert_eq!(table.unused_around(576, 577, true), Some((576, usize::MAX)));
        for (offset, end) in [(127, 130), (100, 300), (255, 257), (320, 513), (575, 600), (0, 9)] {
            assert_eq!(table.unused_around(offset, end, true), None, "{offset} to {end}");
        }
        assert_eq!(table.unused_around(300, 310, false), None, "a writer excludes readers");
    }

    #[test]
    fn a_range_that_is_not_mapped_is_neither_leased_nor_accessible() {
        let mut table = RangeTable::default();
        table.set_unmapped(0, 1000);
        assert_eq!(table.unmapped_in(100, 200), Some((100, 100)));
        assert!(!lease(&mut table, 150, 160, true) && !table.is_accessible(150, 160));
        table.set_mapped(100, 100);
        assert_eq!(table.unmapped_in(100, 200), None);
        assert_eq!(table.unmapped_in(50, 300), Some((200, 100)), "the last one first");
        assert_eq!(table.unmapped_in(50, 200), Some((50, 50)));
        assert_eq!(table.unused_around(150, 160, true), Some((100, 200)));
        assert!(lease(&mut table, 100, 200, true));
        assert!(!table.is_accessible(199, 201) && !table.is_accessible(99, 101));
        table.set_mapped(0, 100);
        table.set_mapped(200, 800);
        assert_eq!(table.unmapped_in(0, usize::MAX), None);
    }

    #[test]
    fn forbidden_ranges_are_found_by_overlap() {
        let mut table = RangeTable::default();
        table.forbid(64, 64);
        assert_eq!(table.forbidden_in(0, 64), None);
        assert_eq!(table.forbidden_in(0, 65), Some((64, 64)));
        assert_eq!(table.forbidden_in(127, 128), Some((64, 64)));
        assert_eq!(table.forbidden_in(128, 200), None);
        table.allow(64);
        assert_eq!(table.forbidden_in(0, 200), None);
    }
}
