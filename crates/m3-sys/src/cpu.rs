//! Where a thread runs, and giving the CPU away.
//!
//! # Safety
//! `sched_getcpu` takes no pointer.
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
