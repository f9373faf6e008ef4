//! The adaptive spin: when a waiter polls again, yields the CPU, or sleeps.
//!
//! A wake-up is the most expensive step; a lost CPU is the second. So an adaptive waiter spins for
//! as long as a wake-up would cost, while its peer runs on another CPU. If both share a CPU, the
//! waiter yields. It remembers the length of its last waits: a longer spin would cost more than it
//! saves.

use m3ipc_sys::{monotonic_ns, relax, yield_cpu};

/// How an endpoint waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spin without end and never sleep. For CPUs without other work.
    Spin,
    /// Sleep at once. If the peer was last seen on the same CPU, yield the CPU to it once before,
    /// unless that was in vain lately.
    Block,
    /// Spin while it is likely to pay, then sleep.
    #[default]
    Adaptive,
}

/// The next step of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinStep {
    /// Poll again. The pause has been made.
    Poll,
    /// Sleep until a wake-up.
    Sleep,
}

/// Polls between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 32;
/// Shortest limit of a spin that may pay, in nanoseconds: the least cost of a sleep and a wake-up.
const SPIN_MIN_NS: u64 = 20_000;
/// Longest limit of a spin, in nanoseconds: the cost of a sleep and a wake-up on a virtual machine
/// whose other CPU has gone idle.
const SPIN_MAX_NS: u64 = 100_000;
/// Limit of a spin after longer waits, in nanoseconds.
const SHORT_SPIN_NS: u64 = 1_000;
/// Polls in the first part of a wait: about 2 microseconds.
const FAST_POLLS: u32 = 64;
/// Yields in the first part of a wait for a peer on the same CPU.
const FAST_YIELDS: u32 = 8;
/// Yields before a sleep.
const YIELDS: u32 = 24;
/// Waits of an endpoint that blocks which sleep without a yield, after a yield in vain.
const WAITS_WITHOUT_YIELD: u8 = 15;
/// Assumed length of a wait that ended before the first reading of the clock, in nanoseconds.
const BRIEF_NS: u64 = 500;
/// The newest wait has this fraction of the weight.
const WEIGHT: u64 = 4;

/// The strategy of an endpoint, and the typical length of its waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveSpin {
    strategy: WaitStrategy,
    /// Typical length of the last waits.
    typical_ns: u64,
    /// The next waits of an endpoint that blocks which sleep without a yield.
    waits_without_yield: u8,
}

impl AdaptiveSpin {
    /// A spin of this strategy, without history.
    #[must_use]
    pub fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, typical_ns: 0, waits_without_yield: 0 }
    }

    /// The strategy.
    #[must_use]
    pub fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// Begins a wait.
    ///
    /// An endpoint that blocks yields once to a peer on its CPU: the peer then gets the CPU without
    /// a wake-up, and finds this endpoint awake. A peer that wakes a sleeper may lose the CPU to it
    /// before the peer itself can sleep or answer.
    #[must_use]
    #[inline]
    pub fn begin(&mut self) -> SpinWait {
        let limit_ns = match 2 * self.typical_ns {
            twice if twice > 2 * SPIN_MAX_NS => SHORT_SPIN_NS,
            twice => twice.clamp(SPIN_MIN_NS, SPIN_MAX_NS),
        };
        let may_yield = self.may_yield();
        SpinWait {
            strategy: self.strategy,
            limit_ns,
            polls: 0,
            yields: 0,
            began_ns: 0,
            may_yield,
            slept: false,
        }
    }

    /// Begins the first part of a wait, which reads no clock. A wait `with_yields` may give the CPU
    /// away, for as long as the scheduler wants. `None` if this wait has no such part.
    #[must_use]
    #[inline]
    pub fn begin_fast(&mut self, same_cpu: bool, with_yields: bool) -> Option<FastSpin> {
        if same_cpu && !with_yields {
            return None;
        }
        if self.strategy == WaitStrategy::Block {
            let yields = same_cpu && self.may_yield();
            return yields.then_some(FastSpin { pauses_left: 1, same_cpu });
        }
        let pauses_left = if same_cpu { FAST_YIELDS } else { FAST_POLLS };
        Some(FastSpin { pauses_left, same_cpu })
    }

    /// Whether a wait that blocks may yield before it sleeps. Counts the wait.
    fn may_yield(&mut self) -> bool {
        let left = self.waits_without_yield;
        self.waits_without_yield = left.saturating_sub(1);
        left == 0
    }

    /// Records a wait whose first part found nothing.
    #[inline]
    pub fn learn_vain(&mut self) {
        if self.strategy == WaitStrategy::Block {
            self.waits_without_yield = WAITS_WITHOUT_YIELD;
        }
    }

    /// Records a wait that ended in its first part.
    #[inline]
    pub fn learn_brief(&mut self) {
        // Below this the typical length decides nothing.
        if 2 * self.typical_ns > SPIN_MIN_NS {
            self.typical_ns = (self.typical_ns * (WEIGHT - 1) + BRIEF_NS) / WEIGHT;
        }
    }

    /// Records the length of a wait.
    #[inline]
    pub fn learn(&mut self, wait: &SpinWait) {
        if wait.yields > 0 && wait.slept {
            self.learn_vain();
        }
        let waited_ns = match wait.began_ns {
            0 => BRIEF_NS,
            began_ns => monotonic_ns().saturating_sub(began_ns),
        };
        // The cap lets the history forget one long wait soon.
        let waited_ns = waited_ns.min(WEIGHT * 4 * SPIN_MAX_NS);
        self.typical_ns = (self.typical_ns * (WEIGHT - 1) + waited_ns) / WEIGHT;
    }
}

/// The first part of a wait: some polls without a reading of the clock.
#[derive(Clone, Copy, Debug)]
pub struct FastSpin {
    pauses_left: u32,
    same_cpu: bool,
}

impl FastSpin {
    /// Whether this wait is for a peer on the same CPU.
    #[must_use]
    #[inline]
    pub fn shares_cpu(&self) -> bool {
        self.same_cpu
    }

    /// Pauses before the next poll. `false` if this part of the wait is over.
    #[inline]
    pub fn pause(&mut self) -> bool {
        let Some(left) = self.pauses_left.checked_sub(1) else { return false };
        self.pauses_left = left;
        if self.same_cpu {
            yield_cpu();
        } else {
            relax();
        }
        true
    }
}

/// The spin of one wait.
#[derive(Clone, Copy, Debug)]
pub struct SpinWait {
    strategy: WaitStrategy,
    limit_ns: u64,
    polls: u32,
    yields: u32,
    began_ns: u64,
    /// Whether a wait that blocks may yield to a peer on the same CPU.
    may_yield: bool,
    /// Whether the wait has gone to sleep.
    slept: bool,
}

impl SpinWait {
    /// Pauses, and returns the next step. `same_cpu`: the awaited peer last ran on this CPU, so it
    /// cannot run while this thread spins.
    #[inline]
    pub fn next(&mut self, same_cpu: bool) -> SpinStep {
        match self.strategy {
            WaitStrategy::Block if same_cpu && self.may_yield && self.yields == 0 => {
                self.yields = 1;
                yield_cpu();
                return SpinStep::Poll;
            }
            WaitStrategy::Block => {
                self.slept = true;
                return SpinStep::Sleep;
            }
            WaitStrategy::Spin | WaitStrategy::Adaptive => {}
        }
        if same_cpu {
            return self.yield_or_sleep();
        }
        relax();
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_CLOCK) || self.strategy == WaitStrategy::Spin {
            return SpinStep::Poll;
        }
        let now_ns = monotonic_ns();
        if self.began_ns == 0 {
            self.began_ns = now_ns;
        }
        if now_ns.saturating_sub(self.began_ns) < self.limit_ns {
            SpinStep::Poll
        } else {
            SpinStep::Sleep
        }
    }

    /// Yields the CPU to the peer, a few times before a sleep.
    fn yield_or_sleep(&mut self) -> SpinStep {
        if self.strategy == WaitStrategy::Adaptive && self.yields >= YIELDS {
            return SpinStep::Sleep;
        }
        self.yields += 1;
        yield_cpu();
        SpinStep::Poll
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_decides_about_sleep() {
        let sleeps = |strategy, same_cpu: bool| {
            let mut wait = AdaptiveSpin::new(strategy).begin();
            (0..10_000_000_u32).any(|_| wait.next(same_cpu) == SpinStep::Sleep)
        };
        assert!(sleeps(WaitStrategy::Block, false) && sleeps(WaitStrategy::Block, true));
        assert!(sleeps(WaitStrategy::Adaptive, false) && sleeps(WaitStrategy::Adaptive, true));
        let mut wait = AdaptiveSpin::new(WaitStrategy::Block).begin();
        assert_eq!([true, true].map(|same| wait.next(same)), [SpinStep::Poll, SpinStep::Sleep]);
        let mut wait = AdaptiveSpin::new(WaitStrategy::Block).begin();
        assert_eq!(wait.next(false), SpinStep::Sleep);
        let mut wait = AdaptiveSpin::new(WaitStrategy::Spin).begin();
        assert!((0..1_000).all(|_| wait.next(false) == SpinStep::Poll));
        assert!((0..100).all(|_| wait.next(true) == SpinStep::Poll));
    }

    #[test]
    fn a_yield_in_vain_spares_the_next_ones() {
        let mut spin = AdaptiveSpin::new(WaitStrategy::Block);
        assert!(spin.begin_fast(false, true).is_none() && spin.begin_fast(true, false).is_none());
        assert!(spin.begin_fast(true, true).is_some_and(|mut fast| fast.pause() && !fast.pause()));
        let mut wait = spin.begin();
        assert_eq!([true, true].map(|same| wait.next(same)), [SpinStep::Poll, SpinStep::Sleep]);
        spin.learn(&wait);
        let spared = (0..100).take_while(|_| spin.begin_fast(true, true).is_none()).count();
        assert_eq!(spared, usize::from(WAITS_WITHOUT_YIELD));
        spin.learn_vain();
        assert_eq!(spin.begin().next(true), SpinStep::Sleep);
        let mut other = AdaptiveSpin::new(WaitStrategy::Adaptive);
        other.learn_vain();
        assert!(other.begin_fast(true, true).is_some());
    }

    #[test]
    fn long_waits_shorten_the_next_spin() {
        let mut spin = AdaptiveSpin::new(WaitStrategy::Adaptive);
        assert_eq!(spin.begin().limit_ns, SPIN_MIN_NS);
        let long = SpinWait { began_ns: 1, ..spin.begin() };
        spin.learn(&long);
        assert_eq!(spin.begin().limit_ns, SHORT_SPIN_NS);
        (0..20).for_each(|_| spin.learn(&SpinWait { began_ns: 0, ..long }));
        assert_eq!(spin.begin().limit_ns, SPIN_MIN_NS, "short waits make the history forget");
    }
}
