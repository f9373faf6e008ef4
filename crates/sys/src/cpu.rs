//! Where a thread runs, and giving the CPU away.
//!
//! # Safety
//! `sched_getcpu` takes no pointer; the scheduler's calls get a structure of our own with its size.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};

/// The CPU this thread runs on (a load from the rseq area with glibc 2.35 and later).
///
/// # Source
/// sched_getcpu(3)
#[must_use]
#[inline]
pub fn current_cpu() -> u32 {
    // SAFETY: no argument; on failure it returns -1, which maps to a CPU that does not exist.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// `INVAL` where the CPU does not exist or is not allowed.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Asks the scheduler for short turns of this length in nanoseconds (100,000 at least), and so
/// for early ones: a thread that does little now and then need not wait until a busy one's turn ends.
/// Older kernels ignore it.
///
/// # Errors
/// Of sched_setattr(2).
///
/// # Source
/// sched_setattr(2), Linux 6.12 (slices of SCHED_OTHER)
pub fn request_time_slice(turn_ns: u64) -> Result<(), Errno> {
    let bytes = u32::try_from(size_of::<libc::sched_attr>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: plain integers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes at most `bytes` into the structure; 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if got != 0 {
        return Err(last_error());
    }
    attributes.sched_runtime = turn_ns;
    // SAFETY: the kernel reads `size` bytes of the structure, which it has just filled.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if set == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Tells the CPU that this is a spin loop.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Lets another runnable thread of this CPU run first.
#[inline]
pub fn yield_cpu() {
    sched_yield();
}
