//! Parts of a round trip: from many cut trips to one row without the cost of the stamps.

use m3ipc_report::phases::PhaseTime;
use m3ipc_report::stats::tenth;

/// Allowed distance of the sum of the phases from the trip without stamps plus their cost.
pub const TOLERANCE: f64 = 0.05;

/// Parts of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// T1: entry of the call, search of the other side, check of rights.
    Prepare = 0,
    /// T2: write and publication of the message; for the kernel's mechanisms the system call.
    Deliver = 1,
    /// T3: search of the message.
    Find = 2,
    /// T4: copy of the message.
    Copy = 3,
    /// T4: search of the sender, and return to the caller.
    Sender = 4,
    /// T5: from the publication to the begin of the wake-up.
    ToWake = 5,
    /// T5: from there until the receiver runs.
    ToRun = 6,
    /// T5: from there until the receiver polls.
    ToRead = 7,
    /// The server's own work between its two calls.
    Server = 8,
}

/// The number of parts.
pub const PARTS: usize = 9;

/// The parts in the order of the study: part, phase, description.
const ALL: [(Part, &str, &str); PARTS] = [
    (Part::Prepare, "T1", "prepare"),
    (Part::Deliver, "T2", "deliver"),
    (Part::Find, "T3", "find"),
    (Part::Copy, "T4", "copy"),
    (Part::Sender, "T4", "sender"),
    (Part::ToWake, "T5", "publish to wake"),
    (Part::ToRun, "T5", "wake to run"),
    (Part::ToRead, "T5", "run to read"),
    (Part::Server, "server", "own work"),
];

/// One trip in its parts, in nanoseconds.
pub type Cut = [f64; PARTS];

/// Stamps and records in each part.
pub type StampLoad = [(f64, f64); PARTS];

/// The cost of a stamp and of a record, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Of a stamp.
    pub stamp_ns: f64,
    /// Of a record.
    pub record_ns: f64,
}

impl Cost {
    fn of(self, (stamps, records): (f64, f64)) -> f64 {
        stamps * self.stamp_ns + records * self.record_ns
    }

    /// A multiple of this cost.
    pub fn times(self, factor: f64) -> Self {
        Self { stamp_ns: self.stamp_ns * factor, record_ns: self.record_ns * factor }
    }

    /// The cost in all parts of a trip.
    pub fn total(self, load: &StampLoad) -> f64 {
        load.iter().map(|part| self.of(*part)).sum()
    }
}

/// The mean parts of the trips in the middle half by total, stamps included.
pub fn middle(cuts: &[Cut]) -> Cut {
    let mut by_total: Vec<(f64, &Cut)> = cuts.iter().map(|cut| (cut.iter().sum(), cut)).collect();
    by_total.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = &by_total[cuts.len() / 4..cuts.len() - cuts.len() / 4];
    let mut sum = [0.0; PARTS];
    for (_, cut) in middle {
        sum.iter_mut().zip(*cut).for_each(|(sum, part)| *sum += part);
    }
    sum.map(|sum| sum / middle.len().max(1) as f64)
}

/// One row of parts.
pub fn times(
    cuts: &[Cut],
    load: &StampLoad,
    cost: Cost,
    is_visible: impl Fn(Part) -> bool,
) -> Vec<PhaseTime> {
    let stamped = middle(cuts);
    let row = |&(part, phase, description): &(Part, &str, &str)| {
        let at = part as usize;
        let mut all: Vec<f64> = cuts.iter().map(|cut| cut[at]).collect();
        all.sort_by(f64::total_cmp);
        let percentile = |percent: usize| {
            all.get(all.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
        };
        PhaseTime {
            phase: phase.into(),
            part: description.into(),
            // An estimated cost above the phase itself must not give a negative time.
            ns: tenth((stamped[at] - cost.of(load[at])).max(0.0)),
            stamped_ns: tenth(stamped[at]),
            p50_ns: tenth(percentile(50)),
            p99_ns: tenth(percentile(99)),
            cut: is_visible(part),
        }
    };
    ALL.iter().map(row).collect()
}

/// The distance of `sum` from `expected`, as a part of it; negative if below.
pub fn off(sum: f64, expected: f64) -> f64 {
    (sum - expected) / expected.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(first: f64) -> Cut {
        let mut cut = [1.0; PARTS];
        cut[0] = first;
        cut
    }

    #[test]
    fn the_middle_half_is_taken_by_totals_and_adds_up() {
        // A disturbed trip and a lucky one do not count.
        let cuts = [0.0, 10.0, 11.0, 12.0, 13.0, 5_000.0, 9_000.0, 1.0].map(cut);
        let middle = middle(&cuts);
        assert!((middle[0] - 11.5).abs() < 1e-9, "{middle:?}");
        assert!((middle.iter().sum::<f64>() - 19.5).abs() < 1e-9);
    }

    #[test]
    fn the_cost_of_stamps_is_subtracted_and_no_phase_is_negative() {
        let mut load = [(0.0, 0.0); PARTS];
        load[0] = (1.0, 1.0);
        load[1] = (1.0, 0.0);
        let cost = Cost { stamp_ns: 4.0, record_ns: 3.0 };
        let times = times(&[cut(10.0)], &load, cost, |part| part != Part::Find);
        assert_eq!((times[0].ns, times[0].stamped_ns, times[1].ns), (3.0, 10.0, 0.0));
        assert!(!times[2].cut && times[0].cut);
        assert!((cost.total(&load) - 11.0).abs() < 1e-9);
    }

    #[test]
    fn off_is_a_part_of_the_expected_time() {
        assert!((off(105.0, 100.0) - 0.05).abs() < 1e-9);
        assert!(off(100.0, 100.0) < TOLERANCE && off(90.0, 100.0) < -TOLERANCE);
    }
}
