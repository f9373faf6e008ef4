//! Mapping of files, for the cost of it: mmap(2) with all pages at once, on touch, or one call a page.
//!
//! # Safety
//! Of a mapping one byte of each page is read or written, by volatile accesses and never by a reference, so
//! whatever another process writes is a value. The file is one that this run made and that nobody shrinks.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::Error;

/// Size of a page in bytes, as far as these measurements go.
pub const PAGE_BYTES: usize = 4096;

/// How the pages of a file come into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each when it is first read.
    Read,
    /// Each when it is first written.
    Write,
    /// All within mmap.
    Populate,
    /// One mmap for each page, as for pages that lie anywhere.
    PageByPage,
}

/// A file's first bytes in this process.
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes, a multiple of the page size, to read and write; all pages are there when it returns.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn new(file: &OwnedFd, bytes: usize, manner: Manner) -> Result<Self, Error> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = match manner {
            Manner::Populate => MapFlags::SHARED | MapFlags::POPULATE,
            Manner::Read | Manner::Write | Manner::PageByPage => MapFlags::SHARED,
        };
        let base = if manner == Manner::PageByPage {
            // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
            unsafe {
                mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)
            }
        } else {
            // SAFETY: as above.
            unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, file, 0) }
        }
        .map_err(Error::os("mmap of a file"))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| Error::Unavailable {
            why: "the kernel mapped a file at address 0".into(),
            next: "raise vm.mmap_min_addr",
        })?;
        let mapping = Self { base, bytes };
        if manner == Manner::PageByPage {
            for at in (0..bytes).step_by(PAGE_BYTES) {
                let flags = flags | MapFlags::FIXED | MapFlags::POPULATE;
                // SAFETY: within the reserved range, so within one allocation.
                let place = unsafe { base.as_ptr().add(at) };
                // SAFETY: replaces one page of the range that was reserved above and that nothing else uses.
                unsafe { mmap(place.cast(), PAGE_BYTES, rights, flags, file, at as u64) }
                    .map_err(Error::os("mmap of a page of a file"))?;
            }
        }
        match manner {
            Manner::Read => _ = std::hint::black_box(mapping.sum()),
            Manner::Write => mapping.write(),
            Manner::Populate | Manner::PageByPage => {}
        }
        Ok(mapping)
    }

    /// Reads one byte of each page; gives their sum.
    #[must_use = "the sum says that the pages were read"]
    pub fn sum(&self) -> u64 {
        (0..self.bytes)
            .step_by(PAGE_BYTES)
            // SAFETY: in the mapping, which lives as long as `self`; a byte is always aligned and valid.
            .map(|at| u64::from(unsafe { self.base.as_ptr().add(at).read_volatile() }))
            .fold(0, u64::wrapping_add)
    }

    /// Writes a one at the beginning of each page.
    fn write(&self) {
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: in the mapping, which is writable and lives as long as `self`; no reference points into it.
            unsafe { self.base.as_ptr().add(at).write_volatile(1) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size and not yet unmapped; nothing borrows it beyond `self`.
        // A failing munmap leaves pages behind until exit, which harms nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
