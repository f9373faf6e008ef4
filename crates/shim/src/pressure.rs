//! Whether other tasks want the CPUs: spinning and yielding then give time away that a sleep would
//! not.
//!
//! A spin that another task interrupts shows itself by a gap between two readings of the clock; so
//! does a yield to a task that keeps the CPU. The system's count of running tasks then says whether
//! the CPUs are in demand: the host of a virtual machine takes a CPU away, too, and a sleep would
//! not help against that. If they are, no call spins for a while. A sleeping thread is served at
//! once when its bytes come, before a task that used up its share. Afterwards the count decides
//! again. Where it cannot be read, each gap counts, and a next gap doubles the while.
//!
//! Tasks that run for a short time each leave no such gap: the threads of a proxy between a server
//! and its clients. So a thread that spins reads the count now and then. Two counts in a row above
//! the number of CPUs end all spins, too.
//!
//! # Source
//! proc_loadavg(5): running tasks in the fourth field; sched_getaffinity(2); the CPUs of the system
//! in /sys/devices/system/cpu/online

use crate::kernel::{file, process};
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

/// What a process knows of the demand for its CPUs.
#[derive(Debug)]
struct Pressure {
    next_sample_ns: AtomicU64,
    was_in_demand: AtomicBool,
    is_on: AtomicBool,
    until_ns: AtomicU64,
    span_ns: AtomicU64,
}

static OWN: Pressure = Pressure::new();

/// Whether other tasks want the CPUs.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    OWN.is_on()
}

/// Notes the time that one step of a spin took; whether the spin must end.
#[inline]
pub fn note_step(took_ns: u64) -> bool {
    OWN.note_step(took_ns)
}

/// Before a spin that begins now: reads the count of running tasks if that is due. Whether the spin
/// must not begin.
#[inline]
pub fn sample(now_ns: u64) -> bool {
    OWN.sample(now_ns)
}

impl Pressure {
    const fn new() -> Self {
        Self {
            next_sample_ns: AtomicU64::new(0),
            was_in_demand: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            until_ns: AtomicU64::new(0),
            span_ns: AtomicU64::new(SPAN_MIN_NS),
        }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.goes_on(monotonic_ns())
    }

    #[cold]
    fn goes_on(&self, now_ns: u64) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        if now_ns < until_ns {
            return true;
        }
        // One thread asks for all.
        let next_ns = now_ns + SPAN_MIN_NS;
        let (swap, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_first = self.until_ns.compare_exchange(until_ns, next_ns, swap, fail).is_ok();
        if !is_first || are_cpus_in_demand() {
            return true;
        }
        self.until_ns.store(now_ns, Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
        false
    }

    #[inline]
    fn note_step(&self, took_ns: u64) -> bool {
        let is_gap = took_ns >= GAP_NS;
        if is_gap {
            self.note_gap(running());
        }
        is_gap
    }

    #[cold]
    fn note_gap(&self, running: Option<u32>) {
        if running.is_none_or(|running| running > process::cpus()) {
            self.begin(monotonic_ns(), running.is_some());
        }
    }

    #[inline]
    fn sample(&self, now_ns: u64) -> bool {
        let next_ns = self.next_sample_ns.load(Ordering::Relaxed);
        now_ns >= next_ns && self.sample_now(now_ns, next_ns)
    }

    #[cold]
    fn sample_now(&self, now_ns: u64, due_ns: u64) -> bool {
        let next_ns = now_ns + SAMPLE_NS;
        let (swap, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.next_sample_ns.compare_exchange(due_ns, next_ns, swap, fail).is_err() {
            return false;
        }
        // The count is of the whole system: it says nothing to a process with a part of the CPUs.
        let is_in_demand = has_all_cpus() && are_cpus_in_demand();
        let is_on = self.was_in_demand.swap(is_in_demand, Ordering::Relaxed) && is_in_demand;
        if is_on {
            self.begin(now_ns, true);
        }
        is_on
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

/// Whether this thread may use all CPUs of the system. `false` where the system does not tell.
fn has_all_cpus() -> bool {
    let mut room = [0_u8; 256];
    let length = file::read_whole(c"/sys/devices/system/cpu/online", &mut room);
    let text = core::str::from_utf8(room.get(..length).unwrap_or(&[])).unwrap_or("");
    cpus_in(text).is_some_and(|online| process::cpus() >= online)
}

/// The number of CPUs in `0-3,8`.
fn cpus_in(text: &str) -> Option<u32> {
    text.trim_end().split(',').try_fold(0_u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Whether more tasks run than this process has CPUs. `false` where the system does not tell.
fn are_cpus_in_demand() -> bool {
    running().is_some_and(|running| running > process::cpus())
}

/// The system's count of running tasks.
fn running() -> Option<u32> {
    let mut room = [0_u8; 64];
    let length = file::read_whole(c"/proc/loadavg", &mut room);
    running_in(core::str::from_utf8(room.get(..length)?).ok()?)
}

/// Running tasks in `0.20 0.18 0.12 1/80 11206`.
fn running_in(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_its_running_tasks() {
        assert_eq!(running_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert!(running_in("0.20 0.18").is_none() && running_in("a b c d e").is_none());
        assert!(process::cpus() >= 1);
    }

    #[test]
    fn the_system_tells_its_cpus() {
        assert_eq!([cpus_in("0\n"), cpus_in("0-3\n"), cpus_in("0-1,4,6-7\n")], [1, 4, 5].map(Some));
        assert_eq!(
            [cpus_in(""), cpus_in("0-"), cpus_in("3-1"), cpus_in("0-4294967295")],
            [None; 4]
        );
    }

    #[test]
    fn counts_are_read_now_and_then() {
        let pressure = Pressure::new();
        pressure.sample(1);
        assert_eq!(pressure.next_sample_ns.load(Ordering::Relaxed), 1 + SAMPLE_NS);
        assert!(!pressure.sample(SAMPLE_NS), "it is not due");
    }

    #[test]
    fn a_gap_ends_all_spins_for_a_while_where_the_cpus_are_in_demand() {
        let (cpus, pressure) = (process::cpus(), Pressure::new());
        let span_ns = || pressure.span_ns.load(Ordering::Relaxed);
        assert!(!pressure.is_on() && !pressure.note_step(GAP_NS - 1) && !pressure.is_on());
        pressure.note_gap(Some(cpus));
        assert!(!pressure.is_on(), "nobody wants the CPUs: the host took this one away");
        for _gap in 0..2 {
            pressure.note_gap(Some(cpus + 1));
            assert!(pressure.is_on.load(Ordering::Relaxed) && span_ns() == SPAN_MIN_NS);
        }
        // Where the count cannot be read, the while grows with each gap.
        pressure.note_gap(None);
        assert_eq!(span_ns(), 2 * SPAN_MIN_NS);
        let until_ns = pressure.until_ns.load(Ordering::Relaxed);
        assert!(pressure.goes_on(until_ns - 1));
        // The system may be busy now: then the while goes on.
        if !pressure.goes_on(until_ns) {
            assert!(!pressure.is_on());
        }
        let quiet_ns = pressure.until_ns.load(Ordering::Relaxed) + QUIET_NS + 1;
        pressure.begin(quiet_ns, false);
        assert_eq!(span_ns(), SPAN_MIN_NS);
    }
}
