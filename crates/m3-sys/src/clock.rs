//! Time: the CPU's counter for stamps, the monotonic clock for limits.
//!
//! # Safety
//! Reading the counter touches no memory.
#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A stamp that rises with time on all CPUs of the machine: the unit is the
/// CPU's counter here, a nanosecond elsewhere; only order and distance of two count.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc has no operands and no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A stamp that rises with time on all CPUs of the machine.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    monotonic_ns()
}
