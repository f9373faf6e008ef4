//! A page that reads zero in a child by fork.
//!
//! The page tells a child from its parent, without a system call for each call of C. The kernel
//! zeroes the page at a fork (MADV_WIPEONFORK, madvise(2)). The state word of the process endpoint
//! lies in it, so the endpoint of the parent counts as absent in the child.
//!
//! # Safety
//! The page is never unmapped, and every bit pattern is a value of [`ForkPage`].
#![allow(unsafe_code)]

use crate::failure::CallResult;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use m3ipc::Code;

const PAGE_BYTES: usize = 4096;

/// The page.
pub(super) struct ForkPage {
    /// The state of the process endpoint: see `process.rs`.
    pub(super) state: AtomicU32,
    /// VM and address of the process endpoint, for readers without a guard.
    pub(super) vm: AtomicI32,
    pub(super) address: AtomicI32,
    /// 1 in a process that has counted its generation, 0 in a child that has not yet.
    counted: AtomicU32,
}

static PAGE: AtomicPtr<ForkPage> = AtomicPtr::new(null_mut());
/// The number of forks that this process and its ancestors have noticed.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The page, if there is one.
#[inline]
pub(super) fn get() -> Option<&'static ForkPage> {
    // Acquire: pairs with the exchange in [`get_or_create`], which publishes the mapping.
    let page = PAGE.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or names a page as in the header of this file.
    unsafe { page.as_ref() }
}

/// The page, which the first call maps.
pub(super) fn get_or_create() -> CallResult<&'static ForkPage> {
    if let Some(page) = get() {
        return Ok(page);
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses replaces no mapping.
    let mapping = unsafe { libc::mmap(null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
    if mapping == libc::MAP_FAILED {
        return Err(Code::NoMem.into());
    }
    // SAFETY: the range is exactly the new mapping.
    let zeroed_at_fork = unsafe { libc::madvise(mapping, PAGE_BYTES, libc::MADV_WIPEONFORK) } == 0;
    // Another thread may have published its page first.
    let published = zeroed_at_fork
        && PAGE
            .compare_exchange(null_mut(), mapping.cast(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
    if !published {
        // SAFETY: the mapping is ours, and no other thread has its address.
        unsafe { libc::munmap(mapping, PAGE_BYTES) };
    }
    get().ok_or_else(|| Code::NoMem.into())
}

/// The fork generation of this process. A child has another generation than its parent.
pub(super) fn generation() -> u32 {
    if let Some(page) = get()
        && page.counted.load(Ordering::Relaxed) == 0
        && page.counted.swap(1, Ordering::Relaxed) == 0
    {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    GENERATION.load(Ordering::Relaxed)
}
