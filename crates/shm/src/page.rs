//! Regions of exactly one page, for hot paths: access to a word costs no branch.
//!
//! # Safety
//! Pages are mapped with exactly [`PAGE_BYTES`]. Words are reached at masked, aligned offsets;
//! bytes at checked offsets. The rest is as in [`crate::region`].
#![allow(unsafe_code)]

use crate::copy::{copy_in, copy_out};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::{Errno, Mapping};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;

/// Words in a line of a page.
pub const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = LINE_WORDS * size_of::<AtomicU64>();

/// Types that are valid for every bit pattern, with a size that equals their alignment.
trait Word: Sized {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

/// Memory of exactly one page, which stays mapped as long as the value.
trait PageMemory {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
}

/// The word at `offset` of a page. The mask replaces the bounds check.
#[inline]
fn word<T: Word>(page: &impl PageMemory, offset: usize) -> &T {
    debug_assert!(offset + size_of::<T>() <= PAGE_BYTES && offset.is_multiple_of(align_of::<T>()));
    let inside = offset & (PAGE_BYTES - align_of::<T>());
    // SAFETY: the size of each word is its alignment, so a multiple of it below the size of the
    // page is inside and aligned. The mapping has exactly that size and lives as long as the
    // borrow. Any bits are valid.
    unsafe { &*page.start().as_ptr().add(inside).cast::<T>() }
}

/// The line at `offset` of a page, which is a multiple of its size. The mask replaces the bounds
/// check.
#[inline]
fn line(page: &impl PageMemory, offset: usize) -> &[AtomicU64; LINE_WORDS] {
    debug_assert!(offset + LINE_BYTES <= PAGE_BYTES && offset.is_multiple_of(LINE_BYTES));
    let inside = offset & (PAGE_BYTES - LINE_BYTES);
    // SAFETY: a multiple of the size of a line below the size of the page is inside, with the whole
    // line, and aligned for its words. The mapping has exactly that size and lives as long as the
    // borrow. Any bits are valid.
    unsafe { &*page.start().as_ptr().add(inside).cast::<[AtomicU64; LINE_WORDS]>() }
}

#[inline]
fn run(page: &SharedPage, offset: usize, bytes: usize) -> *mut u8 {
    let inside = offset <= PAGE_BYTES && bytes <= PAGE_BYTES - offset;
    assert!(inside, "bytes outside their page");
    page.start().as_ptr().wrapping_add(offset)
}

/// One page that this process and its peers write.
///
/// An offset outside the page is a defect of the caller. Debug builds panic; release builds access
/// another word of the page.
#[derive(Debug)]
pub struct SharedPage {
    /// The start of the mapping. A copy here saves a load at each access.
    start: NonNull<u8>,
    mapping: Arc<Mapping>,
}

// SAFETY: the pointer is that of the mapping, which is `Send` and lives as long as the page.
unsafe impl Send for SharedPage {}
// SAFETY: as for `Send`; all access to words is atomic, and bytes are copied as raw memory.
unsafe impl Sync for SharedPage {}

impl PageMemory for SharedPage {
    #[inline]
    fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl SharedPage {
    /// Maps memory of exactly one page for reading and writing.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        let mapping = Arc::new(Mapping::new(memory, PAGE_BYTES, true)?);
        Ok(Self { start: mapping.start(), mapping })
    }

    /// The mapping of the page.
    #[must_use]
    pub fn mapping(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }

    /// The same page once more. It stays mapped until the last of them is dropped.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { start: self.start, mapping: Arc::clone(&self.mapping) }
    }

    /// The 32-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        word(self, offset)
    }

    /// The 64-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        word(self, offset)
    }

    /// The line of 64 bytes at `offset`, found once for words that are used often.
    #[must_use]
    pub fn line(&self, offset: usize) -> SharedLine {
        SharedLine { words: NonNull::from(line(self, offset)), _mapping: Arc::clone(&self.mapping) }
    }

    /// Copies bytes in. A reader may see them in any order until the writer publishes a word with
    /// release order.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = run(self, offset, bytes.len());
        // SAFETY: `run` checked the range of this writable, live mapping. No reference covers
        // mapped memory, so `bytes` lies elsewhere.
        unsafe { copy_in(to, bytes) };
    }

    /// Copies bytes out. A peer's concurrent writes may be part of them.
    ///
    /// # Panics
    /// If the bytes do not lie inside.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = run(self, offset, bytes.len());
        // SAFETY: `run` checked the range of this live mapping; `bytes` lies elsewhere.
        unsafe { copy_out(from, bytes) };
    }
}

/// One line of a [`SharedPage`]. The page stays mapped as long as the line.
#[derive(Debug)]
pub struct SharedLine {
    words: NonNull<[AtomicU64; LINE_WORDS]>,
    _mapping: Arc<Mapping>,
}

// SAFETY: the pointer leads into the mapping, which is `Send` and lives as long as the line.
unsafe impl Send for SharedLine {}
// SAFETY: as for `Send`; all access to words is atomic.
unsafe impl Sync for SharedLine {}

impl SharedLine {
    /// The words of the line. Costs one load.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64; LINE_WORDS] {
        // SAFETY: `line` made the pointer from a reference into the mapping, which lives as long as
        // this value. Any bits are valid.
        unsafe { self.words.as_ref() }
    }
}

/// One page that another process writes and this process only reads.
#[derive(Debug)]
pub struct ObservedPage(Mapping);

impl PageMemory for ObservedPage {
    #[inline]
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }
}

impl ObservedPage {
    /// Maps memory of exactly one page for reading.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Mapping::new(memory, PAGE_BYTES, false).map(Self)
    }

    /// The present value of the 32-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn load32(&self, offset: usize, order: Ordering) -> u32 {
        word::<AtomicU32>(self, offset).load(order)
    }

    /// The present value of the 64-bit word at `offset`.
    #[must_use]
    #[inline]
    pub fn load64(&self, offset: usize, order: Ordering) -> u64 {
        word::<AtomicU64>(self, offset).load(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shared;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no atomics of mixed sizes")]
    fn a_page_and_a_region_of_the_same_memory_agree() {
        let memory = m3ipc_sys::create_memory("m3-test", 4096).unwrap();
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
    #[cfg_attr(miri, ignore = "miri has no atomics of mixed sizes")]
    fn a_line_has_the_words_of_its_page() {
        let memory = m3ipc_sys::create_memory("m3-test", 4096).unwrap();
        let page = SharedPage::map(&memory).unwrap();
        for offset in [0, 64, PAGE_BYTES - LINE_BYTES] {
            for (at, word) in page.line(offset).words().iter().enumerate() {
                word.store((offset + at) as u64, Ordering::Relaxed);
                assert_eq!(
                    page.word64(offset + 8 * at).load(Ordering::Relaxed),
                    (offset + at) as u64
                );
            }
        }
    }

    #[test]
    fn a_shared_page_and_a_line_outlive_the_first() {
        let memory = m3ipc_sys::create_memory("m3-test", 4096).unwrap();
        let first = SharedPage::map(&memory).unwrap();
        let (second, line) = (first.share(), first.line(LINE_BYTES));
        first.word64(8).store(7, Ordering::Release);
        first.word64(LINE_BYTES + 8).store(9, Ordering::Release);
        drop(first);
        assert_eq!(second.word64(8).load(Ordering::Acquire), 7);
        drop(second);
        assert_eq!(line.words()[1].load(Ordering::Acquire), 9);
    }

    #[test]
    #[should_panic(expected = "bytes outside their page")]
    fn a_run_beyond_the_end_is_refused() {
        let memory = m3ipc_sys::create_memory("m3-test", 4096).unwrap();
        SharedPage::map(&memory).unwrap().write(4092, &[0; 5]);
    }
}
