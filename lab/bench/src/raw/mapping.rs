//! Mappings of files: mmap(2) with all pages at once, on touch, or one call per page.
//!
//! # Safety
//! One byte of each page is read or written, by volatile accesses and never by a reference, so any
//! write of another process is a value. The file belongs to this run, and no process shrinks it.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use m3ipc_report::PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::Error;

/// The method that maps the pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMethod {
    /// Each page at its first read.
    Read,
    /// Each page at its first write.
    Write,
    /// All pages within mmap.
    Populate,
    /// One mmap per page, as for scattered pages.
    PageByPage,
}

/// The first bytes of a file in this process.
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes, a multiple of the page size, to read and write, all pages present.
    pub fn new(file: &OwnedFd, bytes: usize, method: MapMethod) -> Result<Self, Error> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = match method {
            MapMethod::Populate => MapFlags::SHARED | MapFlags::POPULATE,
            MapMethod::Read | MapMethod::Write | MapMethod::PageByPage => MapFlags::SHARED,
        };
        let base = if method == MapMethod::PageByPage {
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing else.
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
        if method == MapMethod::PageByPage {
            for at in (0..bytes).step_by(PAGE_BYTES) {
                let flags = flags | MapFlags::FIXED | MapFlags::POPULATE;
                // SAFETY: within the reserved range, so within one allocation.
                let place = unsafe { base.as_ptr().add(at) };
                // SAFETY: replaces one page of the range reserved above, which has no other use.
                unsafe { mmap(place.cast(), PAGE_BYTES, rights, flags, file, at as u64) }
                    .map_err(Error::os("mmap of a page of a file"))?;
            }
        }
        match method {
            MapMethod::Read => _ = std::hint::black_box(mapping.sum()),
            MapMethod::Write => mapping.write(),
            MapMethod::Populate | MapMethod::PageByPage => {}
        }
        Ok(mapping)
    }

    /// Reads one byte of each page; returns their sum.
    #[must_use = "the sum says that the pages were read"]
    pub fn sum(&self) -> u64 {
        (0..self.bytes)
            .step_by(PAGE_BYTES)
            // SAFETY: in the mapping, which lives as long as `self`; a byte is aligned and valid.
            .map(|at| u64::from(unsafe { self.base.as_ptr().add(at).read_volatile() }))
            .fold(0, u64::wrapping_add)
    }

    /// Writes a one at the beginning of each page.
    fn write(&self) {
        for at in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: in the writable mapping, which lives as long as `self` and has no references.
            unsafe { self.base.as_ptr().add(at).write_volatile(1) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size and not yet unmapped; no borrow outlives `self`. A
        // failed munmap leaves pages behind until exit, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
