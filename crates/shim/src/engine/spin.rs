//! Looking for what may come soon, before sleeping: never longer than a sleep and a wake-up would cost, and only where it has
//! paid lately.

use crate::count::{self, Count};
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::{monotonic_ns, relax, yield_cpu};

/// The best and the worst that can be thought of looking.
const BEST: u32 = 16;
/// What a look that paid adds.
const GAIN: u32 = 3;
/// Looks between two readings of the clock.
const LOOKS: u32 = 32;
/// Where looking does not pay, every so many-th wait looks all the same.
const PROBE: u32 = 32;
/// Times that the CPU is handed over to a peer that was seen on this one.
const YIELDS: u32 = 24;

/// What one end thinks of looking.
#[derive(Debug)]
pub(super) struct Spin {
    score: AtomicU32,
    waits: AtomicU32,
}

impl Spin {
    /// All zeros, so that a table of them takes no room in the file; [`reset`](Self::reset) before use.
    pub(super) const fn new() -> Self {
        Self { score: AtomicU32::new(0), waits: AtomicU32::new(0) }
    }

    /// As it is at first: looking is tried.
    pub(super) fn reset(&self) {
        self.score.store(BEST / 2, Ordering::Relaxed);
    }

    /// Whether to look this time.
    pub(super) fn pays(&self) -> bool {
        self.score.load(Ordering::Relaxed) > 0
            || self.waits.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE)
    }

    /// Looks until `found`, or for `limit_ns`; whether it was found.
    pub(super) fn look(
        &self,
        limit_ns: u64,
        same_cpu: impl Fn() -> bool,
        found: impl Fn() -> bool,
    ) -> bool {
        let (mut looks, mut yields, mut began_ns) = (0_u32, 0_u32, 0);
        let hit = loop {
            if found() {
                break true;
            }
            if same_cpu() {
                // It cannot move while we look.
                let now_ns = monotonic_ns();
                if began_ns == 0 {
                    began_ns = now_ns;
                }
                if yields >= YIELDS || (yields > 0 && now_ns.saturating_sub(began_ns) >= limit_ns) {
                    break false;
                }
                yields += 1;
                yield_cpu();
                continue;
            }
            relax();
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                continue;
            }
            let now_ns = monotonic_ns();
            if began_ns == 0 {
                began_ns = now_ns;
            }
            if now_ns.saturating_sub(began_ns) >= limit_ns {
                break false;
            }
        };
        self.learn(hit);
        if began_ns != 0 {
            count::add(Count::SpinNs, monotonic_ns().saturating_sub(began_ns));
        }
        hit
    }

    fn learn(&self, hit: bool) {
        let score = self.score.load(Ordering::Relaxed);
        let next = if hit { (score + GAIN).min(BEST) } else { score.saturating_sub(1) };
        self.score.store(next, Ordering::Relaxed);
        count::add(if hit { Count::SpinHits } else { Count::SpinMisses }, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_finds_stops_looking_and_tries_again_now_and_then() {
        let spin = Spin::new();
        spin.reset();
        for _ in 0..BEST {
            assert!(!spin.look(0, || false, || false));
        }
        let tries = (0..PROBE * 3).filter(|_| spin.pays()).count();
        assert!((1..=4).contains(&tries), "{tries}");
        assert!(spin.look(0, || false, || true) && spin.pays());
    }
}
