//! Memory of areas: sparse, mapped at an address that is given, and write-protected piece by piece.
//!
//! # Safety
//! A [`FixedMapping`] replaces nothing that is mapped: it is refused where anything is. Its
//! pointer is valid for its length until it is dropped, since the memory's size is sealed.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals,
    fcntl_get_seals, fstat, ftruncate, memfd_create, open,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use std::os::fd::AsRawFd;

/// Creates memory of `bytes` bytes whose size is sealed and of which nothing is there yet:
/// pages come with [`grow`], or when they are touched.
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`; `NOSYS` where the system has no huge pages.
///
/// # Source
/// memfd_create(2)
pub fn create_sparse(name: &str, bytes: u64, huge: bool) -> Result<OwnedFd, Errno> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if huge {
        flags |= MemfdFlags::HUGETLB;
    }
    let memory = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 the flag is unknown.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    ftruncate(&memory, bytes)?;
    crate::seal_size(&memory)?;
    Ok(memory)
}

/// Makes sure that a range of the memory is there: using it cannot fail afterwards.
///
/// # Errors
/// `NOMEM`, `NOSPC`.
pub fn reserve_memory(memory: impl AsFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    fallocate(memory, FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// Gives a range of the memory back to the system; it reads as zeros then.
///
/// # Errors
/// `PERM` where writing is sealed.
pub fn release_memory(memory: impl AsFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    fallocate(memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// Forbids any further seal, for ever.
///
/// # Errors
/// `PERM` where that is so already.
pub fn seal_seals(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::SEAL)
}

/// Forbids any writing, for ever. The kernel does it only where nobody has the memory mapped for writing.
///
/// # Errors
/// `BUSY` where somebody has, `PERM` where sealing is sealed.
pub fn seal_against_writing(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::WRITE)
}

/// Whether nobody can write this memory, now or ever.
///
/// # Errors
/// `INVAL` where it is no such memory.
pub fn is_sealed_against_writing(memory: impl AsFd) -> Result<bool, Errno> {
    Ok(fcntl_get_seals(memory)?.contains(SealFlags::WRITE))
}

/// What tells this memory from all other: the number of its inode.
///
/// # Errors
/// Of fstat(2).
pub fn memory_id(memory: impl AsFd) -> Result<u64, Errno> {
    Ok(fstat(memory)?.st_ino)
}

/// What may be done with a part of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: who tries gets SIGSEGV.
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

/// A shared mapping at an address that is given. Not inherited by forks.
#[derive(Debug)]
pub struct FixedMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for FixedMapping {}
// SAFETY: as above; what lies in it is reached through raw pointers only.
unsafe impl Sync for FixedMapping {}

impl FixedMapping {
    /// Maps all of this memory at `address`, without touching it.
    ///
    /// # Errors
    /// `EXIST` where something is mapped there; `PERM` where the memory's size is not sealed or
    /// writing is; `INVAL` where it has another size; `NOMEM`.
    pub fn new(
        memory: impl AsFd,
        address: u64,
        bytes: usize,
        writable: bool,
    ) -> Result<Self, Errno> {
        if crate::memory_bytes(&memory)? != bytes as u64 || bytes == 0 {
            return Err(Errno::INVAL);
        }
        let at = usize::try_from(address).map_err(|_| Errno::INVAL)?;
        let start =
            NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(at)).ok_or(Errno::INVAL)?;
        map_at(&memory, start, bytes, writable, MapFlags::FIXED_NOREPLACE)?;
        Ok(Self { start, bytes })
    }

    /// Its first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn part(&self, offset: usize, bytes: usize) -> Result<*mut core::ffi::c_void, Errno> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if inside { Ok(self.start.as_ptr().wrapping_add(offset).cast()) } else { Err(Errno::INVAL) }
    }

    /// Allows or forbids this process the use of a part: whole pages.
    ///
    /// # Errors
    /// `INVAL` where it is not inside or not whole pages, `ACCES` where the memory may not be written.
    pub fn protect(&self, offset: usize, bytes: usize, access: Access) -> Result<(), Errno> {
        // The kernel would round the length up, and take what lies behind as well.
        if !bytes.is_multiple_of(rustix::param::page_size()) {
            return Err(Errno::INVAL);
        }
        let part = self.part(offset, bytes)?;
        // SAFETY: a part of our own mapping. Callers give away the right to use it before they forbid it.
        unsafe { mprotect(part, bytes, access.flags()) }
    }

    /// Maps a part at once, so that its pages are not met one by one later.
    ///
    /// # Errors
    /// `INVAL` where it is not inside or not whole pages, or before Linux 5.14; `FAULT`, `NOMEM`.
    pub fn prefault(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let part = self.part(offset, bytes)?;
        // SAFETY: it reads pages of our own mapping into its tables, and changes nothing in them. Reading is
        // enough for shared memory: its pages come in as writable as the mapping is.
        unsafe { madvise(part, bytes, Advice::LinuxPopulateRead) }
    }

    /// Asks for huge pages where the system makes them by itself.
    ///
    /// # Errors
    /// `INVAL` where the kernel has none.
    pub fn want_huge_pages(&self) -> Result<(), Errno> {
        // SAFETY: it changes how our own mapping is backed, not what is in it.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) }
    }

    /// Gives up writing: maps the memory again through a descriptor that cannot write, so that
    /// the kernel no longer counts this mapping among those that can.
    ///
    /// # Errors
    /// Of open(2) and mmap(2); the mapping is as it was then.
    pub fn renounce_writing(&self, memory: impl AsFd) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", memory.as_fd().as_raw_fd());
        let reader = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        if crate::memory_bytes(&reader)? != self.bytes as u64
            || memory_id(&reader)? != memory_id(&memory)?
        {
            return Err(Errno::INVAL);
        }
        map_at(&reader, self.start, self.bytes, false, MapFlags::FIXED)
    }
}

fn map_at(
    memory: impl AsFd,
    start: NonNull<u8>,
    bytes: usize,
    writable: bool,
    how: MapFlags,
) -> Result<(), Errno> {
    let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    // Pages of huge areas are reserved by `grow`, extent by extent.
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | how;
    // SAFETY: with FIXED_NOREPLACE nothing is replaced; with FIXED only our own mapping of the same
    // memory, and that of the same length, by another view of it.
    let got = unsafe { mmap(start.as_ptr().cast(), bytes, protection, flags, memory, 0)? };
    if got != start.as_ptr().cast() {
        // A kernel before 4.17 takes the address for a wish.
        // SAFETY: what was just mapped, and nobody uses.
        let _ = unsafe { munmap(got, bytes) };
        return Err(Errno::EXIST);
    }
    // SAFETY: the range is exactly the new mapping.
    unsafe { madvise(got, bytes, Advice::LinuxDontFork) }
}

impl Drop for FixedMapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, unmapped once, by the one who owns it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
