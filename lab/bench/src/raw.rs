//! The few calls that have no safe form: shared pages, inherited descriptors,
//! the cycle counter, resource usage. The message queues are in [`queues`], copies between processes in [`blocks`], epoll in [`ready`].
//!
//! # Safety
//! Everything unsafe of this crate is in this file and in `raw/`.
//! A page is only ever seen as atomic words, so what the other process writes
//! can be any value but never a data race. A descriptor is taken over once,
//! by the process that inherited it and was told its number.
#![allow(unsafe_code)]

pub mod blocks;
pub mod mapping;
pub mod queues;
pub mod ready;

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// Size of a shared page in bytes.
const PAGE_BYTES: usize = 4096;

/// One page shared by two processes, seen as atomic words only.
pub struct Page {
    base: NonNull<u8>,
}

impl Page {
    /// A new anonymous file of one page, to be inherited and mapped by both sides.
    ///
    /// # Errors
    /// Where the kernel has no memory or no descriptor left.
    pub fn create() -> Result<OwnedFd, Error> {
        let fd =
            memfd_create("m3-bench", MemfdFlags::CLOEXEC).map_err(Error::os("memfd_create"))?;
        ftruncate(&fd, PAGE_BYTES as u64).map_err(Error::os("ftruncate of a shared page"))?;
        Ok(fd)
    }

    /// Maps the page and touches it, so that no fault falls into a measurement.
    ///
    /// # Errors
    /// Where the mapping is refused.
    pub fn map(fd: &OwnedFd) -> Result<Self, Error> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours; the file is a
        // page long and only this crate has it, so it does not shrink.
        let base = unsafe {
            mmap(std::ptr::null_mut(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags, fd, 0)
        }
        .map_err(Error::os("mmap of a shared page"))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| Error::Unavailable {
            why: "the kernel mapped a shared page at address 0".into(),
            next: "raise vm.mmap_min_addr",
        })?;
        Ok(Self { base })
    }

    /// The 64-bit word at `index` (0 to 511).
    ///
    /// # Panics
    /// Where `index` is out of the page.
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < PAGE_BYTES / 8, "word {index} is out of the page");
        // SAFETY: in the page by the check above, aligned because a page is, living as long as `self`, and
        // accessed by every process as atomic words of this size only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index * 8).cast()) }
    }

    /// The 32-bit word at `index` (0 to 1023): for futexes, on lines where no 64-bit word is used.
    ///
    /// # Panics
    /// Where `index` is out of the page.
    #[must_use]
    pub fn half(&self, index: usize) -> &AtomicU32 {
        assert!(index < PAGE_BYTES / 4, "half {index} is out of the page");
        // SAFETY: as for `word`; the mechanisms that use halves use no 64-bit words.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(index * 4).cast()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size and not yet unmapped; words borrow `self`, so none outlives it.
        // A failing munmap leaves a page behind until exit, which harms nothing.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// Takes over a descriptor that this process inherited under the number it was told.
///
/// # Errors
/// Where no such descriptor is open.
pub fn inherited(number: RawFd) -> Result<OwnedFd, Error> {
    if number < 0 {
        return Err(Error::Usage(format!("descriptor {number} cannot be inherited")));
    }
    // SAFETY: the number is not -1; the borrow lives for one fcntl, which says whether it is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).map_err(Error::os("look at an inherited descriptor"))?;
    // SAFETY: open, as just checked; the supervisor made it for this process alone and names it once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(fd.as_fd(), FdFlags::CLOEXEC).map_err(Error::os("mark an inherited descriptor"))?;
    Ok(fd)
}

/// What this process has used since its start.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// User and system time, in nanoseconds.
    pub cpu_ns: u64,
    /// Times it gave up the CPU of its own will.
    pub voluntary_switches: u64,
}

/// Lets this process open as many files as it may.
pub fn raise_fd_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, whoever needs more says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Memory that this process occupies now, in bytes; 0 where /proc does not say.
#[must_use]
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// CPU time and voluntary context switches of this process.
///
/// # Source
/// getrusage(2), RUSAGE_SELF.
#[must_use]
pub fn usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// getrusage(2), RUSAGE_CHILDREN: of all that have ended and were waited for.
#[must_use]
pub fn usage_of_children() -> Usage {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(whose: libc::c_int) -> Usage {
    // SAFETY: rusage is integers only, for which all zeroes is a value.
    let mut record: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `record` is a valid place for one rusage; with the two values of `whose` it cannot fail.
    unsafe { libc::getrusage(whose, &raw mut record) };
    let ns = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(time.tv_usec).unwrap_or(0) * 1_000
    };
    Usage {
        cpu_ns: ns(record.ru_utime) + ns(record.ru_stime),
        voluntary_switches: u64::try_from(record.ru_nvcsw).unwrap_or(0),
    }
}

/// The cycle counter of the CPU, and whether this architecture has one we read.
#[cfg(target_arch = "x86_64")]
mod counter {
    /// Whether [`ticks`] counts.
    pub const PRESENT: bool = true;

    /// The cycle counter now.
    #[inline(always)]
    pub fn ticks() -> u64 {
        // SAFETY: every x86-64 CPU has rdtsc; it reads a register and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

/// The cycle counter of the CPU, and whether this architecture has one we read.
#[cfg(not(target_arch = "x86_64"))]
mod counter {
    /// Whether [`ticks`] counts.
    pub const PRESENT: bool = false;

    /// No counter is read here: the clock falls back to CLOCK_MONOTONIC.
    pub fn ticks() -> u64 {
        0
    }
}

pub use counter::{PRESENT as COUNTER_PRESENT, ticks};
