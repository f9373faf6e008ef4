//! A shared mapping of memory with a sealed size.
//!
//! # Safety
//! The pointer is valid for `bytes` bytes from creation to drop: the size of the memory is sealed
//! before the mapping, so no peer can take pages away. A peer may change the bytes at any time, so
//! code forms no reference to them except to an atomic.
#![allow(unsafe_code)]

use crate::ForkGuard;
use core::ptr::NonNull;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::MapFlags;
#[cfg(not(miri))]
use rustix::mm::{Advice, ProtFlags, madvise, mmap, munmap};

/// A shared mapping. Forked children do not inherit it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
    guard: ForkGuard,
}

// SAFETY: a mapping belongs to the process, not to a thread. The type gives a raw pointer only.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all of this memory, with all its pages.
    ///
    /// # Errors
    /// `PERM` if the size is not sealed; `INVAL` if the memory is not exactly `bytes` bytes long,
    /// or if the descriptor is no memfd; `NOMEM`, `ACCES`.
    pub fn new(memory: impl AsFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        Self::map(memory, bytes, writable, MapFlags::POPULATE)
    }

    /// Maps memory like [`new`](Self::new), but each page only at its first access.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn new_sparse(memory: impl AsFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        Self::map(memory, bytes, writable, MapFlags::empty())
    }

    #[cfg(not(miri))]
    fn map(
        memory: impl AsFd,
        bytes: usize,
        writable: bool,
        population: MapFlags,
    ) -> Result<Self, Errno> {
        if crate::memory_bytes(&memory)? != bytes as u64 || bytes == 0 {
            return Err(Errno::INVAL);
        }
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let (flags, guard) = (MapFlags::SHARED | population, ForkGuard::new()?);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(core::ptr::null_mut(), bytes, protection, flags, memory, 0)? };
        let mapping =
            Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, bytes, writable, guard };
        // SAFETY: the range is exactly the new mapping.
        unsafe { madvise(start, bytes, Advice::LinuxDontFork)? };
        Ok(mapping)
    }

    /// Under miri: a view of the heap allocation of the memory.
    #[cfg(miri)]
    fn map(memory: impl AsFd, bytes: usize, writable: bool, _: MapFlags) -> Result<Self, Errno> {
        let (start, length) = crate::miri_memory::find(memory)?;
        let guard = ForkGuard::new()?;
        if length == bytes { Ok(Self { start, bytes, writable, guard }) } else { Err(Errno::INVAL) }
    }

    /// The first byte.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the mapping is writable.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // A child by fork has no such mapping, and other memory may lie there.
        if self.guard.is_original() {
            // SAFETY: this value owns the mapping and unmaps it once.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}
