//! Regions: a mapping with checked access to its words.
//!
//! # Safety
//! All access is through atomics at checked, aligned offsets of a mapping that
//! lives as long as the region. A peer may change any byte at any time; that
//! is what atomics are for, and nothing else is read.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::{Errno, Mapping};
use std::os::fd::AsFd;

/// Types that are valid for every bit pattern and may be shared with a hostile process.
pub(crate) trait Word: Sized {}
impl Word for AtomicU8 {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

/// The word at `offset`.
///
/// # Panics
/// Where the word does not lie inside the mapping or is not aligned: offsets
/// are our own constants and checked indexes, never a peer's.
#[inline]
pub(crate) fn word<T: Word>(mapping: &Mapping, offset: usize) -> &T {
    let end = offset.checked_add(size_of::<T>());
    assert!(
        end.is_some_and(|end| end <= mapping.bytes()) && offset.is_multiple_of(align_of::<T>()),
        "word outside its region"
    );
    // SAFETY: inside the mapping and aligned (just checked; mappings begin at
    // a page); valid for any bits; lives as long as the borrow of the mapping.
    unsafe { &*mapping.start().as_ptr().add(offset).cast::<T>() }
}

/// A region that this process and its peers write.
#[derive(Debug)]
pub struct Shared(Mapping);

impl Shared {
    pub(crate) fn first(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        self.0.bytes()
    }

    /// Maps memory of exactly this size for reading and writing.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new(memory, bytes, true).map(Self)
    }

    /// The same, with pages mapped when they are touched.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map_sparse(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new_sparse(memory, bytes, true).map(Self)
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    /// Where it does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        word(&self.0, offset)
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// Where it does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        word(&self.0, offset)
    }

    /// Some of the region, for the kernel to read; what a peer writes meanwhile may be in it or not.
    ///
    /// # Panics
    /// Where it does not lie inside.
    #[must_use]
    pub fn source(&self, offset: usize, bytes: usize) -> m3ipc_sys::CopySource<'_> {
        let start = self.inside(offset, bytes);
        // SAFETY: inside the mapping, which lives as long as the borrow; only the kernel reads it.
        unsafe { m3ipc_sys::CopySource::from_raw(start, bytes) }
    }

    /// Some of the region, for the kernel to write.
    ///
    /// # Panics
    /// Where it does not lie inside.
    #[must_use]
    pub fn target(&self, offset: usize, bytes: usize) -> m3ipc_sys::CopyTarget<'_> {
        let start = self.inside(offset, bytes);
        // SAFETY: inside the mapping, which lives as long as the borrow; only the kernel writes it.
        unsafe { m3ipc_sys::CopyTarget::from_raw(start, bytes) }
    }

    fn inside(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.0.bytes()), "bytes outside their region");
        self.0.start().as_ptr().wrapping_add(offset)
    }

    /// Copies bytes in. A reader may see them in any order until a word is
    /// published with release order afterwards.
    ///
    /// # Panics
    /// Where they do not fit, or `offset` is not a multiple of eight.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        crate::copy::write(|at| word(&self.0, at), |at| word(&self.0, at), offset, bytes);
    }

    /// Copies bytes out; what a peer writes meanwhile may be in them or not.
    ///
    /// # Panics
    /// Where they do not lie inside, or `offset` is not a multiple of eight.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        crate::copy::read(|at| word(&self.0, at), |at| word(&self.0, at), offset, bytes);
    }
}

/// Size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;

/// The word at `offset` of a page: no branch, since the offset is cut to the page.
#[inline]
fn page_word<T: Word>(mapping: &Mapping, offset: usize) -> &T {
    debug_assert!(offset + size_of::<T>() <= PAGE_BYTES && offset.is_multiple_of(align_of::<T>()));
    let inside = offset & (PAGE_BYTES - align_of::<T>());
    // SAFETY: every word's size is its alignment, so a multiple of it below the page's
    // size is inside and aligned; pages are mapped with exactly that size; valid for
    // any bits; lives as long as the borrow of the mapping.
    unsafe { &*mapping.start().as_ptr().add(inside).cast::<T>() }
}

/// One page that this process and its peers write: [`Shared`] for hot paths.
/// An offset outside is a mistake of ours; debug builds panic, others read another word of the page.
#[derive(Debug)]
pub struct SharedPage(Mapping);

impl SharedPage {
    /// Maps memory of exactly one page for reading and writing.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Mapping::new(memory, PAGE_BYTES, true).map(Self)
    }

    /// The 32-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        page_word(&self.0, offset)
    }

    /// The 64-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        page_word(&self.0, offset)
    }

    /// Copies bytes in. A reader may see them in any order until a word is
    /// published with release order afterwards.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        crate::copy::write(|at| page_word(&self.0, at), |at| page_word(&self.0, at), offset, bytes);
    }

    /// Copies bytes out; what a peer writes meanwhile may be in them or not.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        crate::copy::read(|at| page_word(&self.0, at), |at| page_word(&self.0, at), offset, bytes);
    }
}

/// One page that another process writes and this one only sees.
#[derive(Debug)]
pub struct ObservedPage(Mapping);

impl ObservedPage {
    /// Maps memory of exactly one page for reading.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Mapping::new(memory, PAGE_BYTES, false).map(Self)
    }

    /// The 32-bit word at `offset`, now.
    #[must_use]
    #[inline]
    pub fn load32(&self, offset: usize, order: Ordering) -> u32 {
        page_word::<AtomicU32>(&self.0, offset).load(order)
    }

    /// The 64-bit word at `offset`, now.
    #[must_use]
    #[inline]
    pub fn load64(&self, offset: usize, order: Ordering) -> u64 {
        page_word::<AtomicU64>(&self.0, offset).load(order)
    }
}

/// A region that another process writes and this one only sees.
#[derive(Debug)]
pub struct Observed(Mapping);

impl Observed {
    pub(crate) fn first(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        self.0.bytes()
    }

    /// Maps memory of exactly this size for reading.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new(memory, bytes, false).map(Self)
    }

    /// The same, with pages mapped when they are touched.
    ///
    /// # Errors
    /// Of [`Mapping::new`].
    pub fn map_sparse(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new_sparse(memory, bytes, false).map(Self)
    }

    /// The 32-bit word at `offset`, now.
    ///
    /// # Panics
    /// Where it does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn load32(&self, offset: usize, order: Ordering) -> u32 {
        word::<AtomicU32>(&self.0, offset).load(order)
    }

    /// The 64-bit word at `offset`, now.
    ///
    /// # Panics
    /// Where it does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn load64(&self, offset: usize, order: Ordering) -> u64 {
        word::<AtomicU64>(&self.0, offset).load(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> std::os::fd::OwnedFd {
        m3ipc_sys::create_memory("m3-test", 4096).unwrap()
    }

    #[test]
    fn bytes_written_at_any_length_are_read_back() {
        let region = Shared::map(memory(), 4096).unwrap();
        for length in 0..70 {
            let sent: Vec<u8> = (0..length).map(|at| at + 1).collect();
            region.write(64, &sent);
            let mut got = vec![0; sent.len()];
            region.read(64, &mut got);
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn an_observer_sees_what_the_writer_stores() {
        let memory = memory();
        let writer = Shared::map(&memory, 4096).unwrap();
        let observer = Observed::map(&memory, 4096).unwrap();
        writer.word64(8).store(7, Ordering::Release);
        assert_eq!(observer.load64(8, Ordering::Acquire), 7);
        assert_eq!(observer.load32(8, Ordering::Acquire), 7);
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        assert_eq!(Shared::map(memory(), 8192).unwrap_err(), Errno::INVAL);
    }

    #[test]
    fn after_the_seal_nobody_new_can_write() {
        let memory = memory();
        let writer = Shared::map(&memory, 4096).unwrap();
        m3ipc_sys::seal_against_new_writers(&memory).unwrap();
        assert_eq!(Shared::map(&memory, 4096).unwrap_err(), Errno::PERM);
        assert!(Observed::map(&memory, 4096).is_ok());
        writer.word32(0).store(1, Ordering::Relaxed);
    }

    #[test]
    fn a_page_holds_what_a_region_holds() {
        let memory = memory();
        let (page, region) =
            (SharedPage::map(&memory).unwrap(), Shared::map(&memory, 4096).unwrap());
        let sent: Vec<u8> = (0..77).collect();
        page.write(4016, &sent);
        let mut got = vec![0; sent.len()];
        region.read(4016, &mut got);
        assert_eq!(got, sent);
        region.word32(4092).store(9, Ordering::Release);
        assert_eq!(ObservedPage::map(&memory).unwrap().load32(4092, Ordering::Acquire), 9);
        assert_eq!(
            page.word64(4016).load(Ordering::Relaxed),
            region.word64(4016).load(Ordering::Relaxed)
        );
    }

    #[test]
    #[should_panic(expected = "word outside its region")]
    fn a_word_beyond_the_end_is_refused() {
        let region = Shared::map(memory(), 4096).unwrap();
        let _ = region.word64(4092);
    }
}
