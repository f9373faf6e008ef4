//! Spinning before a sleep: never for longer than a sleep and a wake-up cost, and only where
//! spinning has paid lately.
//!
//! `m3ipc_link::AdaptiveSpin` does not fit here. It belongs to one endpoint, learns through `&mut
//! self`, and takes its limit from the length of its own waits. A socket is used by several threads
//! and signal handlers at once, and the user's policy sets the limit. What a data call and a wait
//! for many sockets know differs too: the call knows the peer's CPU, the wait does not.

use crate::counters::{self, Counter};
use crate::pressure;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::{monotonic_ns, relax, yield_cpu};

/// The highest score of a [`CallSpin`].
const SCORE_MAX: u32 = 16;
/// Points for a spin that paid.
const GAIN: u32 = 3;
/// Checks between two readings of the clock.
const CHECKS_PER_CLOCK: u32 = 32;
/// With a score of 0, one call in so many spins all the same.
const PROBE: u32 = 32;
/// Yields of the CPU to a peer that was last seen on the same CPU.
const YIELDS: u32 = 24;

/// Spins of this process that found what they waited for.
static HITS: AtomicU32 = AtomicU32::new(0);

/// Spins of this process that found what they waited for, modulo 2^32.
pub fn hits() -> u32 {
    HITS.load(Ordering::Relaxed)
}

fn count(found: bool, took_ns: u64) {
    if found {
        HITS.fetch_add(1, Ordering::Relaxed);
    }
    counters::add(if found { Counter::SpinHits } else { Counter::SpinMisses }, 1);
    if took_ns > 0 {
        counters::add(Counter::SpinNs, took_ns);
    }
}

/// The record of one direction of a socket: whether spinning in its calls pays.
#[derive(Debug)]
pub struct CallSpin {
    score: AtomicU32,
    calls: AtomicU32,
}

impl CallSpin {
    /// All zeros, so that a table of records takes no room in the library's file; call
    /// [`reset`](Self::reset) before use.
    pub const fn new() -> Self {
        Self { score: AtomicU32::new(0), calls: AtomicU32::new(0) }
    }

    /// Forgets the past: the next calls try to spin.
    pub fn reset(&self) {
        self.score.store(SCORE_MAX / 2, Ordering::Relaxed);
    }

    /// Whether the next call should spin.
    pub fn pays(&self) -> bool {
        !pressure::is_on() && self.paid()
    }

    /// The same where no other task wants the CPU.
    fn paid(&self) -> bool {
        self.score.load(Ordering::Relaxed) > 0
            || self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE)
    }

    /// Spins until `found`, or for `limit_ns`; whether it was found. `same_cpu` says that the peer
    /// was last seen on this CPU, where it cannot run while we spin.
    pub fn spin(
        &self,
        limit_ns: u64,
        same_cpu: impl Fn() -> bool,
        found: impl Fn() -> bool,
    ) -> bool {
        let (mut checks, mut yields, mut began_ns, mut last_ns) = (0_u32, 0_u32, 0, 0);
        let mut step = |now_ns: u64| {
            let took_ns = if last_ns == 0 { 0 } else { now_ns.saturating_sub(last_ns) };
            last_ns = now_ns;
            pressure::note_step(took_ns)
        };
        let hit = loop {
            if found() {
                break true;
            }
            if same_cpu() {
                let now_ns = monotonic_ns();
                if began_ns == 0 {
                    began_ns = now_ns;
                }
                if step(now_ns) {
                    break false;
                }
                if yields >= YIELDS || (yields > 0 && now_ns.saturating_sub(began_ns) >= limit_ns) {
                    break false;
                }
                yields += 1;
                yield_cpu();
                continue;
            }
            relax();
            checks += 1;
            if !checks.is_multiple_of(CHECKS_PER_CLOCK) {
                continue;
            }
            let now_ns = monotonic_ns();
            if began_ns == 0 {
                began_ns = now_ns;
                if pressure::sample(now_ns) {
                    break false;
                }
            }
            if step(now_ns) || now_ns.saturating_sub(began_ns) >= limit_ns {
                break false;
            }
        };
        let score = self.score.load(Ordering::Relaxed);
        let next = if hit { (score + GAIN).min(SCORE_MAX) } else { score.saturating_sub(1) };
        self.score.store(next, Ordering::Relaxed);
        count(hit, if began_ns == 0 { 0 } else { monotonic_ns().saturating_sub(began_ns) });
        hit
    }
}

/// Nanoseconds in which an answer on its way arrives: the wait checks without rest meanwhile.
const SOON_NS: u64 = 2_000;
/// Pauses of the CPU between two checks after that.
const RESTS: u32 = 8;
/// Fruitless spins in a row, after which most waits skip the spin: the gaps double,
const FRUITLESS_MAX: u32 = 4;
/// and one wait in so many spins in any case.
const RETRY: u32 = 1024;

/// A yield that takes so long gave the CPU to another task: that task wants it, and a sleep costs
/// less than to compete for it.
const YIELDED_NS: u64 = 4_000;

/// Spins that a wait tries after a connection returned to its ring.
const RETRIES: u32 = 2;
/// Connections that returned to their rings.
static RETURNS: AtomicU32 = AtomicU32::new(0);

/// Notes that a connection returns to its ring: while it rested, no spin could pay.
pub fn note_return() {
    RETURNS.fetch_add(1, Ordering::Relaxed);
}

/// The record of an epoll set, or of poll and select: whether spinning before their waits pays.
#[derive(Debug)]
pub struct WaitSpin {
    fruitless: AtomicU32,
    /// [`RETURNS`], as far as this record knows.
    returns: AtomicU32,
}

impl WaitSpin {
    /// A record without a past.
    pub const fn new() -> Self {
        Self { fruitless: AtomicU32::new(0), returns: AtomicU32::new(0) }
    }

    /// Whether the next wait should spin.
    pub fn pays(&self) -> bool {
        !pressure::is_on() && self.paid()
    }

    /// The same where no other task wants the CPU.
    fn paid(&self) -> bool {
        let returns = RETURNS.load(Ordering::Relaxed);
        if self.returns.load(Ordering::Relaxed) != returns {
            self.returns.store(returns, Ordering::Relaxed);
            self.fruitless.fetch_min(FRUITLESS_MAX - RETRIES, Ordering::Relaxed);
        }
        let fruitless = self.fruitless.load(Ordering::Relaxed);
        if fruitless < FRUITLESS_MAX {
            return true;
        }
        let next = fruitless.wrapping_add(1).max(FRUITLESS_MAX);
        self.fruitless.store(next, Ordering::Relaxed);
        fruitless.is_power_of_two() || fruitless.is_multiple_of(RETRY)
    }

    /// Spins until `found`, or for `limit_ns`; whether it was found.
    pub fn spin(&self, limit_ns: u64, found: impl Fn() -> bool) -> bool {
        let start_ns = monotonic_ns();
        if pressure::sample(start_ns) {
            found()
        } else {
            self.spin_since(start_ns, limit_ns, found)
        }
    }

    fn spin_since(&self, start_ns: u64, limit_ns: u64, found: impl Fn() -> bool) -> bool {
        let mut took_ns = 0;
        let hit = loop {
            // The other CPU may be a thread of the same core: rests leave most of the core to it.
            let rests = if took_ns < SOON_NS { 1 } else { RESTS };
            let hit = (0..64 / rests).any(|_check| {
                (0..rests).for_each(|_rest| relax());
                found()
            });
            let before_ns = took_ns;
            took_ns = monotonic_ns().saturating_sub(start_ns);
            if pressure::note_step(took_ns - before_ns) || hit || took_ns >= limit_ns {
                break hit;
            }
            // The peer may wait for this very CPU. The yield costs little where no thread waits.
            yield_cpu();
            let before_ns = took_ns;
            took_ns = monotonic_ns().saturating_sub(start_ns);
            if took_ns - before_ns >= YIELDED_NS {
                pressure::note_step(took_ns - before_ns);
                break found();
            }
        };
        if hit {
            self.fruitless.store(0, Ordering::Relaxed);
        } else {
            self.fruitless.fetch_add(1, Ordering::Relaxed);
        }
        count(hit, took_ns);
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_finds_stops_spinning_and_probes_now_and_then() {
        let spin = CallSpin::new();
        spin.reset();
        for _ in 0..SCORE_MAX {
            assert!(!spin.spin(0, || false, || false));
        }
        let probes = (0..PROBE * 3).filter(|_| spin.paid()).count();
        assert!((1..=4).contains(&probes), "{probes}");
        assert!(spin.spin(0, || false, || true) && spin.paid());
    }

    #[test]
    fn a_wait_that_never_finds_spins_at_doubling_gaps() {
        let spin = WaitSpin::new();
        for _ in 0..FRUITLESS_MAX {
            assert!(spin.paid() && !spin.spin_since(monotonic_ns(), 0, || false));
        }
        let tries = (0..1000).filter(|_| spin.paid()).count();
        assert!((4..=10).contains(&tries), "{tries}");
        assert!(spin.spin_since(monotonic_ns(), 0, || true) && spin.paid());
    }
}
