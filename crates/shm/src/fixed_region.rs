//! The fixed region of an area: its memory, mapped at the same address in every process.
//!
//! Two endpoints of one process share one mapping. The region keeps the table of the ranges that
//! this process uses; [`crate::leased_range`], [`crate::region_copy`] and [`crate::region_copier`]
//! give access to them.

use crate::copier_steps::Changes;
use crate::range_table::RangeTable;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::{Access, Errno, FixedMapping};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The regions of this process, by process id and address.
type Regions = HashMap<(u32, u64), Weak<FixedRegion>>;

fn regions() -> &'static Mutex<Regions> {
    static REGIONS: OnceLock<Mutex<Regions>> = OnceLock::new();
    REGIONS.get_or_init(Mutex::default)
}

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
        let id = m3ipc_sys::memory_id(&memory)?;
        // A forked child inherits this table, but none of the mappings.
        let key = (std::process::id(), address);
        let mut all = regions().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade).filter(|it| it.memory == id) {
            return if writable && !known.is_writable() { Err(Errno::ACCESS) } else { Ok(known) };
        }
        let region = Arc::new(Self {
            mapping: FixedMapping::new(memory, address, bytes, writable)?,
            memory: id,
            writable: AtomicBool::new(writable),
            ranges: Mutex::default(),
            changes: Changes::default(),
        });
        all.retain(|_, region| region.strong_count() > 0);
        all.insert(key, Arc::downgrade(&region));
        Ok(region)
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
    /// `BUSY` while a range is leased for writing; those of [`FixedMapping::renounce_writing`].
    pub fn renounce_writing(&self, memory: impl AsFd) -> Result<(), Errno> {
        let ranges = self.ranges_to_change();
        if ranges.has_writer() {
            return Err(Errno::BUSY);
        }
        self.mapping.renounce_writing(memory)?;
        self.writable.store(false, Ordering::Release);
        Ok(())
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
