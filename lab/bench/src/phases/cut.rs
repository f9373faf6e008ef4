//! Many trips, each in parts, become one row: the middle half of them, and what their stamps cost.

use super::record::{PARTS, Part, PhaseTime};

/// How far the sum of the phases may be from what was measured without stamps and their stated cost.
pub const TOLERANCE: f64 = 0.05;

/// One trip in its parts, in nanoseconds.
pub type Cut = [f64; PARTS];

/// What stamping adds to each part: so many stamps, and so many records written.
pub type Load = [(f64, f64); PARTS];

/// What a stamp and a record cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// A stamp.
    pub stamp_ns: f64,
    /// A record.
    pub record_ns: f64,
}

impl Cost {
    fn of(self, (stamps, records): (f64, f64)) -> f64 {
        stamps * self.stamp_ns + records * self.record_ns
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { stamp_ns: self.stamp_ns * factor, record_ns: self.record_ns * factor }
    }

    /// What all of it adds to a trip.
    #[must_use]
    pub fn total(self, load: &Load) -> f64 {
        load.iter().map(|part| self.of(*part)).sum()
    }
}

/// The mean of the values in the middle half.
#[must_use]
pub fn middle_mean(sorted: &[f64]) -> f64 {
    let middle = &sorted[sorted.len() / 4..sorted.len() - sorted.len() / 4];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// The parts of the trips whose totals are in the middle half, as they were stamped: they add up.
#[must_use]
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
#[must_use]
pub fn times(
    cuts: &[Cut],
    load: &Load,
    cost: Cost,
    can_cut: impl Fn(Part) -> bool,
) -> Vec<PhaseTime> {
    let stamped = middle(cuts);
    Part::ALL
        .iter()
        .map(|&part| {
            let at = part as usize;
            let mut all: Vec<f64> = cuts.iter().map(|cut| cut[at]).collect();
            all.sort_by(f64::total_cmp);
            let at_percent = |percent: usize| {
                all.get(all.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
            };
            PhaseTime {
                phase: part.phase().into(),
                part: part.what().into(),
                // A phase is no shorter than nothing, however the cost of its stamps was estimated.
                ns: tenth((stamped[at] - cost.of(load[at])).max(0.0)),
                stamped_ns: tenth(stamped[at]),
                p50_ns: tenth(at_percent(50)),
                p99_ns: tenth(at_percent(99)),
                cut: can_cut(part),
            }
        })
        .collect()
}

/// A figure to a tenth.
#[must_use]
pub fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// How far `sum` is above `expected` (below: negative), as a part of it.
#[must_use]
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
        let cuts: Vec<Cut> = [0.0, 10.0, 11.0, 12.0, 13.0, 5_000.0, 9_000.0, 1.0].map(cut).to_vec();
        let middle = middle(&cuts);
        assert!((middle[0] - 11.5).abs() < 1e-9, "{middle:?}");
        assert!((middle.iter().sum::<f64>() - 19.5).abs() < 1e-9);
        assert!((middle_mean(&[0.0, 1.0, 3.0, 100.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_cost_of_stamps_is_taken_away_and_no_phase_is_less_than_nothing() {
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
    fn off_is_a_part_of_what_was_expected() {
        assert!((off(105.0, 100.0) - 0.05).abs() < 1e-9);
        assert!(off(100.0, 100.0) < TOLERANCE && off(90.0, 100.0) < -TOLERANCE);
    }
}
