//! Ranges of a fixed region that this process uses in place.
//!
//! Within this process a leased range is exclusive, unless all leases of it only read. Another
//! member of the area may break the rules and write the bytes all the same. So the safe access of
//! [`LeasedRange`] copies plain values. A [`SealedRange`] gives slices: no process can write it.
//!
//! # Safety
//! - A range lies inside the mapping, which lives as long as the range: [`FixedRegion::lease`]
//!   checks it, and the range keeps its region.
//! - Its pages stay accessible: only [`LeasedRange::protect`] forbids them. It consumes the sole
//!   lease of the range.
//! - A child by fork has no mapping. Each safe access asks [`FixedRegion::is_original`] first.
//! - The pages exist. The size of the memory is sealed, and an access fills a hole.
//! - Leases for writing overlap no other lease, so no exclusive reference has an alias here.
#![allow(unsafe_code)]

use crate::copy::{copy_in, copy_out};
use crate::fixed_region::FixedRegion;
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ptr::NonNull;
use m3ipc_sys::{CopySource, CopyTarget, Errno};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The reason for a refused access to a [`LeasedRange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// The access does not lie inside the range.
    Outside {
        /// First byte of the access.
        offset: usize,
        /// Length of the access, in bytes.
        bytes: usize,
        /// Length of the range, in bytes.
        available: usize,
    },
    /// The range is leased for reading.
    ReadOnly,
    /// This process is a child by fork, and has no mapping of the range.
    Forked,
}

impl core::fmt::Display for RangeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Outside { offset, bytes, available } => write!(
                f,
                "{bytes} bytes at offset {offset} do not fit into a range of {available} bytes; \
                 use a smaller offset or length"
            ),
            Self::ReadOnly => f.write_str("the range is leased for reading; lease it for writing"),
            Self::Forked => f.write_str("the range belongs to the parent process; use it there"),
        }
    }
}

impl std::error::Error for RangeError {}

impl FixedRegion {
    /// Leases a range, for reading or (`write`) for both. `None` if the range is empty, does not
    /// lie inside, or overlaps a lease that excludes it.
    ///
    /// A lease for writing in a region that is mapped for reading only reads.
    #[must_use]
    pub fn lease(self: &Arc<Self>, offset: u64, bytes: u64, write: bool) -> Option<LeasedRange> {
        let (offset, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes())?;
        if !self.is_original() {
            return None;
        }
        let mut ranges = self.ranges_to_change();
        let writable = write && self.is_writable();
        if bytes == 0 || !ranges.is_leasable(offset, end, writable) {
            return None;
        }
        self.allow(&mut ranges, offset, end).ok()?;
        ranges.add_lease(offset, end, writable);
        Some(LeasedRange { region: Arc::clone(self), offset, bytes, writable })
    }
}

/// A range of a fixed region that this process uses in place.
///
/// Other members of the area may write the range at any time. The safe methods copy bytes in and
/// out; a copy may mix old and new bytes. [`into_sealed`](Self::into_sealed) gives slices.
#[derive(Debug)]
pub struct LeasedRange {
    region: Arc<FixedRegion>,
    offset: usize,
    bytes: usize,
    writable: bool,
}

impl LeasedRange {
    /// The length of the range in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the range is leased for writing.
    #[must_use]
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The first byte: at the same address in every process that has the area.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: the range lies inside the mapping (checked by `lease`).
        unsafe { self.region.start().add(self.offset) }
    }

    /// The first byte, for reads by raw pointer or by a system call.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.start().as_ptr()
    }

    /// The first byte, for writes by raw pointer or by a system call; `None` if the range is leased
    /// for reading.
    #[must_use]
    #[inline]
    pub fn as_mut_ptr(&mut self) -> Option<*mut u8> {
        self.writable.then(|| self.start().as_ptr())
    }

    /// The first `bytes` bytes of the range, at most all, as the source of a copy.
    #[must_use]
    #[inline]
    pub fn as_source(&self, bytes: usize) -> CopySource<'_> {
        // SAFETY: the range is mapped for reading while it is leased.
        let source = unsafe { CopySource::from_raw(self.as_ptr(), bytes.min(self.bytes)) };
        // SAFETY: as above, in the process that leased it.
        if self.region.is_original() { unsafe { source.assured() } } else { source }
    }

    /// The first `bytes` bytes of the range, at most all, as the target of a copy; `None` if the
    /// range is leased for reading.
    #[must_use]
    #[inline]
    pub fn as_target(&mut self, bytes: usize) -> Option<CopyTarget<'_>> {
        let bytes = bytes.min(self.bytes);
        let start = self.as_mut_ptr()?;
        // SAFETY: the range is mapped for writing while it is leased for writing.
        let target = unsafe { CopyTarget::from_raw(start, bytes) };
        // SAFETY: as above, in the process that leased it.
        Some(if self.region.is_original() { unsafe { target.assured() } } else { target })
    }

    #[inline]
    fn check(&self, offset: usize, bytes: usize) -> Result<(), RangeError> {
        if !self.region.is_original() {
            return Err(RangeError::Forked);
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(RangeError::Outside { offset, bytes, available: self.bytes }),
        }
    }

    /// Copies bytes out of the range, from `offset` on.
    ///
    /// # Errors
    /// [`RangeError::Outside`] if the range has fewer bytes there.
    #[inline]
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> Result<(), RangeError> {
        self.check(offset, into.len())?;
        // SAFETY: the bytes lie inside the range (just checked), which is mapped for reading.
        // `into` is an exclusive borrow, so it lies in no range that has a lease.
        unsafe { copy_out(self.as_ptr().wrapping_add(offset), into) };
        Ok(())
    }

    /// Copies bytes into the range, from `offset` on.
    ///
    /// # Errors
    /// [`RangeError::Outside`] if the range has fewer bytes there; [`RangeError::ReadOnly`] if it
    /// is leased for reading.
    #[inline]
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> Result<(), RangeError> {
        self.check(offset, from.len())?;
        let to = self.as_mut_ptr().ok_or(RangeError::ReadOnly)?;
        // SAFETY: the bytes lie inside the range (just checked), which is mapped for writing. No
        // other lease overlaps a writing lease, so `from` lies elsewhere.
        unsafe { copy_in(to.wrapping_add(offset), from) };
        Ok(())
    }

    /// Copies the first bytes of the range.
    ///
    /// # Errors
    /// Those of [`read_at`](Self::read_at).
    pub fn copy_to(&self, into: &mut [u8]) -> Result<(), RangeError> {
        self.read_at(0, into)
    }

    /// Overwrites the first bytes of the range.
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at).
    pub fn copy_from(&mut self, from: &[u8]) -> Result<(), RangeError> {
        self.write_at(0, from)
    }

    /// Copies one plain value out of the range. `offset` is in bytes and needs no alignment.
    ///
    /// # Errors
    /// Those of [`read_at`](Self::read_at).
    pub fn read_value<T: Pod>(&self, offset: usize) -> Result<T, RangeError> {
        let mut value = T::zeroed();
        self.read_at(offset, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Copies one plain value into the range. `offset` is in bytes and needs no alignment.
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at).
    pub fn write_value<T: Pod>(&mut self, offset: usize, value: &T) -> Result<(), RangeError> {
        self.write_at(offset, bytemuck::bytes_of(value))
    }

    /// Copies of the whole values of the range, in order. Each step copies one value.
    #[must_use]
    pub fn values<T: Pod>(&self) -> Values<'_, T> {
        let end = self.bytes.checked_div(size_of::<T>()).unwrap_or(0);
        Values { range: self, next: 0, end, of: PhantomData }
    }

    /// The bytes of the range in place.
    ///
    /// # Safety
    /// No other process writes the range while the slice lives. Only the caller can know it, by
    /// trust in the audience of the area.
    #[must_use]
    pub unsafe fn as_slice_trusting_peers(&self) -> &[u8] {
        // SAFETY: the file header; no writing lease of this process overlaps a live borrow of this
        // one, and no other process writes, as the caller promises.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }

    /// The bytes of the range in place, for writing; `None` if the range is leased for reading.
    ///
    /// # Safety
    /// No other process reads or writes the range while the slice lives. Only the caller can know
    /// it, by trust in the audience of the area.
    #[must_use]
    pub unsafe fn as_mut_slice_trusting_peers(&mut self) -> Option<&mut [u8]> {
        let bytes = self.bytes;
        let start = self.as_mut_ptr()?;
        // SAFETY: the file header; this lease overlaps no other, `&mut self` is exclusive, and no
        // other process accesses the bytes, as the caller promises.
        Some(unsafe { core::slice::from_raw_parts_mut(start, bytes) })
    }

    /// Turns the range into one that gives slices, if `memory` is the memory of its region and is
    /// sealed against all writers.
    ///
    /// # Errors
    /// The range, with `PERM` if that is not so, or with the error of the check.
    pub fn into_sealed(self, memory: impl AsFd) -> Result<SealedRange, (Self, Errno)> {
        match self.region.is_sealed(memory) {
            Ok(true) => Ok(SealedRange(self)),
            Ok(false) => Err((self, Errno::PERM)),
            Err(errno) => Err((self, errno)),
        }
    }

    /// Forbids this process the use of the range, which must consist of whole pages. An access
    /// raises SIGSEGV until a new lease allows the range again.
    ///
    /// # Errors
    /// The range, with `INVAL` if it does not consist of whole pages, or `BUSY` if another lease
    /// reads it.
    pub fn protect(self) -> Result<(), (Self, Errno)> {
        if !self.region.is_original() {
            return Err((self, Errno::NOTCONN));
        }
        let mut ranges = self.region.ranges_to_change();
        let forbidden = if ranges.is_sole_lease(self.offset) {
            self.region.forbid(&mut ranges, self.offset, self.bytes)
        } else {
            Err(Errno::BUSY)
        };
        drop(ranges);
        forbidden.map_err(|errno| (self, errno))
    }
}

impl Drop for LeasedRange {
    fn drop(&mut self) {
        if self.region.is_original() {
            self.region.ranges().remove_lease(self.offset);
        }
    }
}

/// Copies of the values of a [`LeasedRange`], made by [`LeasedRange::values`].
#[derive(Clone, Debug)]
pub struct Values<'a, T> {
    range: &'a LeasedRange,
    next: usize,
    end: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Iterator for Values<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        let value = self.range.read_value(self.next * size_of::<T>()).ok()?;
        self.next += 1;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl<T: Pod> ExactSizeIterator for Values<'_, T> {}

/// A range that no process can write, ever again: its memory is sealed against writing.
///
/// # Source
/// fcntl(2), `F_SEAL_WRITE`: it fails while a writable mapping exists, and it forbids new ones.
#[derive(Debug)]
pub struct SealedRange(LeasedRange);

impl SealedRange {
    /// The bytes in place; none in a child by fork.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        if !self.0.region.is_original() {
            return &[];
        }
        // SAFETY: the memory is sealed against writing (checked by `into_sealed`): no process has a
        // writable mapping of it or can write its file, for ever.
        unsafe { self.0.as_slice_trusting_peers() }
    }
}

impl core::ops::Deref for SealedRange {
    type Target = LeasedRange;

    fn deref(&self) -> &LeasedRange {
        &self.0
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    fn region(address: u64) -> Arc<FixedRegion> {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        FixedRegion::map_at(memory, address, BYTES, true).unwrap()
    }

    #[test]
    fn leases_do_not_overlap_unless_all_read() {
        let region = region(0x5900_0000_0000);
        let mut one = region.lease(4096, 4096, true).unwrap();
        one.copy_from(&[7; 4096]).unwrap();
        assert!(region.lease(4096, 4096, false).is_none());
        assert!(region.lease(0, 4097, false).is_none());
        assert!(region.lease(8191, 1, true).is_none());
        assert!(region.lease(8192, 1, true).is_some());
        drop(one);
        let (read, mut again) =
            (region.lease(4096, 4096, false).unwrap(), region.lease(4096, 4096, false).unwrap());
        assert!(region.lease(4096, 64, true).is_none());
        assert_eq!((read.read_value(0), again.read_value(4095)), (Ok(7_u8), Ok(7_u8)));
        assert_eq!(again.write_at(0, &[1]), Err(RangeError::ReadOnly));
        assert_eq!(again.as_mut_ptr(), None);
        drop(read);
        assert!(region.lease(4096, 4096, true).is_none());
        drop(again);
        assert!(region.lease(4096, 4096, true).is_some());
    }

    #[test]
    fn a_protected_range_is_usable_after_a_new_lease() {
        let region = region(0x5900_4000_0000);
        let page = m3ipc_sys::page_bytes();
        let range = region.lease(page, 2 * page, true).unwrap();
        range.protect().map_err(|(_, errno)| errno).unwrap();
        region.lease(0, 64, true).unwrap().write_at(0, &[1]).unwrap();
        region.lease(2 * page, 64, true).unwrap().write_at(0, &[1]).unwrap();
        let partial = region.lease(64, 64, true).unwrap().protect();
        assert_eq!(partial.map_err(|(_, errno)| errno), Err(Errno::INVAL));
    }

    #[test]
    fn a_range_that_another_lease_reads_is_not_protected() {
        let region = region(0x5900_6000_0000);
        let page = m3ipc_sys::page_bytes();
        let one = region.lease(0, page, false).unwrap();
        let other = region.lease(0, page, false).unwrap();
        let (one, errno) = one.protect().unwrap_err();
        assert_eq!((errno, other.read_value(0)), (Errno::BUSY, Ok(0_u8)));
        drop(one);
        other.protect().map_err(|(_, errno)| errno).unwrap();
    }

    #[test]
    fn no_range_outside_the_region_is_leased() {
        let region = region(0x5900_1000_0000);
        assert!(region.lease(BYTES as u64, 1, true).is_none());
        assert!(region.lease(u64::MAX, 2, true).is_none());
        assert!(region.lease(0, 0, true).is_none());
        assert!(region.lease(0, BYTES as u64, true).is_some());
    }

    #[test]
    fn values_are_copied_and_accesses_outside_are_refused() {
        let region = region(0x5900_7000_0000);
        let mut range = region.lease(64, 64, true).unwrap();
        range.write_value(60, &7_u32).unwrap();
        range.write_value(1, &0x0102_u16).unwrap();
        assert_eq!((range.read_value(60), range.read_value(1)), (Ok(7_u32), Ok(0x0102_u16)));
        let outside = RangeError::Outside { offset: 61, bytes: 4, available: 64 };
        assert_eq!(range.read_value::<u32>(61), Err(outside));
        assert_eq!(range.write_value(61, &0_u32), Err(outside));
        assert!(range.read_at(usize::MAX, &mut [0]).is_err());
        let values: Vec<u32> = range.values().collect();
        assert_eq!((values.len(), values[15], range.values::<[u8; 24]>().len()), (16, 7, 2));
        assert_eq!(range.values::<[u8; 0]>().count(), 0);
        let mut all = [0; 64];
        range.copy_to(&mut all).unwrap();
        assert_eq!(all[60..], 7_u32.to_ne_bytes());
    }
}
