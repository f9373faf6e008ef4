//! Mappings at a given address, with pieces that can be protected.
//!
//! # Safety
//! A [`FixedMapping`] replaces no other mapping: the kernel refuses an address in use. Its pointer
//! is valid for its mapped pieces until drop, because the size of the memory is sealed. Other
//! mappings of the process may lie between the pieces: no call touches those.
#![allow(unsafe_code)]

use crate::ForkGuard;
use crate::memfd::{memory_bytes, memory_id};
use core::ptr::NonNull;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

/// The size of a page of this system in bytes: 4,096, or more on some machines with ARM cores.
///
/// # Source
/// sysconf(3), `_SC_PAGESIZE`
#[must_use]
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The bytes of memory that `bytes` bytes take, in whole pages of `page_bytes`.
#[must_use]
pub fn whole_pages(bytes: u64, page_bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX)
}

/// The access that this process has to a part of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: an access raises SIGSEGV.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

impl Access {
    fn flags(self) -> MprotectFlags {
        match self {
            Self::None => MprotectFlags::empty(),
            Self::Read => MprotectFlags::READ,
            Self::Write => MprotectFlags::READ | MprotectFlags::WRITE,
        }
    }
}

/// A shared mapping at a given address. Forked children do not inherit it.
#[derive(Debug)]
pub struct FixedMapping {
    start: NonNull<u8>,
    bytes: usize,
    guard: ForkGuard,
    /// The mapped pieces: offset and length of each.
    pieces: Mutex<Vec<(usize, usize)>>,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for FixedMapping {}
// SAFETY: as for `Send`. The type gives raw pointers only.
unsafe impl Sync for FixedMapping {}

impl FixedMapping {
    /// Maps all of this memory at `address`. The pages stay untouched.
    ///
    /// # Errors
    /// `EXIST` if another mapping lies there; `PERM` if the size is not sealed, or if the memory is
    /// sealed against a requested write access; `INVAL` if it has another size; `NOMEM`.
    pub fn new(
        memory: impl AsFd,
        address: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<Self, Errno> {
        let mapping = Self::unmapped(&memory, address, bytes)?;
        mapping.map_piece(memory, 0, bytes, writable)?;
        Ok(mapping)
    }

    /// Maps nothing yet: see [`map_piece`](Self::map_piece).
    ///
    /// # Errors
    /// `PERM` if the size is not sealed; `INVAL` if the memory has another size.
    pub fn unmapped(memory: impl AsFd, address: u64, bytes: usize) -> Result<Self, Errno> {
        if memory_bytes(&memory)? != bytes as u64 || bytes == 0 {
            return Err(Errno::INVAL);
        }
        let at = usize::try_from(address).map_err(|_| Errno::INVAL)?;
        let start =
            NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(at)).ok_or(Errno::INVAL)?;
        Ok(Self { start, bytes, guard: ForkGuard::new()?, pieces: Mutex::default() })
    }

    /// Whether this process made the mapping. A child by fork has none.
    #[must_use]
    #[inline]
    pub fn is_original(&self) -> bool {
        self.guard.is_original()
    }

    /// Maps a piece of whole pages of the memory that the mapping was made with.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn map_piece(
        &self,
        memory: impl AsFd,
        offset: usize,
        bytes: usize,
        writable: bool,
    ) -> Result<(), Errno> {
        let start = NonNull::new(self.part(offset, bytes)?.cast::<u8>()).ok_or(Errno::INVAL)?;
        map_at(&memory, start, (offset, bytes), writable, MapFlags::FIXED_NOREPLACE)?;
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).push((offset, bytes));
        Ok(())
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn part(&self, offset: usize, bytes: usize) -> Result<*mut core::ffi::c_void, Errno> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if inside { Ok(self.start.as_ptr().wrapping_add(offset).cast()) } else { Err(Errno::INVAL) }
    }

    /// Sets the access of this process to a part of whole pages.
    ///
    /// # Errors
    /// `INVAL` if the part does not lie inside or has partial pages; `ACCES` if the memory is not
    /// writable.
    pub fn protect(&self, offset: usize, bytes: usize, access: Access) -> Result<(), Errno> {
        // The kernel rounds the length up and would change the following bytes as well.
        if !bytes.is_multiple_of(rustix::param::page_size()) {
            return Err(Errno::INVAL);
        }
        let part = self.part(offset, bytes)?;
        // SAFETY: `part` checked that the range lies in this mapping. The type gives raw pointers
        // only, so no reference depends on the access.
        unsafe { mprotect(part, bytes, access.flags()) }
    }

    /// Maps the pages of a part at once, so that they cause no later faults.
    ///
    /// # Errors
    /// `INVAL` if the part does not lie inside or has partial pages, or before Linux 5.14; `FAULT`,
    /// `NOMEM`.
    pub fn prefault(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let part = self.part(offset, bytes)?;
        // SAFETY: `part` checked the range. The advice only maps pages and changes no byte. A read
        // access is enough: pages of shared memory become as writable as the mapping.
        unsafe { madvise(part, bytes, Advice::LinuxPopulateRead) }
    }

    /// Asks for transparent huge pages.
    ///
    /// # Errors
    /// `INVAL` if the kernel has none.
    pub fn want_huge_pages(&self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping. The advice changes the page size and no byte.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
    }

    /// Gives up writing: maps the memory again through a read-only descriptor. The kernel then no
    /// longer counts this mapping as writable.
    ///
    /// # Errors
    /// `INVAL` unless all of the memory is mapped; those of open(2) and mmap(2). The mapping then
    /// stays unchanged.
    pub fn renounce_writing(&self, memory: impl AsFd) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", memory.as_fd().as_raw_fd());
        let reader = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        if memory_bytes(&reader)? != self.bytes as u64 || memory_id(&reader)? != memory_id(&memory)?
        {
            return Err(Errno::INVAL);
        }
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.iter().map(|(_, bytes)| bytes).sum::<usize>() != self.bytes {
            return Err(Errno::INVAL);
        }
        map_at(&reader, self.start, (0, self.bytes), false, MapFlags::FIXED)
    }
}

fn map_at(
    memory: impl AsFd,
    start: NonNull<u8>,
    (offset, bytes): (usize, usize),
    writable: bool,
    placement: MapFlags,
) -> Result<(), Errno> {
    let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    // `reserve_memory` reserves the pages of huge areas, extent by extent.
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | placement;
    // SAFETY: with FIXED_NOREPLACE the kernel replaces nothing. With FIXED it replaces our own
    // mapping by one of the same memory and length (checked in `renounce_writing`).
    let got =
        unsafe { mmap(start.as_ptr().cast(), bytes, protection, flags, memory, offset as u64)? };
    if got != start.as_ptr().cast() {
        // Linux before 4.17 treats the address as a hint.
        // SAFETY: the mapping was just made, and no other code knows it.
        let _ = unsafe { munmap(got, bytes) };
        return Err(Errno::EXIST);
    }
    // SAFETY: the range is exactly the new mapping.
    unsafe { madvise(got, bytes, Advice::LinuxDontFork) }
}

impl Drop for FixedMapping {
    fn drop(&mut self) {
        // A child by fork has no such mapping, and other memory may lie there.
        if !self.is_original() {
            return;
        }
        let pieces = self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (offset, bytes) in pieces.drain(..) {
            // SAFETY: this value owns the piece and unmaps it once.
            let _ = unsafe { munmap(self.start.as_ptr().wrapping_add(offset).cast(), bytes) };
        }
    }
}
