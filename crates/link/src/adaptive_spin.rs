//! The adaptive spin: when a waiter polls again, yields the CPU, or sleeps.
//!
//! A wake-up is the most expensive step; a lost CPU is the second. So an adaptive waiter spins for
//! as long as a wake-up would cost, while its peer runs on another CPU. If both share a CPU, the
//! waiter yields. It remembers the length of its last waits: a longer spin would cost more than it
//! saves.
//!
//! Where the CPUs are scarce ([`Demand`]), a spin must save CPU time and not only time. A waiter
//! then polls for about the cost of a sleep, as long as that finds its message, and else sleeps at
//! once.

use crate::demand::{Demand, System};
use m3ipc_sys::{monotonic_ns, relax, ticks, yield_cpu};

/// How an endpoint waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spin without end and never sleep. For CPUs without other work.
    Spin,
    /// Sleep at once. If the peer was last seen on the same CPU, yield the CPU to it once before,
    /// unless that was in vain lately.
    Block,
    /// Spin while it is likely to pay, then sleep. If other tasks want the CPUs, or the process has
    /// a limit of CPU time, it costs about as much CPU time as `Block`.
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
/// The fewest yields before a sleep of a wait for a peer behind others. On a CPU that others want,
/// a yield costs about a microsecond of this thread's own time, however long they have the CPU; all
/// of these cost less than a sleep and a wake-up.
const FAR_YIELDS: u32 = 16;
/// The longest time of these yields, in nanoseconds: a time limit is looked at after them.
const FAR_YIELDS_NS: u64 = 2_000_000;
/// Waits of an endpoint that blocks which sleep without a yield, after a yield in vain.
const WAITS_WITHOUT_YIELD: u16 = 15;
/// The most waits that sleep without a yield, after slow yields.
const WAITS_WITHOUT_YIELD_MAX: u16 = (1 << 15) - 1;
/// A yield that takes longer gave the CPU to a third thread, for a slice of the scheduler. In
/// [`ticks`]: 0.4 to 2 ms on x86-64.
const SLOW_YIELD_TICKS: u32 = 2_000_000;
/// A quick yield takes one part in 2^6 of the waits after the next slow one.
const FORGET_SHIFT: u32 = 6;
/// Assumed length of a wait that ended before the first reading of the clock, in nanoseconds.
const BRIEF_NS: u64 = 500;
/// The newest wait has this fraction of the weight.
const WEIGHT: u64 = 4;

/// What this process knows of the demand for its CPUs.
static DEMAND: Demand = Demand::new();

/// The system, read by the thread itself.
struct Direct;

impl System for Direct {
    fn running_tasks() -> Option<u32> {
        m3ipc_sys::running_tasks()
    }

    fn usable_cpus() -> Option<u32> {
        m3ipc_sys::usable_cpus()
    }

    fn online_cpus() -> Option<u32> {
        m3ipc_sys::online_cpus()
    }

    fn has_quota() -> bool {
        m3ipc_sys::has_cpu_quota()
    }
}

/// The strategy of an endpoint, and the typical length of its waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveSpin {
    strategy: WaitStrategy,
    /// Typical length of the last waits.
    typical_ns: u64,
    /// The next waits that sleep without a yield.
    waits_without_yield: u16,
    /// The waits without a yield after the next slow yield. Each slow yield in a row doubles them.
    waits_after_slow: u16,
    /// The waits without polls after the next ones in vain where CPUs are scarce.
    waits_after_vain: u16,
    /// Whether the last wait was for a peer behind others: no answer comes within its first part.
    is_far: bool,
}

impl AdaptiveSpin {
    /// A spin of this strategy, without history.
    #[must_use]
    pub fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, ..Self::default() }
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
        self.begin_if(DEMAND.is_on::<Direct>())
    }

    fn begin_if(&mut self, is_scarce: bool) -> SpinWait {
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
            looked_ns: 0,
            is_scarce,
            may_yield,
            is_slow: false,
            is_far: false,
            slept: false,
        }
    }

    /// Begins the first part of a wait, which reads no clock. For a peer on the same CPU it gives
    /// the CPU away, for as long as the scheduler wants. `None` if this wait has no such part.
    #[must_use]
    #[inline(always)]
    pub fn begin_fast(&mut self, same_cpu: bool) -> Option<FastSpin> {
        self.begin_fast_if(same_cpu, DEMAND.is_on::<Direct>())
    }

    #[inline(always)]
    fn begin_fast_if(&mut self, same_cpu: bool, is_scarce: bool) -> Option<FastSpin> {
        // For this wait alone: the next peer may be near, and its answer come at once.
        if core::mem::take(&mut self.is_far) {
            return None;
        }
        let blocks = self.strategy == WaitStrategy::Block;
        let is_scarce = is_scarce && self.strategy == WaitStrategy::Adaptive;
        let has_first_part = if same_cpu || is_scarce { self.may_yield() } else { !blocks };
        let pauses = match (same_cpu, blocks) {
            (false, _) => FAST_POLLS,
            (true, false) => FAST_YIELDS,
            (true, true) => 1,
        };
        has_first_part.then_some(FastSpin { left: pauses, same_cpu, is_scarce, is_slow: false })
    }

    /// Whether a wait may yield before it sleeps. Counts the wait.
    #[inline(always)]
    fn may_yield(&mut self) -> bool {
        match self.waits_without_yield.checked_sub(1) {
            None => return true,
            Some(left) => self.waits_without_yield = left,
        }
        false
    }

    /// Records the end of the first part of a wait.
    #[inline(always)]
    pub fn learn_fast(&mut self, spin: &FastSpin, has_found: bool) {
        if spin.is_slow {
            self.learn_slow();
        } else if has_found {
            self.learn_brief(spin.same_cpu);
            if spin.is_scarce {
                self.waits_after_vain = 0;
            }
        } else {
            self.learn_vain(spin.is_scarce);
        }
    }

    /// Records a yield that gave the CPU to a third thread. The next waits sleep without one: twice
    /// as many after each such yield in a row.
    #[cold]
    fn learn_slow(&mut self) {
        if self.strategy != WaitStrategy::Spin {
            self.waits_without_yield = self.waits_after_slow.max(WAITS_WITHOUT_YIELD);
            let twice = 2 * self.waits_without_yield + 1;
            self.waits_after_slow = twice.min(WAITS_WITHOUT_YIELD_MAX);
        }
    }

    /// Records a yield to the peer. Beside a third thread that wants the CPU some yields are quick,
    /// so slow ones are forgotten slowly.
    #[inline(always)]
    fn learn_quick(&mut self) {
        if self.waits_after_slow >> FORGET_SHIFT != 0 {
            self.waits_after_slow -= self.waits_after_slow >> FORGET_SHIFT;
        }
    }

    /// Records yields in vain. Where CPUs are scarce, polls in vain count too, and each in a row
    /// doubles the next waits without them.
    fn learn_vain(&mut self, is_scarce: bool) {
        if self.strategy == WaitStrategy::Block {
            self.waits_without_yield = WAITS_WITHOUT_YIELD;
        } else if is_scarce {
            self.waits_without_yield = self.waits_without_yield.max(self.waits_after_vain);
            self.waits_after_vain = (2 * self.waits_after_vain + 1).min(2 * WAITS_WITHOUT_YIELD);
        }
    }

    /// Records a wait that ended in its first part.
    #[inline(always)]
    fn learn_brief(&mut self, by_yields: bool) {
        if by_yields {
            self.learn_quick();
        }
        // Below this the typical length decides nothing.
        if 2 * self.typical_ns > SPIN_MIN_NS {
            self.typical_ns = (self.typical_ns * (WEIGHT - 1) + BRIEF_NS) / WEIGHT;
        }
    }

    /// Records the length of a wait.
    #[inline]
    pub fn learn(&mut self, wait: &SpinWait) {
        self.is_far = wait.is_far;
        match (wait.is_slow, wait.yields, wait.slept) {
            (true, ..) => self.learn_slow(),
            (false, 0, _) => {}
            (false, _, true) => self.learn_vain(wait.is_scarce),
            (false, _, false) => self.learn_quick(),
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

/// The first part of a wait: pauses without a reading of the clock.
#[derive(Clone, Copy, Debug)]
pub struct FastSpin {
    left: u32,
    same_cpu: bool,
    /// Whether the wait must save CPU time.
    is_scarce: bool,
    /// Whether a yield gave the CPU to a third thread.
    is_slow: bool,
}

/// Yields the CPU. `true` if a third thread had it for a slice of the scheduler. The lower half of
/// the ticks tells that: it takes a second to come round.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // the lower half alone
fn yields_slowly() -> bool {
    let low = || ticks() as u32;
    let before = low();
    yield_cpu();
    low().wrapping_sub(before) > SLOW_YIELD_TICKS
}

impl FastSpin {
    /// Pauses before the next poll. `false` if this part of the wait is over.
    #[inline(always)]
    pub fn pause(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        if !self.same_cpu {
            relax();
        } else if yields_slowly() {
            (self.is_slow, self.left) = (true, 0);
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
    /// The last reading of the clock.
    looked_ns: u64,
    /// Whether the wait must save CPU time.
    is_scarce: bool,
    /// Whether the wait may yield to a peer on the same CPU before it sleeps.
    may_yield: bool,
    /// Whether a yield gave the CPU to a third thread.
    is_slow: bool,
    /// Whether the wait is for a peer behind others.
    is_far: bool,
    /// Whether the wait has gone to sleep.
    slept: bool,
}

impl SpinWait {
    /// Pauses, and returns the next step. `same_cpu`: the awaited peer last ran on this CPU, so it
    /// cannot run while this thread spins.
    #[inline]
    pub fn next(&mut self, same_cpu: bool) -> SpinStep {
        match self.strategy() {
            WaitStrategy::Block if same_cpu && self.may_yield && self.yields == 0 => {
                self.yields = 1;
                self.is_slow = yields_slowly();
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
            self.is_scarce = DEMAND.sample::<Direct>(now_ns);
        } else {
            self.is_scarce = DEMAND.note_step::<Direct>(now_ns.saturating_sub(self.looked_ns));
        }
        self.looked_ns = now_ns;
        let goes_on = !self.is_scarce && now_ns.saturating_sub(self.began_ns) < self.limit_ns;
        if goes_on { SpinStep::Poll } else { SpinStep::Sleep }
    }

    /// The strategy of this wait: without a CPU to spare, an adaptive one blocks.
    #[inline]
    fn strategy(&self) -> WaitStrategy {
        match self.strategy {
            WaitStrategy::Adaptive if self.is_scarce => WaitStrategy::Block,
            strategy => strategy,
        }
    }

    /// The same for a peer behind other processes of this node, which need a CPU meanwhile: the
    /// wait polls for as long as a spin would, and gives the CPU away between two polls. Among many
    /// such waiters the time belongs to others, so a wait yields some times in any case, unless the
    /// process has a limit of CPU time.
    pub fn next_behind_others(&mut self) -> SpinStep {
        self.is_far = true;
        if self.strategy == WaitStrategy::Block {
            self.slept = true;
            return SpinStep::Sleep;
        }
        let now_ns = monotonic_ns();
        if self.began_ns == 0 {
            self.began_ns = now_ns;
            if self.strategy == WaitStrategy::Adaptive {
                DEMAND.sample::<Direct>(now_ns);
            }
        }
        self.polls = self.polls.wrapping_add(1);
        let waited_ns = now_ns.saturating_sub(self.began_ns);
        let is_over = self.is_slow
            || DEMAND.has_quota()
            || waited_ns >= self.limit_ns
                && (self.polls > FAR_YIELDS || waited_ns >= FAR_YIELDS_NS);
        if is_over && self.strategy == WaitStrategy::Adaptive {
            self.slept = true;
            return SpinStep::Sleep;
        }
        self.is_slow |= yields_slowly();
        SpinStep::Poll
    }

    /// Yields the CPU to the peer, a few times before a sleep.
    fn yield_or_sleep(&mut self) -> SpinStep {
        let may_sleep = self.strategy == WaitStrategy::Adaptive;
        if may_sleep && (self.yields >= YIELDS || self.is_slow || !self.may_yield) {
            self.slept = true;
            return SpinStep::Sleep;
        }
        self.yields += 1;
        self.is_slow |= yields_slowly();
        SpinStep::Poll
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_decides_about_sleep() {
        let sleeps = |strategy, same_cpu: bool| {
            let mut wait = AdaptiveSpin::new(strategy).begin_if(false);
            (0..10_000_000_u32).any(|_| wait.next(same_cpu) == SpinStep::Sleep)
        };
        assert!(sleeps(WaitStrategy::Block, false) && sleeps(WaitStrategy::Block, true));
        assert!(sleeps(WaitStrategy::Adaptive, false) && sleeps(WaitStrategy::Adaptive, true));
        let mut wait = AdaptiveSpin::new(WaitStrategy::Block).begin_if(false);
        assert_eq!([true, true].map(|same| wait.next(same)), [SpinStep::Poll, SpinStep::Sleep]);
        let mut wait = AdaptiveSpin::new(WaitStrategy::Block).begin_if(false);
        assert_eq!(wait.next(false), SpinStep::Sleep);
        let behind = |strategy| {
            let mut wait = AdaptiveSpin::new(strategy).begin_if(false);
            (0..100_000_u32).position(|_| wait.next_behind_others() == SpinStep::Sleep)
        };
        assert_eq!([WaitStrategy::Block, WaitStrategy::Spin].map(behind), [Some(0), None]);
        assert!(behind(WaitStrategy::Adaptive).is_some_and(|polls| polls > 0));
        let mut wait = AdaptiveSpin::new(WaitStrategy::Spin).begin_if(false);
        assert!((0..1_000).all(|_| wait.next(false) == SpinStep::Poll));
        assert!((0..100).all(|_| wait.next(true) == SpinStep::Poll));
    }

    #[test]
    fn a_wait_behind_others_has_no_first_part_and_yields_before_it_sleeps() {
        for strategy in [WaitStrategy::Adaptive, WaitStrategy::Spin] {
            let mut spin = AdaptiveSpin::new(strategy);
            let long = SpinWait { began_ns: 1, ..spin.begin_if(false) };
            (0..20).for_each(|_| spin.learn(&long));
            let mut wait = spin.begin_if(false);
            assert_eq!(wait.limit_ns, SHORT_SPIN_NS, "the waits were long");
            let yields = (0..100).take_while(|_| wait.next_behind_others() == SpinStep::Poll);
            let yields = u32::try_from(yields.count()).unwrap_or(u32::MAX);
            // Others may have had the CPU for long.
            let is_late = monotonic_ns() - wait.began_ns >= FAR_YIELDS_NS;
            assert!(yields >= FAR_YIELDS || wait.is_slow || is_late, "{yields} yields");
            assert!(spin.begin_fast_if(false, false).is_some());
            for same_cpu in [false, true] {
                spin.learn(&wait);
                assert!(spin.begin_fast_if(same_cpu, false).is_none());
            }
            assert!(spin.begin_fast_if(false, false).is_some(), "the next peer may be near");
        }
    }

    #[test]
    fn a_yield_in_vain_spares_the_next_ones() {
        let mut spin = AdaptiveSpin::new(WaitStrategy::Block);
        assert!(spin.begin_fast_if(false, false).is_none());
        assert!(
            spin.begin_fast_if(true, false).is_some_and(|mut fast| fast.pause() && !fast.pause())
        );
        let mut wait = spin.begin_if(false);
        assert_eq!([true, true].map(|same| wait.next(same)), [SpinStep::Poll, SpinStep::Sleep]);
        spin.learn(&wait);
        let spared = (0..100).take_while(|_| spin.begin_fast_if(true, false).is_none()).count();
        assert_eq!(spared, usize::from(WAITS_WITHOUT_YIELD));
        let vain = spin.begin_fast_if(true, false).unwrap();
        spin.learn_fast(&vain, false);
        assert_eq!(spin.begin_if(false).next(true), SpinStep::Sleep);
        let mut other = AdaptiveSpin::new(WaitStrategy::Adaptive);
        other.learn_fast(&vain, false);
        assert!(other.begin_fast_if(true, false).is_some());
    }

    #[test]
    fn slow_yields_spare_more_and_more_of_the_next_ones() {
        let slow = FastSpin { left: 0, same_cpu: true, is_scarce: false, is_slow: true };
        let quick = FastSpin { is_slow: false, ..slow };
        for strategy in [WaitStrategy::Block, WaitStrategy::Adaptive] {
            let mut spin = AdaptiveSpin::new(strategy);
            let mut spared = |has_found| {
                spin.learn_fast(if has_found { &quick } else { &slow }, has_found);
                (0..100_000).take_while(|_| spin.begin_fast_if(true, false).is_none()).count()
            };
            let counts: Vec<usize> = (0..13).map(|_| spared(false)).collect();
            assert_eq!(counts[..4], [15, 31, 63, 127]);
            assert_eq!(counts[12], usize::from(WAITS_WITHOUT_YIELD_MAX));
            assert_eq!(
                [spared(true), spared(false)],
                [0, 32_256],
                "one quick yield changes little"
            );
            assert!((0..600).all(|_| spared(true) == 0));
            assert!(spared(false) <= 127, "many quick yields forget the slow ones");
        }
        let mut spins = AdaptiveSpin::new(WaitStrategy::Spin);
        spins.learn_fast(&slow, false);
        assert!(spins.begin_fast_if(true, false).is_some());
    }

    #[test]
    fn long_waits_shorten_the_next_spin() {
        let mut spin = AdaptiveSpin::new(WaitStrategy::Adaptive);
        assert_eq!(spin.begin_if(false).limit_ns, SPIN_MIN_NS);
        let long = SpinWait { began_ns: 1, ..spin.begin_if(false) };
        spin.learn(&long);
        assert_eq!(spin.begin_if(false).limit_ns, SHORT_SPIN_NS);
        (0..20).for_each(|_| spin.learn(&SpinWait { began_ns: 0, ..long }));
        assert_eq!(
            spin.begin_if(false).limit_ns,
            SPIN_MIN_NS,
            "short waits make the history forget"
        );
    }

    #[test]
    fn a_wait_that_must_save_cpu_time_polls_only_as_long_as_that_finds_something() {
        let mut spin = AdaptiveSpin::new(WaitStrategy::Adaptive);
        for _ in 0..100 {
            let found = spin.begin_fast_if(false, true).expect("the polls have paid");
            spin.learn_fast(&found, true);
        }
        let mut spared = || {
            let vain = spin.begin_fast_if(false, true).unwrap();
            spin.learn_fast(&vain, false);
            (0..100).take_while(|_| spin.begin_fast_if(false, true).is_none()).count()
        };
        let counts: Vec<usize> = (0..8).map(|_| spared()).collect();
        assert_eq!(counts, [0, 1, 3, 7, 15, 30, 30, 30]);
        let found = spin.begin_fast_if(false, true).unwrap();
        spin.learn_fast(&found, true);
        assert!(spin.begin_fast_if(false, true).is_some(), "one find, and the polls pay again");
        assert_eq!(spin.begin_if(true).next(false), SpinStep::Sleep, "none beyond the first part");
        assert_eq!(spin.begin_if(false).strategy(), WaitStrategy::Adaptive, "the CPUs are free");
        let mut spins = AdaptiveSpin::new(WaitStrategy::Spin);
        assert!((0..100).all(|_| spins.begin_fast_if(false, true).is_some()));
        assert_eq!(spins.begin_if(true).strategy(), WaitStrategy::Spin);
    }
}
