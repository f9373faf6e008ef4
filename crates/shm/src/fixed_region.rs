//! The ground of an area, and tracts of it: memory that is used in place.
//!
//! Within this process a [`Tract`] is exclusive, or all that overlap only read; that is kept here,
//! whatever names of blocks come in. Another process that has the area mapped for writing and
//! breaks its rules can change the bytes all the same: they are plain data, of which any
//! value is valid, and who does not trust the audience copies before he believes.
//!
//! # Safety
//! A slice lies inside the mapping, which lives as long as the tract. Tracts that were given out do
//! not overlap unless all of them read, so no `&mut` of this process has an alias in it. The pages
//! exist: the size is sealed, and a hole in the memory is filled when it is touched.
#![allow(unsafe_code)]

mod region_copy;

use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::{Access, Errno, FixedMapping};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Grounds of this process by where they lie, so that two endpoints of it share one mapping.
type Grounds = HashMap<(u32, u64), (u64, Weak<FixedRegion>)>;

fn grounds() -> &'static Mutex<Grounds> {
    static GROUNDS: OnceLock<Mutex<Grounds>> = OnceLock::new();
    GROUNDS.get_or_init(Mutex::default)
}

/// The memory of an area, mapped where it is mapped in every process.
#[derive(Debug)]
pub struct FixedRegion {
    mapping: FixedMapping,
    writable: AtomicBool,
    taken: Mutex<Ranges>,
}

/// What of a ground is in use, and what nobody here may use.
#[derive(Debug, Default)]
struct Ranges {
    taken: BTreeMap<usize, Taken>,
    /// Forbidden ranges: offset and length.
    forbidden: BTreeMap<usize, usize>,
}

/// A range that tracts use, from its beginning.
#[derive(Clone, Copy, Debug)]
struct Taken {
    bytes: usize,
    /// How many read it; 0 where one writes it.
    readers: usize,
}

impl FixedRegion {
    /// The ground of this memory at this address, mapped where it is not yet.
    ///
    /// # Errors
    /// Of [`FixedMapping::new`]; `ACCES` where it is mapped for reading and is to be written.
    pub fn map_at(
        memory: impl AsFd,
        address: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<Arc<Self>, Errno> {
        let id = m3ipc_sys::memory_id(&memory)?;
        // A child by fork has none of its parent's.
        let key = (std::process::id(), address);
        let mut all = grounds().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, ground)) = all.get(&key)
            && *known == id
            && let Some(ground) = ground.upgrade()
        {
            return if writable && !ground.is_writable() { Err(Errno::ACCESS) } else { Ok(ground) };
        }
        let mapping = FixedMapping::new(memory, address, bytes, writable)?;
        let ground = Arc::new(Self {
            mapping,
            writable: AtomicBool::new(writable),
            taken: Mutex::default(),
        });
        all.retain(|_, (_, ground)| ground.strong_count() > 0);
        all.insert(key, (id, Arc::downgrade(&ground)));
        Ok(ground)
    }

    /// The mapping, to protect and prefault parts of it.
    #[must_use]
    pub fn mapping(&self) -> &FixedMapping {
        &self.mapping
    }

    /// Whether it is mapped for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// Gives up writing for ever, so that the memory can be sealed; nobody here may be writing.
    ///
    /// # Errors
    /// `BUSY` where a tract writes; of [`FixedMapping::renounce_writing`].
    pub fn renounce_writing(&self, memory: impl AsFd) -> Result<(), Errno> {
        let ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if ranges.taken.values().any(|taken| taken.readers == 0) {
            return Err(Errno::BUSY);
        }
        self.mapping.renounce_writing(memory)?;
        self.writable.store(false, Ordering::Release);
        Ok(())
    }

    /// A range to be used in place; `None` where it does not lie inside, or another tract is in the way.
    #[must_use]
    pub fn lease(self: &Arc<Self>, offset: u64, bytes: u64, write: bool) -> Option<LeasedRange> {
        let (offset, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        let end = offset.checked_add(bytes).filter(|end| *end <= self.mapping.bytes())?;
        if bytes == 0 {
            return None;
        }
        let mut ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = write && self.is_writable();
        self.allow(&mut ranges.forbidden, offset, end)?;
        let taken = &mut ranges.taken;
        let (before, last) =
            taken.range(..end).next_back().map_or((0, None), |(at, it)| (*at, Some(*it)));
        match last {
            Some(last)
                if before == offset && last.bytes == bytes && last.readers > 0 && !writes =>
            {
                taken.insert(offset, Taken { bytes, readers: last.readers + 1 });
            }
            Some(last) if before + last.bytes > offset => return None,
            _ => {
                taken.insert(offset, Taken { bytes, readers: usize::from(!writes) });
            }
        }
        Some(LeasedRange { ground: Arc::clone(self), offset, bytes, writes })
    }

    /// Allows what was forbidden and overlaps this range: it is this process's again.
    fn allow(
        &self,
        forbidden: &mut BTreeMap<usize, usize>,
        offset: usize,
        end: usize,
    ) -> Option<()> {
        let access = if self.is_writable() { Access::Write } else { Access::Read };
        while let Some((at, bytes)) =
            forbidden.range(..end).next_back().map(|(at, bytes)| (*at, *bytes))
        {
            if at + bytes <= offset {
                break;
            }
            self.mapping.protect(at, bytes, access).ok()?;
            forbidden.remove(&at);
        }
        Some(())
    }

    fn leave(&self, offset: usize) {
        let mut ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match ranges.taken.get_mut(&offset) {
            Some(range) if range.readers > 1 => range.readers -= 1,
            _ => drop(ranges.taken.remove(&offset)),
        }
    }
}

/// A range of a ground, used in place.
#[derive(Debug)]
pub struct LeasedRange {
    ground: Arc<FixedRegion>,
    offset: usize,
    bytes: usize,
    writes: bool,
}

impl LeasedRange {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping (checked when it was taken), which `ground` keeps; readable while
        // the tract lives, since only `protect` forbids it and that consumes the tract; no `&mut` overlaps.
        unsafe { core::slice::from_raw_parts(self.start().as_ptr(), self.bytes) }
    }

    /// Its bytes, to be written; `None` where it was taken for reading.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as above, and no other tract of this process overlaps one that writes.
        self.writes
            .then(|| unsafe { core::slice::from_raw_parts_mut(self.start().as_ptr(), self.bytes) })
    }

    /// Where it lies: the same in every process that has the area.
    #[must_use]
    pub fn start(&self) -> core::ptr::NonNull<u8> {
        // SAFETY: inside the mapping.
        unsafe { self.ground.mapping.start().add(self.offset) }
    }

    /// Forbids this process the use of the range, which must be whole pages.
    ///
    /// # Errors
    /// The tract, where it is not.
    pub fn protect(self) -> Result<(), (Self, Errno)> {
        match self.ground.mapping.protect(self.offset, self.bytes, Access::None) {
            Ok(()) => {
                let mut ranges = self.ground.taken.lock().unwrap_or_else(PoisonError::into_inner);
                ranges.forbidden.insert(self.offset, self.bytes);
                drop(ranges);
                Ok(())
            }
            Err(errno) => Err((self, errno)),
        }
    }
}

impl Drop for LeasedRange {
    fn drop(&mut self) {
        self.ground.leave(self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    fn ground(address: u64) -> Arc<FixedRegion> {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        FixedRegion::map_at(memory, address, BYTES, true).unwrap()
    }

    #[test]
    fn tracts_do_not_overlap_unless_all_read() {
        let ground = ground(0x6000_0000_0000);
        let mut one = ground.lease(4096, 4096, true).unwrap();
        one.bytes_mut().unwrap().fill(7);
        assert!(ground.lease(4096, 4096, false).is_none());
        assert!(ground.lease(0, 4097, false).is_none());
        assert!(ground.lease(8191, 1, true).is_none());
        assert!(ground.lease(8192, 1, true).is_some());
        drop(one);
        let (read, again) =
            (ground.lease(4096, 4096, false).unwrap(), ground.lease(4096, 4096, false).unwrap());
        assert!(ground.lease(4096, 64, true).is_none());
        assert_eq!((read.bytes()[0], again.bytes()[4095]), (7, 7));
        drop(read);
        assert!(ground.lease(4096, 4096, true).is_none());
        drop(again);
        assert!(ground.lease(4096, 4096, true).is_some());
    }

    #[test]
    fn what_was_protected_is_usable_when_it_is_taken_again() {
        let ground = ground(0x6000_4000_0000);
        let tract = ground.lease(4096, 8192, true).unwrap();
        tract.protect().map_err(|(_, errno)| errno).unwrap();
        ground.lease(0, 64, true).unwrap().bytes_mut().unwrap()[0] = 1;
        ground.lease(8192, 64, true).unwrap().bytes_mut().unwrap()[0] = 1;
        assert!(ground.lease(64, 64, true).unwrap().protect().is_err());
    }

    #[test]
    fn nothing_outside_is_given() {
        let ground = ground(0x6000_1000_0000);
        assert!(ground.lease(BYTES as u64, 1, true).is_none());
        assert!(ground.lease(u64::MAX, 2, true).is_none());
        assert!(ground.lease(0, 0, true).is_none());
        assert!(ground.lease(0, BYTES as u64, true).is_some());
    }

    #[test]
    fn what_is_mapped_is_not_replaced_and_the_same_memory_is_shared() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let one = FixedRegion::map_at(&memory, 0x6000_2000_0000, BYTES, true).unwrap();
        let two = FixedRegion::map_at(&memory, 0x6000_2000_0000, BYTES, false).unwrap();
        assert!(Arc::ptr_eq(&one, &two));
        let other = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        assert_eq!(
            FixedRegion::map_at(&other, 0x6000_2000_0000, BYTES, true).unwrap_err(),
            Errno::EXIST
        );
    }

    #[test]
    fn a_seal_against_writing_needs_everybody_to_renounce() {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        let ground = FixedRegion::map_at(&memory, 0x6000_3000_0000, BYTES, true).unwrap();
        ground.lease(0, 64, true).unwrap().bytes_mut().unwrap().fill(9);
        assert_eq!(m3ipc_sys::seal_against_writing(&memory), Err(Errno::BUSY));
        ground.renounce_writing(&memory).unwrap();
        assert!(ground.lease(64, 64, true).unwrap().bytes_mut().is_none());
        m3ipc_sys::seal_against_writing(&memory).unwrap();
        assert_eq!(m3ipc_sys::is_sealed_against_writing(&memory), Ok(true));
        assert_eq!(ground.lease(0, 64, false).unwrap().bytes()[63], 9);
    }
}
