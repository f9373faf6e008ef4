//! The fixed region of an area: its memory, mapped at the same address in every process.
//!
//! A region of the library's own payloads maps its parts by need: under mlockall(2) each mapped
//! byte takes memory, and under a limit of addresses each one counts.
//!
//! Two endpoints of one process share one mapping. The region keeps the table of the ranges that
//! this process uses; [`crate::leased_range`], [`crate::region_copy`] and [`crate::region_copier`]
//! give access to them.

use crate::copier_steps::Changes;
use crate::range_table::RangeTable;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::{Access, Errno, FixedMapping, PerProcess};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The regions of this process, by address.
static REGIONS: PerProcess<Mutex<HashMap<u64, Weak<FixedRegion>>>> = PerProcess::new();

/// The memory of an area, mapped at the address that it has in every process.
#[derive(Debug)]
pub struct FixedRegion {
    mapping: FixedMapping,
    /// The inode number of the memory.
    memory: u64,
    writable: AtomicBool,
    ranges: Mutex<RangeTable>,
    changes: Changes,
}

impl FixedRegion {
    /// The region of this memory at this address. Maps the memory unless this process has it mapped
    /// there already.
    ///
    /// # Errors
    /// Those of [`FixedMapping::new`]; `ACCES` if the memory is mapped for reading only and
    /// `writable` is set.
    pub fn map_at(
        memory: impl AsFd,
        address: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<Arc<Self>, Errno> {
        let region = Self::at(&memory, address, bytes, writable)?;
        region.map_part(memory, 0, bytes)?;
        Ok(region)
    }

    /// The same without a mapping: see [`map_part`](Self::map_part).
    ///
    /// # Errors
    /// Those of [`FixedMapping::unmapped`]; `ACCES` as for [`map_at`](Self::map_at).
    pub fn at(
        memory: impl AsFd,
        address: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<Arc<Self>, Errno> {
        let id = m3ipc_sys::memory_id(&memory)?;
        let mut all = REGIONS.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&address).and_then(Weak::upgrade) {
            if known.memory != id {
                return Err(Errno::EXIST);
            }
            return if writable && !known.is_writable() { Err(Errno::ACCESS) } else { Ok(known) };
        }
        let mut ranges = RangeTable::default();
        ranges.set_unmapped(0, bytes);
        let region = Arc::new(Self {
            mapping: FixedMapping::unmapped(memory, address, bytes)?,
            memory: id,
            writable: AtomicBool::new(writable),
            ranges: Mutex::new(ranges),
            changes: Changes::default(),
        });
        all.retain(|_, region| region.strong_count() > 0);
        all.insert(address, Arc::downgrade(&region));
        Ok(region)
    }

    /// Maps what is not mapped of a part of whole pages. `memory` is the memory of the region.
    ///
    /// # Errors
    /// `EXIST` if another mapping lies there; `INVAL` if the part does not lie inside; others of
    /// [`FixedMapping::map_piece`].
    pub fn map_part(&self, memory: impl AsFd, offset: usize, bytes: usize) -> Result<(), Errno> {
        let end = offset.checked_add(bytes).ok_or(Errno::INVAL)?;
        let mut ranges = self.ranges();
        while let Some((at, length)) = ranges.unmapped_in(offset, end) {
            self.mapping.map_piece(&memory, at, length, self.is_writable())?;
            ranges.set_mapped(at, length);
        }
        Ok(())
    }

    /// Whether all of the range is mapped.
    #[must_use]
    pub fn is_mapped(&self, offset: usize, bytes: usize) -> bool {
        self.ranges().unmapped_in(offset, offset.saturating_add(bytes)).is_none()
    }

    /// Whether the region is mapped for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// Whether this memory is the memory of the region, sealed against all writers for ever.
    ///
    /// # Errors
    /// Those of [`m3ipc_sys::is_sealed_against_writing`].
    pub fn is_sealed(&self, memory: impl AsFd) -> Result<bool, Errno> {
        Ok(m3ipc_sys::memory_id(&memory)? == self.memory
            && m3ipc_sys::is_sealed_against_writing(memory)?)
    }

    /// Maps a part at once, so that its pages cause no later faults.
    ///
    /// # Errors
    /// Those of [`FixedMapping::prefault`].
    pub fn prefault(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.mapping.prefault(offset, bytes)
    }

    /// Asks for transparent huge pages.
    ///
    /// # Errors
    /// Those of [`FixedMapping::want_huge_pages`].
    pub fn want_huge_pages(&self) -> Result<(), Errno> {
        self.mapping.want_huge_pages()
    }

    /// Gives up writing for ever, so that the memory can be sealed.
    ///
    /// # Errors
    /// `BUSY` while a range is leased for writing; `NOTCONN` in a child by fork; those of
    /// [`FixedMapping::renounce_writing`].
    pub fn renounce_writing(&self, memory: impl AsFd) -> Result<(), Errno> {
        if !self.is_original() {
            return Err(Errno::NOTCONN);
        }
        let ranges = self.ranges_to_change();
        if ranges.has_writer() {
            return Err(Errno::BUSY);
        }
        self.mapping.renounce_writing(memory)?;
        self.writable.store(false, Ordering::Release);
        Ok(())
    }

    /// Whether this process mapped the region. A child by fork has no mapping, and its copy of
    /// the table may be locked for ever.
    #[must_use]
    #[inline]
    pub fn is_original(&self) -> bool {
        self.mapping.is_original()
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// The count of those changes of the table that concern copiers.
    #[inline]
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The table of ranges, locked for a lease, for a forbidden range, or for the end of writing:
    /// no copier copies, and each one looks at the table before its next copy.
    pub(crate) fn ranges_to_change(&self) -> MutexGuard<'_, RangeTable> {
        let mut ranges = self.ranges();
        self.changes.begin(ranges.marks());
        ranges
    }

    /// The table of ranges, locked.
    pub(crate) fn ranges(&self) -> MutexGuard<'_, RangeTable> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forbids this process the use of a range of whole pages.
    pub(crate) fn forbid(
        &self,
        ranges: &mut RangeTable,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Errno> {
        self.mapping.protect(offset, bytes, Access::None)?;
        ranges.forbid(offset, bytes);
        Ok(())
    }

    /// Allows each forbidden range that overlaps `offset .. end` again.
    pub(crate) fn allow(
        &self,
        ranges: &mut RangeTable,
        offset: usize,
        end: usize,
    ) -> Result<(), Errno> {
        let access = if self.is_writable() { Access::Write } else { Access::Read };
        while let Some((at, bytes)) = ranges.forbidden_in(offset, end) {
            self.mapping.protect(at, bytes, access)?;
            ranges.allow(at);
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    #[test]
    fn a_mapping_is_not_replaced_and_the_same_memory_is_shared() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let one = FixedRegion::map_at(&memory, 0x5900_2000_0000, BYTES, true).unwrap();
        let two = FixedRegion::map_at(&memory, 0x5900_2000_0000, BYTES, false).unwrap();
        assert!(Arc::ptr_eq(&one, &two));
        let other = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        assert_eq!(
            FixedRegion::map_at(&other, 0x5900_2000_0000, BYTES, true).unwrap_err(),
            Errno::EXIST
        );
    }

    #[test]
    fn a_region_by_need_takes_addresses_for_its_mapped_parts_alone() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let address = 0x5900_6000_0000;
        let region = FixedRegion::at(&memory, address, BYTES, true).unwrap();
        assert!(region.lease(0, 64, true).is_none() && !region.is_mapped(0, 1));
        let part = 64 << 10;
        region.map_part(&memory, part, part).unwrap();
        assert!(region.is_mapped(part, part) && !region.is_mapped(part, part + 1));
        region.lease(part as u64, 64, true).unwrap().write_at(0, &[7; 64]).unwrap();
        assert!(region.lease(part as u64 - 64, 128, true).is_none(), "half of it is not mapped");
        // The file offset of a part is its offset in the region.
        assert_eq!(m3ipc_sys::copy_memory(&memory, part as u64..part as u64 + 2), Ok(vec![7; 2]));
        // Other mappings may lie in the rest, and stay when the region ends.
        let other = m3ipc_sys::create_sparse("m3-test", part as u64, false).unwrap();
        let between = FixedRegion::map_at(&other, address + 4 * part as u64, part, true).unwrap();
        assert_eq!(region.map_part(&memory, 0, BYTES), Err(Errno::EXIST));
        drop(region);
        between.lease(0, 64, true).unwrap().write_at(0, &[9; 64]).unwrap();
    }

    #[test]
    fn a_seal_against_writing_needs_every_writer_to_renounce() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let region = FixedRegion::map_at(&memory, 0x5900_3000_0000, BYTES, true).unwrap();
        region.lease(0, 64, true).unwrap().write_at(0, &[9; 64]).unwrap();
        assert_eq!(m3ipc_sys::seal_against_writing(&memory), Err(Errno::BUSY));
        assert_eq!(region.is_sealed(&memory), Ok(false));
        region.renounce_writing(&memory).unwrap();
        assert!(!region.lease(64, 64, true).unwrap().is_writable());
        m3ipc_sys::seal_against_writing(&memory).unwrap();
        assert_eq!(region.is_sealed(&memory), Ok(true));
        let sealed = region.lease(0, 64, false).unwrap().into_sealed(&memory).unwrap();
        assert_eq!(sealed.as_slice(), [9; 64]);
    }

    #[test]
    fn a_sealed_memory_elsewhere_seals_no_range_of_this_region() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let other = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        m3ipc_sys::seal_against_writing(&other).unwrap();
        let region = FixedRegion::map_at(&memory, 0x5900_5000_0000, BYTES, true).unwrap();
        for descriptor in [&memory, &other] {
            let (range, errno) =
                region.lease(0, 64, false).unwrap().into_sealed(descriptor).unwrap_err();
            assert_eq!((range.bytes(), errno), (64, Errno::PERM));
        }
    }
}
