//! Repeated copies between own memory and one range of a region, without the lock of its table.
//!
//! The steps, and why a copy needs no lock, are in [`crate::copier_steps`].
//!
//! # Safety
//! A copy without the lock touches a part of a range that `RangeTable::unused_around` returned.
//! While the count is unchanged, no range of it was leased or forbidden since, and the region is
//! still mapped as it was.
#![allow(unsafe_code)]

use crate::copier_steps::CopierSteps;
use crate::copy::copy_overlapping;
use crate::fixed_region::FixedRegion;
use crate::range_table::RangeTable;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::{CopySource, CopyTarget};
use std::sync::{Arc, MutexGuard};

/// A copier of one region, for one thread at a time.
#[derive(Debug)]
pub struct RegionCopier {
    region: Arc<FixedRegion>,
    steps: CopierSteps,
}

/// A copy that has begun. Its end clears the mark.
#[derive(Debug)]
pub struct RegionPass<'a> {
    copier: &'a mut RegionCopier,
}

impl FixedRegion {
    /// A copier of this region.
    #[must_use]
    pub fn copier(self: &Arc<Self>) -> RegionCopier {
        let steps = self.ranges().marks().add();
        RegionCopier { region: Arc::clone(self), steps }
    }
}

impl RegionCopier {
    /// The region.
    #[must_use]
    #[inline]
    pub fn region(&self) -> &FixedRegion {
        &self.region
    }

    /// Begins a copy, by the change of `word` from `old` to `new`.
    ///
    /// # Errors
    /// The present value of the word, if that is not `old`. No copy has begun then.
    #[inline]
    pub fn begin(&mut self, word: &AtomicU32, old: u32, new: u32) -> Result<RegionPass<'_>, u32> {
        let exchange = || word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
        let changed = self.steps.begin(exchange);
        let pass = RegionPass { copier: self };
        changed.map(|_| pass)
    }

    /// Looks at the table for the range around `at .. end` of which no part is used.
    #[cold]
    fn look(&mut self, at: usize, end: usize, write: bool) -> bool {
        let region = &self.region;
        let unused = |ranges: &MutexGuard<'_, RangeTable>| {
            // The end of writing is a change of the table, so the look at it is under the lock.
            if end > region.bytes() || (write && !region.is_writable()) {
                return None;
            }
            let (from, above) = ranges.unused_around(at, end, write)?;
            Some((from, above.min(region.bytes())))
        };
        self.steps.look(region.changes(), || region.ranges(), unused, write)
    }
}

impl RegionPass<'_> {
    /// Copies bytes to an offset of the region, as [`FixedRegion::copy_in`].
    #[must_use]
    #[inline]
    pub fn copy_in(&mut self, offset: u64, from: &CopySource<'_>) -> bool {
        let Some(to) = self.unused(offset, from.bytes(), true) else { return false };
        if !from.is_sure() {
            return false;
        }
        // SAFETY: `is_sure` says that `from` is readable; `unused` checked `to`.
        unsafe { copy_overlapping(to, from.start(), from.bytes()) };
        true
    }

    /// Copies bytes from an offset of the region, as [`FixedRegion::copy_out`].
    #[must_use]
    #[inline]
    pub fn copy_out(&mut self, offset: u64, into: &CopyTarget<'_>) -> bool {
        let Some(from) = self.unused(offset, into.bytes(), false) else { return false };
        if !into.is_sure() {
            return false;
        }
        // SAFETY: `is_sure` says that `into` is writable; `unused` checked `from`.
        unsafe { copy_overlapping(into.start(), from, into.bytes()) };
        true
    }

    /// The first byte of a range of which no part is used.
    #[inline(always)]
    fn unused(&mut self, offset: u64, bytes: usize, write: bool) -> Option<*mut u8> {
        let at = usize::try_from(offset).ok()?;
        let end = at.checked_add(bytes)?;
        let copier = &mut *self.copier;
        if !copier.steps.knows(copier.region.changes(), (at, end), write)
            && !copier.look(at, end, write)
        {
            return None;
        }
        // SAFETY: the range lies inside the mapping (checked by `look`).
        Some(unsafe { copier.region.start().as_ptr().add(at) })
    }
}

impl Drop for RegionPass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.copier.steps.end();
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    const BYTES: usize = 1 << 20;
    const PARKED: u32 = 1;
    const COPYING: u32 = 2;

    fn region(address: u64) -> Arc<FixedRegion> {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        FixedRegion::map_at(memory, address, BYTES, true).unwrap()
    }

    fn copied(copier: &mut RegionCopier, at: u64, bytes: &[u8]) -> bool {
        let word = AtomicU32::new(PARKED);
        let mut pass = copier.begin(&word, PARKED, COPYING).unwrap();
        pass.copy_in(at, &CopySource::from(bytes))
    }

    #[test]
    fn a_copier_notices_each_change_of_the_table() {
        let region = region(0x5920_0000_0000);
        let (mut copier, page) = (region.copier(), m3ipc_sys::page_bytes());
        let last = 2 * page - 1;
        assert!(copied(&mut copier, page, &[1; 4096]) && copied(&mut copier, page, &[2; 4096]));
        let lease = region.lease(page, page, true).unwrap();
        assert!(!copied(&mut copier, page, &[3; 4096]), "the range is in use");
        assert!(copied(&mut copier, 2 * page, &[4; 4096]) && copied(&mut copier, 0, &[5; 4096]));
        assert!(!copied(&mut copier, page - 1, &[6; 2]) && !copied(&mut copier, last, &[6; 2]));
        drop(lease);
        assert!(copied(&mut copier, page, &[7; 4096]));
        region.lease(page, page, true).unwrap().protect().map_err(|(_, errno)| errno).unwrap();
        assert!(!copied(&mut copier, last, &[8; 1]), "the page is forbidden");
        assert!(!copied(&mut copier, BYTES as u64 - 1, &[8; 2]), "beyond the region");
        assert!(!copied(&mut copier, u64::MAX, &[8; 2]) && copied(&mut copier, last + 1, &[8; 2]));
    }

    #[test]
    fn a_copy_out_passes_readers_alone() {
        let region = region(0x5920_1000_0000);
        region.lease(0, 4096, true).unwrap().write_at(0, &[9; 4096]).unwrap();
        let (mut copier, word, mut got) = (region.copier(), AtomicU32::new(PARKED), [0; 64]);
        let readers = region.lease(0, 4096, false).unwrap();
        let mut pass = copier.begin(&word, PARKED, COPYING).unwrap();
        assert!(pass.copy_out(0, &CopyTarget::from(&mut got[..])) && got == [9; 64]);
        assert!(!pass.copy_in(0, &CopySource::from(&got[..])), "a reader uses it");
        drop(pass);
        drop(readers);
        let _writer = region.lease(0, 4096, true).unwrap();
        word.store(PARKED, Ordering::Relaxed);
        let mut pass = copier.begin(&word, PARKED, COPYING).unwrap();
        assert!(!pass.copy_out(0, &CopyTarget::from(&mut got[..])), "a writer uses it");
    }

    #[test]
    fn a_failed_begin_is_no_copy() {
        let region = region(0x5920_2000_0000);
        let (mut copier, word) = (region.copier(), AtomicU32::new(COPYING));
        assert_eq!(copier.begin(&word, PARKED, COPYING).map(drop), Err(COPYING));
        // This would wait for the end of a copy.
        assert!(region.lease(0, 64, true).is_some());
    }

    #[test]
    fn a_lease_waits_for_the_end_of_a_copy() {
        let region = region(0x5920_3000_0000);
        let (mut copier, word) = (region.copier(), AtomicU32::new(PARKED));
        let leased = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let mut pass = copier.begin(&word, PARKED, COPYING).unwrap();
            assert!(pass.copy_in(0, &CopySource::from(&[1; 64][..])));
            scope.spawn(|| {
                let _lease = region.lease(0, 64, true).unwrap();
                leased.store(1, Ordering::SeqCst);
            });
            // The count changes before the wait for the mark.
            while !region.changes().has_begun() {
                std::thread::yield_now();
            }
            assert_eq!(leased.load(Ordering::SeqCst), 0, "a copy is in progress");
            drop(pass);
        });
        assert_eq!(leased.load(Ordering::SeqCst), 1);
    }

    /// The holder of a lease finds its bytes unchanged by a copier.
    #[test]
    fn copies_and_leases_of_one_range_exclude_each_other() {
        let region = region(0x5920_4000_0000);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut copier, mut copies) = (region.copier(), 0_u32);
                while !stop.load(Ordering::Relaxed) || copies == 0 {
                    copies += u32::from(copied(&mut copier, 0, &[0xee; 512]));
                }
            });
            for round in 0..2000_u32 {
                let mut lease = region.lease(0, 512, true).unwrap();
                let own = [round.to_le_bytes()[0] & 0x7f; 512];
                lease.write_at(0, &own).unwrap();
                let mut found = [0; 512];
                for _look in 0..4 {
                    lease.read_at(0, &mut found).unwrap();
                    assert!(found == own, "a copier wrote into a leased range");
                }
                drop(lease);
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
