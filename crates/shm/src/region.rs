//! Regions: a mapping with checked access to its words and bytes.
//!
//! # Safety
//! All access goes through atomics and through [`crate::copy`], at checked offsets of a mapping
//! that lives as long as the region. A peer may change any byte at any time.
#![allow(unsafe_code)]

use crate::copy::{copy_bytes, copy_bytes_past_caches, copy_in, copy_out};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::{CopySource, CopyTarget, Errno, Mapping};
use std::os::fd::AsFd;

/// Types that are valid for every bit pattern and that a hostile process may share.
trait Word: Sized {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

/// The word at `offset`.
///
/// # Panics
/// If the word does not lie inside the mapping or is not aligned. Offsets are constants and
/// checked indexes of this process, never numbers of a peer.
#[inline]
fn word<T: Word>(mapping: &Mapping, offset: usize) -> &T {
    let end = offset.checked_add(size_of::<T>());
    assert!(
        end.is_some_and(|end| end <= mapping.bytes()) && offset.is_multiple_of(align_of::<T>()),
        "word outside its region"
    );
    // SAFETY: the word lies inside the mapping and is aligned (checked above; mappings begin at a
    // page). Any bits are valid. The mapping lives as long as the borrow.
    unsafe { &*mapping.start().as_ptr().add(offset).cast::<T>() }
}

/// The first byte of a run that lies inside the mapping.
///
/// # Panics
/// If the run does not lie inside. Offsets are as in [`word`].
#[inline]
fn run(mapping: &Mapping, offset: usize, bytes: usize) -> *mut u8 {
    let end = offset.checked_add(bytes);
    assert!(end.is_some_and(|end| end <= mapping.bytes()), "bytes outside their region");
    mapping.start().as_ptr().wrapping_add(offset)
}

/// A region that this process and its peers write.
#[derive(Debug)]
pub struct Shared(Mapping);

impl Shared {
    /// Maps memory of exactly this size for reading and writing.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new(memory, bytes, true).map(Self)
    }

    /// Maps memory like [`map`](Self::map), but each page only at its first access.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map_sparse(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new_sparse(memory, bytes, true).map(Self)
    }

    /// The 32-bit word at `offset`.
    ///
    /// # Panics
    /// If the word does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        word(&self.0, offset)
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// If the word does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        word(&self.0, offset)
    }

    /// A part of the region for the kernel to read. The kernel may see a peer's concurrent writes.
    ///
    /// # Panics
    /// If the part does not lie inside.
    #[must_use]
    pub fn source(&self, offset: usize, bytes: usize) -> CopySource<'_> {
        let start = run(&self.0, offset, bytes);
        // SAFETY: `run` checked the range. The mapping lives as long as the borrow. Only the
        // kernel reads the bytes.
        unsafe { CopySource::from_raw(start, bytes) }
    }

    /// A part of the region for the kernel to write.
    ///
    /// # Panics
    /// If the part does not lie inside.
    #[must_use]
    pub fn target(&self, offset: usize, bytes: usize) -> CopyTarget<'_> {
        let start = run(&self.0, offset, bytes);
        // SAFETY: `run` checked the range. The mapping lives as long as the borrow and is
        // writable. Only the kernel writes the bytes.
        unsafe { CopyTarget::from_raw(start, bytes) }
    }

    /// Copies bytes in from a range that may be unmapped. Returns `false`, and copies nothing,
    /// unless it surely is mapped.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[must_use]
    pub fn copy_in(&self, offset: usize, from: &CopySource<'_>) -> bool {
        let to = run(&self.0, offset, from.bytes());
        if !from.is_sure() {
            return false;
        }
        // SAFETY: `run` checked the range of this writable, live mapping, and `is_sure` says that
        // `from` is readable. No reference covers mapped memory, so `from` lies elsewhere.
        unsafe { copy_bytes(to, from.start(), from.bytes()) };
        true
    }

    /// Copies bytes out to a range that may be unmapped. Returns `false`, and copies nothing,
    /// unless it surely is mapped.
    ///
    /// # Panics
    /// If the bytes do not lie inside.
    #[must_use]
    pub fn copy_out(&self, offset: usize, into: &mut CopyTarget<'_>) -> bool {
        let from = run(&self.0, offset, into.bytes());
        if !into.is_sure() {
            return false;
        }
        // SAFETY: `run` checked the range of this live mapping, and `is_sure` says that `into` is
        // writable. No reference covers mapped memory, so `into` lies elsewhere.
        unsafe { copy_bytes(into.start(), from, into.bytes()) };
        true
    }

    /// Copies bytes in, at any offset. A reader may see them in any order until the writer
    /// publishes a word with release order.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = run(&self.0, offset, bytes.len());
        // SAFETY: `run` checked the range of this writable, live mapping. No reference covers
        // mapped memory, so `bytes` lies elsewhere.
        unsafe { copy_in(to, bytes) };
    }

    /// Copies bytes in like [`write`](Self::write), past the caches: for runs that are so long, or
    /// read on a CPU so far away, that the reader gets them from memory sooner than from the cache
    /// of this CPU.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn write_past_caches(&self, offset: usize, bytes: &[u8]) {
        let to = run(&self.0, offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { copy_bytes_past_caches(to, bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out, from any offset. A peer's concurrent writes may be part of them.
    ///
    /// # Panics
    /// If the bytes do not lie inside.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = run(&self.0, offset, bytes.len());
        // SAFETY: `run` checked the range of this live mapping; `bytes` lies elsewhere.
        unsafe { copy_out(from, bytes) };
    }
}

/// A region that another process writes and this process only reads.
#[derive(Debug)]
pub struct Observed(Mapping);

impl Observed {
    /// Maps memory of exactly this size for reading.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new(memory, bytes, false).map(Self)
    }

    /// Maps memory like [`map`](Self::map), but each page only at its first access.
    ///
    /// # Errors
    /// Those of [`Mapping::new`].
    pub fn map_sparse(memory: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        Mapping::new_sparse(memory, bytes, false).map(Self)
    }

    /// The present value of the 32-bit word at `offset`.
    ///
    /// # Panics
    /// If the word does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn load32(&self, offset: usize, order: Ordering) -> u32 {
        word::<AtomicU32>(&self.0, offset).load(order)
    }

    /// The present value of the 64-bit word at `offset`.
    ///
    /// # Panics
    /// If the word does not lie inside, aligned.
    #[must_use]
    #[inline]
    pub fn load64(&self, offset: usize, order: Ordering) -> u64 {
        word::<AtomicU64>(&self.0, offset).load(order)
    }

    /// Asks the CPU for the line of the word at `offset`, and waits for nothing.
    ///
    /// # Panics
    /// If the word does not lie inside, aligned.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        m3ipc_sys::prefetch(word::<AtomicU64>(&self.0, offset));
    }

    /// Copies bytes out, from any offset. The writer's concurrent writes may be part of them.
    ///
    /// # Panics
    /// If the bytes do not lie inside.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = run(&self.0, offset, bytes.len());
        // SAFETY: `run` checked the range of this live mapping; `bytes` lies elsewhere.
        unsafe { copy_out(from, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> std::os::fd::OwnedFd {
        m3ipc_sys::create_memory("m3-test", 8192).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no atomics of mixed sizes")]
    fn bytes_written_at_any_length_and_offset_are_read_back() {
        let memory = memory();
        let writer = Shared::map(&memory, 8192).unwrap();
        let reader = Observed::map(&memory, 8192).unwrap();
        let lengths = (0..70).chain(126..200).chain([255, 256, 257, 1000, 4096]);
        for length in lengths.step_by(if cfg!(miri) { 31 } else { 1 }) {
            for offset in [0, 1, 7, 8, 64, 4090] {
                let sent: Vec<u8> = (1..=251).cycle().step_by(7).take(length).collect();
                writer.write(offset, &[0; 4100]);
                if length.is_multiple_of(2) {
                    writer.write(offset, &sent);
                } else {
                    writer.write_past_caches(offset, &sent);
                }
                let (mut got, mut own) = (vec![0; length + 1], vec![0; length]);
                reader.read(offset, &mut got);
                writer.read(offset, &mut own);
                assert!(
                    got[..length] == sent[..] && got[length] == 0 && own == sent,
                    "{length} bytes at {offset}"
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no atomics of mixed sizes")]
    fn an_observer_sees_the_stores_of_the_writer() {
        let memory = memory();
        let writer = Shared::map(&memory, 8192).unwrap();
        let observer = Observed::map(&memory, 8192).unwrap();
        writer.word64(8).store(7, Ordering::Release);
        assert_eq!(observer.load64(8, Ordering::Acquire), 7);
        assert_eq!(observer.load32(8, Ordering::Acquire), 7);
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        assert_eq!(Shared::map(memory(), 4096).unwrap_err(), Errno::INVAL);
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no seals")]
    fn after_the_seal_no_new_mapping_can_write() {
        let memory = m3ipc_sys::create_sealable_memory("m3-test", 8192).unwrap();
        let writer = Shared::map(&memory, 8192).unwrap();
        m3ipc_sys::seal_against_new_writers(&memory).unwrap();
        assert_eq!(Shared::map(&memory, 8192).unwrap_err(), Errno::PERM);
        assert!(Observed::map(&memory, 8192).is_ok());
        writer.word32(0).store(1, Ordering::Relaxed);
    }

    #[test]
    #[should_panic(expected = "word outside its region")]
    fn a_word_beyond_the_end_is_refused() {
        let region = Shared::map(memory(), 8192).unwrap();
        let _ = region.word64(8188);
    }

    #[test]
    #[should_panic(expected = "bytes outside their region")]
    fn a_run_beyond_the_end_is_refused() {
        Shared::map(memory(), 8192).unwrap().write(8186, &[0; 7]);
    }
}
