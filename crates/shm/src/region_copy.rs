//! Copies into, out of and across fixed regions, made by this process itself.
//!
//! The table of ranges stays locked during a copy, so no range is leased meanwhile; keep each copy
//! short. A copy of a range in use is refused; the caller then lets the kernel copy it.
//!
//! # Safety
//! A range lies inside, is mapped, and is not forbidden. It overlaps no writing lease of this
//! process, and no lease at all for a write. So no reference of this process sees it change. Other
//! processes may write it meanwhile, so all bytes go through [`crate::copy`].
#![allow(unsafe_code)]

use crate::copy::copy_overlapping;
use crate::fixed_region::FixedRegion;
use crate::range_table::RangeTable;
use core::ptr::NonNull;
use m3ipc_sys::{CopySource, CopyTarget};

impl FixedRegion {
    /// Copies bytes to an offset of the region. Returns `false`, and copies nothing, if this
    /// process may not write all of the destination, uses some of it, or is not sure of the source.
    #[must_use]
    pub fn copy_in(&self, offset: u64, from: &CopySource<'_>) -> bool {
        let ranges = self.ranges();
        let Some(to) = self.unused(&ranges, offset, from.bytes(), true) else { return false };
        if !from.is_sure() {
            return false;
        }
        // SAFETY: `is_sure` says that `from` is readable; `unused` checked `to`.
        unsafe { copy_overlapping(to.as_ptr(), from.start(), from.bytes()) };
        true
    }

    /// Copies bytes from an offset of the region. Returns `false` as [`copy_in`](Self::copy_in).
    #[must_use]
    pub fn copy_out(&self, offset: u64, into: &CopyTarget<'_>) -> bool {
        let ranges = self.ranges();
        let Some(from) = self.unused(&ranges, offset, into.bytes(), false) else { return false };
        if !into.is_sure() {
            return false;
        }
        // SAFETY: `is_sure` says that `into` is writable; `unused` checked `from`.
        unsafe { copy_overlapping(into.start(), from.as_ptr(), into.bytes()) };
        true
    }

    /// Copies within the region, or to the region of another area. Returns `false` as
    /// [`copy_in`](Self::copy_in).
    #[must_use]
    pub fn copy_across(&self, offset: u64, to: &FixedRegion, to_offset: u64, bytes: usize) -> bool {
        let address = |region: &FixedRegion| std::ptr::from_ref(region).addr();
        // All threads lock in the order of addresses, so two locks cannot deadlock.
        let (first, second) = if address(self) <= address(to) { (self, to) } else { (to, self) };
        let ranges = first.ranges();
        let others = (address(first) != address(second)).then(|| second.ranges());
        let of = |region: &FixedRegion| match &others {
            Some(others) if address(region) == address(second) => others,
            _ => &ranges,
        };
        let source = self.unused(of(self), offset, bytes, false);
        let (Some(from), Some(into)) = (source, to.unused(of(to), to_offset, bytes, true)) else {
            return false;
        };
        // SAFETY: `unused` checked both ranges; they may overlap.
        unsafe { copy_overlapping(into.as_ptr(), from.as_ptr(), bytes) };
        true
    }

    /// Assures a source that another party vouched for, if it lies in this region.
    #[must_use]
    pub fn assure_source<'a>(&self, bytes: &CopySource<'a>) -> Option<CopySource<'a>> {
        self.check_address(bytes.address(), bytes.bytes(), false)?;
        // SAFETY: the bytes are mapped for reading (just checked). The region stays mapped while
        // its area is attached, and the party that vouched forbids no part of them meanwhile.
        Some(unsafe { bytes.part(0, usize::MAX).assured() })
    }

    /// Assures a target that another party vouched for, if it lies in this region.
    #[must_use]
    pub fn assure_target<'a>(&self, room: &'a mut CopyTarget<'_>) -> Option<CopyTarget<'a>> {
        self.check_address(room.address(), room.bytes(), true)?;
        // SAFETY: the bytes are mapped for writing (just checked); the rest as in `assure_source`.
        Some(unsafe { room.part(0, usize::MAX).assured() })
    }

    fn check_address(&self, address: u64, bytes: usize, write: bool) -> Option<()> {
        let offset = address.checked_sub(self.start().addr().get() as u64)?;
        self.accessible(&self.ranges(), offset, bytes, write).map(drop)
    }

    /// The first byte of a range that this process may access and does not use.
    fn unused(
        &self,
        ranges: &RangeTable,
        offset: u64,
        bytes: usize,
        write: bool,
    ) -> Option<NonNull<u8>> {
        let (at, end) = self.accessible(ranges, offset, bytes, write)?;
        // SAFETY: `accessible` checked that the range lies inside the mapping.
        (!ranges.is_in_use(at, end, write)).then(|| unsafe { self.start().add(at) })
    }

    /// Begin and end of a range that lies inside, is mapped, and is not forbidden.
    fn accessible(
        &self,
        ranges: &RangeTable,
        offset: u64,
        bytes: usize,
        write: bool,
    ) -> Option<(usize, usize)> {
        let at = usize::try_from(offset).ok()?;
        let end = at.checked_add(bytes).filter(|end| *end <= self.bytes())?;
        let allowed = ranges.is_accessible(at, end) && (!write || self.is_writable());
        allowed.then_some((at, end))
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use crate::FixedRegion;
    use m3ipc_sys::{CopySource, CopyTarget};
    use std::sync::Arc;

    const BYTES: usize = 1 << 20;

    fn region(address: u64, writable: bool) -> Arc<FixedRegion> {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        FixedRegion::map_at(memory, address, BYTES, writable).unwrap()
    }

    #[test]
    fn unused_ranges_are_copied() {
        let (one, two) = (region(0x5910_0000_0000, true), region(0x5910_1000_0000, true));
        let sent: Vec<u8> = (0..=255).collect();
        assert!(one.copy_in(100, &CopySource::from(&sent[..])));
        assert!(one.copy_across(100, &one, 200, 256), "the ranges overlap");
        assert!(one.copy_across(200, &two, 5, 256) && two.copy_across(5, &one, 4096, 256));
        let mut got = [0; 256];
        assert!(one.copy_out(4096, &CopyTarget::from(&mut got[..])));
        assert_eq!(got[..], sent);
    }

    #[test]
    fn ranges_in_use_or_outside_are_left_alone() {
        let region = region(0x5910_2000_0000, true);
        let (mut got, end, page) = ([7; 64], BYTES as u64, m3ipc_sys::page_bytes());
        let writes = region.lease(page, page, true).unwrap();
        let reads = region.lease(4 * page, page, false).unwrap();
        let of_reads = [4 * page - 63, 5 * page - 1];
        let others = [page - 63, page, 2 * page - 1, end - 63, end, u64::MAX - 5];
        for offset in others.into_iter().chain(of_reads) {
            assert!(!region.copy_in(offset, &CopySource::from(&got[..])), "{offset}");
            assert!(!region.copy_across(0, &region, offset, 64), "{offset}");
        }
        for offset in others {
            assert!(!region.copy_out(offset, &CopyTarget::from(&mut got[..])), "{offset}");
            assert!(!region.copy_across(offset, &region, 0, 64), "{offset}");
        }
        assert!(region.copy_out(4 * page, &CopyTarget::from(&mut got[..])), "the lease only reads");
        assert!(
            region.copy_in(page - 64, &CopySource::from(&got[..]))
                && region.copy_in(2 * page, &CopySource::from(&got[..]))
        );
        drop((writes, reads));
        region.lease(page, page, true).unwrap().protect().map_err(|(_, errno)| errno).unwrap();
        let last = 2 * page - 1;
        assert!(!region.copy_out(last, &CopyTarget::from(&mut got[..])), "the page is forbidden");
        assert!(region.copy_out(2 * page, &CopyTarget::from(&mut got[..])));
    }

    #[test]
    fn read_only_regions_are_not_written_and_unsure_ranges_are_not_followed() {
        let region = region(0x5910_3000_0000, false);
        let mut got = [7; 64];
        assert!(
            !region.copy_in(0, &CopySource::from(&got[..]))
                && !region.copy_across(0, &region, 64, 64)
        );
        assert!(region.copy_out(0, &CopyTarget::from(&mut got[..])));
        assert!(!region.copy_out(0, &m3ipc_sys::lent_target(8, 64)));
        let start = 0x5910_3000_0000;
        let source = |address| m3ipc_sys::lent_source(address, 64);
        assert!(region.assure_source(&source(start + 100)).is_some_and(|it| it.is_sure()));
        assert!(region.assure_source(&source(start - 1)).is_none());
        assert!(region.assure_source(&source(start + BYTES as u64 - 63)).is_none());
        assert!(region.assure_target(&mut m3ipc_sys::lent_target(start, 64)).is_none());
    }
}
