//! Calls without a safe form: shared pages, inherited descriptors, the cycle counter, resources.
//!
//! The C library is in [`c_library`], message queues are in [`queues`], copies between processes in
//! [`copies`], mappings of files in [`mapping`], epoll in [`epoll`].
//!
//! # Safety
//! All unsafe code of this crate is in this file and in `raw/`. A page is accessed as atomic words
//! only, so the other process can write any value without a data race. A descriptor is taken over
//! once, by the process that inherited it and got its number.
#![allow(unsafe_code)]

pub mod c_library;
pub mod copies;
pub mod epoll;
pub mod mapping;
pub mod queues;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use m3ipc_report::PAGE_BYTES;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// One page shared by two processes, accessed as atomic words only.
pub struct Page {
    base: NonNull<u8>,
}

impl Page {
    /// A new anonymous file of one page, to be inherited and mapped by both sides.
    pub fn create() -> Result<OwnedFd, Error> {
        let fd =
            memfd_create("m3-bench", MemfdFlags::CLOEXEC).map_err(Error::os("memfd_create"))?;
        ftruncate(&fd, PAGE_BYTES as u64).map_err(Error::os("ftruncate of a shared page"))?;
        Ok(fd)
    }

    /// Maps the page with its memory present, so that no fault falls into a measurement.
    pub fn map(fd: &OwnedFd) -> Result<Self, Error> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps no other object.
        // The file is a page long and only this crate has it, so it does not shrink.
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
    /// `index` is out of the page.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < PAGE_BYTES / 8, "word {index} is out of the page");
        // SAFETY: in the page by the check above, aligned as a page is, and as long-lived as
        // `self`. Every process accesses it as atomic words of this size only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index * 8).cast()) }
    }

    /// The 32-bit word at `index` (0 to 1023), for futexes. No 64-bit word in use covers it.
    ///
    /// # Panics
    /// `index` is out of the page.
    pub fn futex(&self, index: usize) -> &AtomicU32 {
        assert!(index < PAGE_BYTES / 4, "word {index} is out of the page");
        // SAFETY: as for `word`; a subject uses each place of the page by words of one size only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(index * 4).cast()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size and not yet unmapped; words borrow `self`, so none
        // outlives it. A failed munmap leaves a page behind until exit, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// Takes over an inherited descriptor by its number.
pub fn inherited(number: RawFd) -> Result<OwnedFd, Error> {
    if number < 0 {
        return Err(Error::Usage(format!("descriptor {number} cannot be inherited")));
    }
    // SAFETY: the number is not -1. The borrow lives for one fcntl, which checks that it is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed).map_err(Error::os("look at an inherited descriptor"))?;
    // SAFETY: open by the check above. The supervisor made it for this process and names it once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(fd.as_fd(), FdFlags::CLOEXEC).map_err(Error::os("mark an inherited descriptor"))?;
    Ok(fd)
}

/// Resources that a process has used since its start.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// User and system time, in nanoseconds.
    pub cpu_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
}

/// The number of files to which a process may raise its limit.
pub fn most_files() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Open files for all measurements. The daemon keeps four for each of 10,000 clients.
const WANTED_FILES: u64 = 1 << 16;

/// Raises the maximum of open files, which child processes inherit. Root may do that.
pub fn raise_most_files() {
    let limit = getrlimit(Resource::Nofile);
    if most_files() < WANTED_FILES {
        // On failure the report names what is left out.
        let raised = Rlimit { current: limit.current, maximum: Some(WANTED_FILES) };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Raises the limit of open files to its maximum.
pub fn raise_fd_limit() {
    let limit = getrlimit(Resource::Nofile);
    // On failure the call that needs more descriptors reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Memory of this process without that of its links, in bytes; 0 without /proc.
///
/// A page of shared memory counts once, however often this process maps it. Links have a figure of
/// their own.
pub fn memory_without_links() -> u64 {
    memory_in(&std::fs::read_to_string("/proc/self/smaps").unwrap_or_default())
}

/// The sum over private mappings, and over the files of shared ones.
///
/// # Source
/// proc_pid_smaps(5): a mapping has a line `range perms offset device inode path`, then
/// `Rss: N kB`.
fn memory_in(smaps: &str) -> u64 {
    let mut private = 0;
    let mut shared: HashMap<(&str, &str), u64> = HashMap::new();
    let (mut file, mut is_link) = (None, false);
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_range, perms, offset, device, inode, ref path @ ..] if device.contains(':') => {
                file = perms.ends_with('s').then_some((inode, offset));
                is_link = path.iter().any(|part| part.contains("m3-link"));
            }
            ["Rss:", kilobytes, "kB"] if !is_link => {
                let kilobytes: u64 = kilobytes.parse().unwrap_or(0);
                match file {
                    Some(file) => {
                        let seen = shared.entry(file).or_default();
                        *seen = kilobytes.max(*seen);
                    }
                    None => private += kilobytes,
                }
            }
            _ => {}
        }
    }
    (private + shared.values().sum::<u64>()) * 1024
}

/// CPU time and voluntary context switches of this process.
///
/// # Source
/// getrusage(2), RUSAGE_SELF.
pub fn usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// The same of all children that have ended and were waited for.
///
/// # Source
/// getrusage(2), RUSAGE_CHILDREN.
pub fn usage_of_children() -> Usage {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn usage_of(whose: libc::c_int) -> Usage {
    // SAFETY: rusage has integers only, for which all zeroes is a value.
    let mut record: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `record` is valid for one rusage. The two values of `whose` are valid, too.
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

/// The cycle counter of the CPU.
#[cfg(target_arch = "x86_64")]
mod counter {
    /// Whether this architecture has a counter that [`ticks`] reads.
    pub const PRESENT: bool = true;

    /// The cycle counter now.
    #[inline(always)]
    pub fn ticks() -> u64 {
        // SAFETY: every x86-64 CPU has rdtsc; it reads a register and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

/// The cycle counter of the CPU.
#[cfg(not(target_arch = "x86_64"))]
mod counter {
    /// Whether this architecture has a counter that [`ticks`] reads.
    pub const PRESENT: bool = false;

    /// No counter: the clock falls back to CLOCK_MONOTONIC.
    pub fn ticks() -> u64 {
        0
    }
}

pub use counter::{PRESENT as COUNTER_PRESENT, ticks};

#[cfg(test)]
mod tests {
    use super::memory_in;

    #[test]
    fn a_shared_page_counts_once_and_a_link_not_at_all() {
        let smaps = "\
7f00-7f01 rw-s 00000000 00:01 77 /memfd:m3-status (deleted)
Rss:                   4 kB
7f02-7f03 r--s 00000000 00:01 77 /memfd:m3-status (deleted)
Rss:                   4 kB
7f04-7f05 rw-s 00000000 00:01 78 /memfd:m3-link (deleted)
Rss:                   4 kB
7f06-7f07 rw-p 00000000 00:00 0
Size:                 16 kB
Rss:                   8 kB
7f08-7f09 r-xp 00000000 fe:00 12 /usr/bin/program
Rss:                  16 kB
";
        assert_eq!(memory_in(smaps), (4 + 8 + 16) * 1024);
    }
}
