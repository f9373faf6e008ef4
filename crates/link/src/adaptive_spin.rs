//! The pace of waiting: when to look again, when to give the CPU away, when to sleep.
//!
//! A wake-up costs more than anything else here, a lost CPU comes second. So
//! an adaptive waiter looks for as long as a wake-up would cost while its peer
//! runs on another CPU, hands the CPU over where both share one, and
//! remembers how long its waits have lasted lately: looking for longer than
//! that would cost more than it saves.

use m3ipc_sys::{monotonic_ns, relax, yield_cpu};

/// How an endpoint waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Look without end; sleep never. For CPUs that have nothing else to do.
    Spin,
    /// Sleep at once.
    Block,
    /// Look while it is likely to pay, then sleep.
    #[default]
    Adaptive,
}

/// What a waiter does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinStep {
    /// Look again (the pause is made).
    Poll,
    /// Sleep until woken.
    Sleep,
}

/// Looks between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 32;
/// How long looking may last at least, where it may pay: a sleep and a wake-up cost so much anywhere.
const LOOK_MIN_NS: u64 = 20_000;
/// How long it may last at most: what they cost on a virtual machine whose other CPU has gone idle.
const LOOK_MAX_NS: u64 = 100_000;
/// How long it may last where waits have been longer than that lately.
const SHORT_LOOK_NS: u64 = 1_000;
/// How often the CPU is handed over before the waiter sleeps.
const YIELDS: u32 = 24;
/// What is taken for the length of a wait that ended before the clock was read.
const BRIEF_NS: u64 = 500;
/// The newest wait counts for one in so many.
const WEIGHT: u64 = 4;

/// The memory of an endpoint's waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveSpin {
    strategy: WaitStrategy,
    /// How long waits last lately.
    typical_ns: u64,
}

impl AdaptiveSpin {
    /// A pace of this strategy.
    #[must_use]
    pub fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, typical_ns: 0 }
    }

    /// The strategy.
    #[must_use]
    pub fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// Begins a wait.
    #[must_use]
    #[inline]
    pub fn begin(&self) -> SpinWait {
        let limit_ns = match 2 * self.typical_ns {
            twice if twice > 2 * LOOK_MAX_NS => SHORT_LOOK_NS,
            twice => twice.clamp(LOOK_MIN_NS, LOOK_MAX_NS),
        };
        SpinWait { strategy: self.strategy, limit_ns, looks: 0, yields: 0, began_ns: 0 }
    }

    /// Remembers how long a wait was.
    #[inline]
    pub fn learn(&mut self, wait: &SpinWait) {
        let waited_ns = match wait.began_ns {
            0 => BRIEF_NS,
            began_ns => monotonic_ns().saturating_sub(began_ns),
        };
        // A long one counts for no more than shows that waits are long: it must be forgotten soon.
        let waited_ns = waited_ns.min(WEIGHT * 4 * LOOK_MAX_NS);
        self.typical_ns = (self.typical_ns * (WEIGHT - 1) + waited_ns) / WEIGHT;
    }
}

/// One wait: how long it has looked, and how long it still may.
#[derive(Clone, Copy, Debug)]
pub struct SpinWait {
    strategy: WaitStrategy,
    limit_ns: u64,
    looks: u32,
    yields: u32,
    began_ns: u64,
}

impl SpinWait {
    /// Pauses and tells what to do next. `same_cpu`: the awaited peer was last
    /// seen on this CPU, so it cannot move while we look.
    #[inline]
    pub fn next(&mut self, same_cpu: bool) -> SpinStep {
        match self.strategy {
            WaitStrategy::Block => return SpinStep::Sleep,
            WaitStrategy::Spin | WaitStrategy::Adaptive => {}
        }
        if same_cpu {
            return self.hand_over();
        }
        relax();
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS_PER_CLOCK) || self.strategy == WaitStrategy::Spin {
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

    /// Gives the CPU to the peer, a few times before sleeping.
    fn hand_over(&mut self) -> SpinStep {
        if self.strategy == WaitStrategy::Adaptive && self.yields >= YIELDS {
            return SpinStep::Sleep;
        }
        self.yields += 1;
        yield_cpu();
        SpinStep::Poll
    }
}
