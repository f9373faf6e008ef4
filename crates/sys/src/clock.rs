//! Time: the CPU's counter for stamps, and the monotonic clock for limits.
//!
//! # Safety
//! A counter read touches no memory except a local of the caller.
#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A stamp that rises with time on all CPUs of the machine. The unit is a tick of the CPU's counter
/// on x86-64, else a nanosecond. Only the order and distance of two stamps count.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc has no operands and no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A stamp that rises with time on all CPUs of the machine, in nanoseconds. Miri has no counter.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    monotonic_ns()
}

/// A stamp that waits for all earlier instructions. Two of them enclose the work between them. The
/// unit is that of [`stamp_soon`], not of [`ticks`].
///
/// # Source
/// Intel SDM, RDTSCP: waits for earlier instructions and loads, not for stores.
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn stamp() -> u64 {
    let mut cpu = 0;
    // SAFETY: rdtscp writes the number of the CPU into the local and touches no other memory.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut cpu) }
}

/// A stamp that may be a few instructions early or late. It costs half of [`stamp`].
#[cfg(target_arch = "x86_64")]
#[must_use]
#[inline]
pub fn stamp_soon() -> u64 {
    ticks()
}

/// A stamp that waits for all earlier instructions.
///
/// # Source
/// Arm ARM, CNTVCT_EL0: an ISB prevents an early read.
#[cfg(target_arch = "aarch64")]
#[must_use]
#[inline]
pub fn stamp() -> u64 {
    let ticks: u64;
    // SAFETY: the code reads a register that Linux lets every process read, and no memory.
    unsafe {
        core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem))
    };
    ticks
}

/// A stamp that may be a few instructions early or late.
#[cfg(target_arch = "aarch64")]
#[must_use]
#[inline]
pub fn stamp_soon() -> u64 {
    let ticks: u64;
    // SAFETY: as in `stamp`.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem)) };
    ticks
}

/// A stamp in nanoseconds: this architecture has no supported counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
#[inline]
pub fn stamp() -> u64 {
    monotonic_ns()
}

/// A stamp in nanoseconds, as [`stamp`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
#[inline]
pub fn stamp_soon() -> u64 {
    monotonic_ns()
}

/// The relation between stamps and the monotonic clock, from two readings of both.
///
/// ```
/// use m3ipc_sys::{StampScale, stamp};
///
/// let before = stamp();
/// let scale = StampScale::calibrate(1_000_000);
/// println!("the calibration took {} ns", scale.ns(stamp() - before));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampScale {
    stamp: u64,
    ns: u64,
    /// Nanoseconds per tick, in units of 2^-32.
    factor: u64,
}

impl StampScale {
    /// Compares both clocks over this time, in nanoseconds. 20 ms give five digits.
    #[must_use]
    pub fn calibrate(for_ns: u64) -> Self {
        let (stamp_at, ns_at) = Self::read();
        std::thread::sleep(std::time::Duration::from_nanos(for_ns));
        let (stamp, ns) = Self::read();
        Self { stamp: stamp_at, ns: ns_at, factor: 1 << 32 }.with(stamp, ns)
    }

    /// The same scale over a longer time: from its beginning until now.
    #[must_use]
    pub fn refined(self) -> Self {
        let (stamp, ns) = Self::read();
        self.with(stamp, ns)
    }

    fn with(self, stamp: u64, ns: u64) -> Self {
        let (ticks, ns) = (stamp.saturating_sub(self.stamp), ns.saturating_sub(self.ns));
        let factor = (u128::from(ns) << 32) / u128::from(ticks.max(1));
        let factor = u64::try_from(factor).unwrap_or(u64::MAX).max(1);
        Self { factor, ..self }
    }

    /// Both clocks at one moment: the fastest of a few readings.
    fn read() -> (u64, u64) {
        let tries = (0..8).map(|_| {
            let before = stamp();
            let ns = monotonic_ns();
            let after = stamp();
            (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
        });
        tries.min().map_or((0, 0), |(_, stamp, ns)| (stamp, ns))
    }

    /// The time between two stamps of this many ticks, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.factor as f64 / 4_294_967_296.0
    }

    /// The time of a stamp, in nanoseconds of `CLOCK_MONOTONIC`; 0 if it precedes the clock.
    #[must_use]
    pub fn monotonic_ns(&self, stamp: u64) -> u64 {
        let scaled = |ticks: u64| {
            u64::try_from((u128::from(ticks) * u128::from(self.factor)) >> 32).unwrap_or(u64::MAX)
        };
        match stamp.checked_sub(self.stamp) {
            Some(after) => self.ns.saturating_add(scaled(after)),
            None => self.ns.saturating_sub(scaled(self.stamp - stamp)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no rdtscp")]
    fn stamps_rise_and_scale_to_the_monotonic_clock() {
        let scale = StampScale::calibrate(5_000_000);
        let (before_ns, first) = (monotonic_ns(), stamp());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (second, after_ns) = (stamp(), monotonic_ns());
        assert!(second > first && scale.ns(second - first) >= 4_900_000.0);
        // The slack covers the delay of a reading on a busy machine.
        let slack_ns = 20_000_000;
        let refined = scale.refined();
        assert!(refined.monotonic_ns(first) + slack_ns >= before_ns);
        assert!(refined.monotonic_ns(second) <= after_ns + slack_ns);
    }

    #[test]
    fn a_scale_extends_both_ways_from_its_beginning() {
        let scale = StampScale { stamp: 1_000, ns: 5_000, factor: 1 << 31 };
        assert_eq!(
            [1_000, 1_200, 800].map(|stamp| scale.monotonic_ns(stamp)),
            [5_000, 5_100, 4_900]
        );
        assert_eq!(scale.monotonic_ns(u64::MAX), 5_000 + (u64::MAX - 1_000) / 2);
        assert!((scale.ns(10) - 5.0).abs() < 1e-9);
    }
}
