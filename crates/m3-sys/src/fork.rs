//! Noticing a fork: a page that reads zero in a child.
//!
//! # Safety
//! The page is private to this object, mapped for its whole life and only
//! read through an atomic.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE_BYTES: usize = 4096;

/// Knows whether the process that made it still runs, or a child by fork.
#[derive(Debug)]
pub struct ForkGuard {
    page: *mut core::ffi::c_void,
}

// SAFETY: the page is only read after creation, atomically.
unsafe impl Send for ForkGuard {}
// SAFETY: as above.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    /// A guard for the calling process.
    ///
    /// # Errors
    /// Of mmap(2) and madvise(2) (`MADV_WIPEONFORK`, Linux 4.14).
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let page = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let guard = Self { page };
        // SAFETY: the range is exactly our page.
        unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)? };
        guard.word().store(1, Ordering::Relaxed);
        Ok(guard)
    }

    /// Whether this is still the process that made the guard: one load.
    #[must_use]
    #[inline]
    pub fn is_original(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 1
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped, aligned, and lives as long as self.
        unsafe { &*self.page.cast::<AtomicU32>() }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // SAFETY: our own mapping, unmapped once; nothing borrows from it any more.
        let _ = unsafe { munmap(self.page, PAGE_BYTES) };
    }
}
