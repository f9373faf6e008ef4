//! A shared mapping of sealed memory, owned.
//!
//! # Safety
//! The pointer is valid for `bytes` from creation to drop: the size of the
//! memory is sealed before it is mapped, so no peer can take the pages away.
//! What lies in it is a peer's to change at any time; nobody may form a
//! reference to it but to an atomic.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared mapping. Not inherited by forks.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread; access is by atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all of this memory, populated.
    ///
    /// # Errors
    /// `PERM` where its size is not sealed, `INVAL` where it is not exactly
    /// `bytes` long (or is no memory of this kind), `NOMEM`, `ACCES`.
    pub fn new(memory: impl AsFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        Self::map(memory, bytes, writable, MapFlags::POPULATE)
    }

    /// The same, with pages mapped when they are touched.
    ///
    /// # Errors
    /// Of [`new`](Self::new).
    pub fn new_sparse(memory: impl AsFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        Self::map(memory, bytes, writable, MapFlags::empty())
    }

    fn map(memory: impl AsFd, bytes: usize, writable: bool, how: MapFlags) -> Result<Self, Errno> {
        if crate::memory_bytes(&memory)? != bytes as u64 || bytes == 0 {
            return Err(Errno::INVAL);
        }
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | how;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(core::ptr::null_mut(), bytes, protection, flags, memory, 0)? };
        let mapping =
            Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, bytes, writable };
        // SAFETY: the range is exactly the new mapping.
        unsafe { madvise(start, bytes, Advice::LinuxDontFork)? };
        Ok(mapping)
    }

    /// Its first byte.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it may be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, unmapped once, by the one who owns it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
