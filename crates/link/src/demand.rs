//! Whether the CPUs are in demand: spinning and yielding then give time away that a sleep would
//! not.
//!
//! A spin that another task interrupts shows itself by a gap between two readings of the clock; so
//! does a yield to a task that keeps the CPU. The system's count of running tasks then says whether
//! the CPUs are in demand: the host of a virtual machine takes a CPU away, too, and a sleep would
//! not help against that. If they are, no wait spins for a while. A sleeping thread is served at
//! once when its message comes, before a task that used up its share. Afterwards the count decides
//! again. Where it cannot be read, each gap counts, and a next gap doubles the while.
//!
//! Tasks that run for a short time each leave no such gap: the threads of a proxy between a server
//! and its clients. So a thread that spins reads the count now and then. Two counts in a row above
//! the number of CPUs end all spins, too. So does a limit of CPU time for the group of the process:
//! what a spin uses is missing later.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use m3ipc_sys::monotonic_ns;

/// A gap that no step of a spin takes by itself. The slice of a task is longer.
const GAP_NS: u64 = 400_000;
/// The first while, and the longest.
const SPAN_MIN_NS: u64 = 50_000_000;
const SPAN_MAX_NS: u64 = 2_000_000_000;
/// A gap so long after the last while begins anew.
const QUIET_NS: u64 = 1_000_000_000;
/// The time between two readings of the count by threads that spin.
const SAMPLE_NS: u64 = 10_000_000;
/// The time between two looks for a limit of CPU time.
const QUOTA_NS: u64 = 1_000_000_000;

/// What the system says.
pub trait System {
    /// The count of running tasks; `None` where the system does not tell.
    fn running_tasks() -> Option<u32>;
    /// The CPUs that this thread may use; `None` where the system does not tell.
    fn usable_cpus() -> Option<u32>;
    /// The CPUs of the system; `None` where the system does not tell.
    fn online_cpus() -> Option<u32>;
    /// Whether the group of this process has a limit of CPU time.
    fn has_quota() -> bool;
}

/// What a process knows of the demand for its CPUs.
#[derive(Debug)]
pub struct Demand {
    next_sample_ns: AtomicU64,
    next_quota_ns: AtomicU64,
    was_high: AtomicBool,
    is_on: AtomicBool,
    has_quota: AtomicBool,
    until_ns: AtomicU64,
    span_ns: AtomicU64,
}

impl Default for Demand {
    fn default() -> Self {
        Self::new()
    }
}

impl Demand {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next_sample_ns: AtomicU64::new(0),
            next_quota_ns: AtomicU64::new(0),
            was_high: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            has_quota: AtomicBool::new(false),
            until_ns: AtomicU64::new(0),
            span_ns: AtomicU64::new(SPAN_MIN_NS),
        }
    }

    /// Whether the CPUs are in demand.
    #[inline]
    #[must_use]
    pub fn is_on<S: System>(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.goes_on::<S>(monotonic_ns())
    }

    /// Whether the process had a limit of CPU time at the last look.
    #[inline]
    #[must_use]
    pub fn has_quota(&self) -> bool {
        self.has_quota.load(Ordering::Relaxed)
    }

    /// Notes the time that one step of a spin took; whether the spin must end.
    #[inline]
    pub fn note_step<S: System>(&self, took_ns: u64) -> bool {
        let is_gap = took_ns >= GAP_NS;
        if is_gap {
            self.note_gap(S::running_tasks(), cpus::<S>());
        }
        is_gap
    }

    /// Before a spin that begins now: asks the system if that is due. Whether the spin must not
    /// begin.
    #[inline]
    pub fn sample<S: System>(&self, now_ns: u64) -> bool {
        let next_ns = self.next_sample_ns.load(Ordering::Relaxed);
        now_ns >= next_ns && self.sample_now::<S>(now_ns, next_ns)
    }

    #[cold]
    fn goes_on<S: System>(&self, now_ns: u64) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        if now_ns < until_ns {
            return true;
        }
        // One thread asks for all.
        if !claim(&self.until_ns, until_ns, now_ns + SPAN_MIN_NS) {
            return true;
        }
        if self.look_for_quota::<S>(now_ns) || is_high::<S>() {
            return true;
        }
        self.until_ns.store(now_ns, Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
        false
    }

    #[cold]
    fn note_gap(&self, running: Option<u32>, cpus: u32) {
        if running.is_none_or(|running| running > cpus) {
            self.begin(monotonic_ns(), running.is_some());
        }
    }

    #[cold]
    fn sample_now<S: System>(&self, now_ns: u64, due_ns: u64) -> bool {
        if !claim(&self.next_sample_ns, due_ns, now_ns + SAMPLE_NS) {
            return false;
        }
        // The count is of the whole system: it says nothing to a process with a part of the CPUs.
        let has_all = S::online_cpus().is_some_and(|online| cpus::<S>() >= online);
        let is_high = has_all && is_high::<S>();
        let stays_high = self.was_high.swap(is_high, Ordering::Relaxed) && is_high;
        let is_on = self.look_for_quota::<S>(now_ns) || stays_high;
        if is_on {
            self.begin(now_ns, true);
        }
        is_on
    }

    /// Whether the process has a limit of CPU time. Looks if that is due.
    fn look_for_quota<S: System>(&self, now_ns: u64) -> bool {
        let due_ns = self.next_quota_ns.load(Ordering::Relaxed);
        if now_ns >= due_ns && claim(&self.next_quota_ns, due_ns, now_ns + QUOTA_NS) {
            self.has_quota.store(S::has_quota(), Ordering::Relaxed);
        }
        self.has_quota()
    }

    /// Begins a while without spins. `is_counted` says that the count of running tasks can be read:
    /// it ends the while in time.
    #[cold]
    fn begin(&self, now_ns: u64, is_counted: bool) {
        let last_ns = self.until_ns.load(Ordering::Relaxed);
        let span_ns = if is_counted || now_ns.saturating_sub(last_ns) > QUIET_NS {
            SPAN_MIN_NS
        } else {
            (2 * self.span_ns.load(Ordering::Relaxed)).min(SPAN_MAX_NS)
        };
        self.span_ns.store(span_ns, Ordering::Relaxed);
        self.until_ns.store(now_ns + span_ns, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Relaxed);
    }
}

/// Moves a time on; `true` for the one thread that did.
fn claim(time_ns: &AtomicU64, from_ns: u64, to_ns: u64) -> bool {
    let (swap, fail) = (Ordering::AcqRel, Ordering::Relaxed);
    time_ns.compare_exchange(from_ns, to_ns, swap, fail).is_ok()
}

/// The CPUs that this thread may use; at least one.
fn cpus<S: System>() -> u32 {
    S::usable_cpus().map_or(1, |cpus| cpus.max(1))
}

/// Whether more tasks run than this process has CPUs. `false` where the system does not tell.
fn is_high<S: System>() -> bool {
    S::running_tasks().is_some_and(|running| running > cpus::<S>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of two CPUs.
    struct Fixed<const RUNNING: u32, const QUOTA: bool>;

    impl<const RUNNING: u32, const QUOTA: bool> System for Fixed<RUNNING, QUOTA> {
        fn running_tasks() -> Option<u32> {
            Some(RUNNING)
        }
        fn usable_cpus() -> Option<u32> {
            Some(2)
        }
        fn online_cpus() -> Option<u32> {
            Some(2)
        }
        fn has_quota() -> bool {
            QUOTA
        }
    }

    type Free = Fixed<2, false>;
    type Busy = Fixed<3, false>;
    type Limited = Fixed<1, true>;

    #[test]
    fn two_counts_in_a_row_end_the_spins_and_one_does_not() {
        let demand = Demand::new();
        assert!(!demand.sample::<Busy>(1) && !demand.is_on::<Busy>());
        assert!(!demand.sample::<Busy>(SAMPLE_NS), "it is not due");
        assert!(!demand.sample::<Free>(1 + SAMPLE_NS));
        assert!(!demand.sample::<Busy>(1 + 2 * SAMPLE_NS), "the count before was low");
        assert!(demand.sample::<Busy>(1 + 3 * SAMPLE_NS) && demand.is_on.load(Ordering::Relaxed));
        let until_ns = demand.until_ns.load(Ordering::Relaxed);
        assert!(demand.goes_on::<Busy>(until_ns));
        assert!(!demand.goes_on::<Free>(until_ns + SPAN_MIN_NS) && !demand.is_on::<Free>());
    }

    #[test]
    fn a_limit_of_cpu_time_ends_the_spins_at_once_and_for_as_long_as_it_is_there() {
        let demand = Demand::new();
        assert!(demand.sample::<Limited>(1));
        let mut now_ns = demand.until_ns.load(Ordering::Relaxed);
        for _ in 0..100 {
            assert!(demand.goes_on::<Limited>(now_ns));
            now_ns += SPAN_MIN_NS;
        }
        assert!(demand.goes_on::<Free>(now_ns - 1) && !demand.goes_on::<Free>(now_ns + QUOTA_NS));
    }

    #[test]
    fn a_gap_ends_all_spins_for_a_while_where_the_cpus_are_in_demand() {
        let demand = Demand::new();
        let span_ns = || demand.span_ns.load(Ordering::Relaxed);
        assert!(!demand.note_step::<Busy>(GAP_NS - 1) && !demand.is_on::<Busy>());
        assert!(demand.note_step::<Free>(GAP_NS));
        assert!(!demand.is_on::<Free>(), "nobody wants the CPUs: the host took this one away");
        for _gap in 0..2 {
            assert!(demand.note_step::<Busy>(GAP_NS));
            assert!(demand.is_on.load(Ordering::Relaxed) && span_ns() == SPAN_MIN_NS);
        }
        // Where the count cannot be read, the while grows with each gap.
        demand.note_gap(None, 2);
        assert_eq!(span_ns(), 2 * SPAN_MIN_NS);
        let until_ns = demand.until_ns.load(Ordering::Relaxed);
        assert!(demand.goes_on::<Free>(until_ns - 1) && !demand.goes_on::<Free>(until_ns));
        let quiet_ns = demand.until_ns.load(Ordering::Relaxed) + QUIET_NS + 1;
        demand.begin(quiet_ns, false);
        assert_eq!(span_ns(), SPAN_MIN_NS);
    }
}
