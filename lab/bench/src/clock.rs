//! Time: the cycle counter where the kernel trusts it, CLOCK_MONOTONIC elsewhere.
//!
//! The counter is trusted where the kernel itself keeps time by it. The supervisor calibrates it
//! once; all measured processes use that factor.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::raw;

/// How ticks become nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Clock {
    /// The cycle counter: nanoseconds = ticks * factor / 2^32.
    Counter {
        /// The factor, in 2^-32 ns per tick.
        factor: u64,
    },
    /// CLOCK_MONOTONIC: a tick is a nanosecond.
    Monotonic,
}

impl Clock {
    /// The best clock of this machine. A calibration takes 20 ms.
    pub fn calibrate() -> Self {
        let source = std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
        if !raw::COUNTER_PRESENT || source.is_ok_and(|name| name.trim() != "tsc") {
            return Self::Monotonic;
        }
        let (ticks, ns) = (raw::ticks(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (ticks, ns) = (raw::ticks().saturating_sub(ticks), monotonic_ns() - ns);
        match u64::try_from((u128::from(ns) << 32) / u128::from(ticks.max(1))) {
            Ok(factor) if factor > 0 && ticks > 1_000 => Self::Counter { factor },
            _ => Self::Monotonic,
        }
    }

    /// The ticks now.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            Self::Counter { .. } => raw::ticks(),
            Self::Monotonic => monotonic_ns(),
        }
    }

    /// Ticks as nanoseconds.
    #[inline]
    pub fn ns(self, ticks: u64) -> u64 {
        match self {
            Self::Counter { factor } => {
                u64::try_from((u128::from(ticks) * u128::from(factor)) >> 32).unwrap_or(u64::MAX)
            }
            Self::Monotonic => ticks,
        }
    }

    /// The cost of one clock read in a sample, in nanoseconds: the median of many.
    pub fn cost_ns(self) -> u64 {
        let mut samples = Vec::with_capacity(1_001);
        let mut last = self.now();
        for _ in 0..1_001 {
            let now = self.now();
            samples.push(now.wrapping_sub(last));
            last = now;
        }
        samples.sort_unstable();
        self.ns(samples[500])
    }
}

/// CLOCK_MONOTONIC in nanoseconds: the same in every process of the machine.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// CPU time of this process in nanoseconds.
pub fn cpu_ns() -> u64 {
    read_ns(ClockId::ProcessCPUTime)
}

fn read_ns(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_factor_scales() {
        let clock = Clock::Counter { factor: 1 << 31 };
        assert_eq!(clock.ns(2_000), 1_000);
        assert_eq!(Clock::Monotonic.ns(7), 7);
    }

    #[test]
    fn the_clock_goes_forward() {
        let clock = Clock::calibrate();
        let start = clock.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(clock.ns(clock.now() - start) >= 1_000_000);
    }
}
