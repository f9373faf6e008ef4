//! Times of single trips in a histogram of three significant digits.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer times count as this: 1,000 seconds.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Samples(Histogram<u64>);

impl Default for Samples {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds are in order and three digits are allowed"),
        )
    }
}

impl Samples {
    /// Adds one time.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (ns, count) in other.pairs() {
            self.0.saturating_record_n(ns, count);
        }
    }

    /// The mean of the middle half, to a fraction of a clock step.
    pub fn middle_mean(&self) -> f64 {
        let (from, to) = (self.0.len() / 4, self.0.len() - self.0.len() / 4);
        let (mut passed, mut sum) = (0, 0.0);
        for value in self.0.iter_recorded() {
            let next = passed + value.count_at_value();
            let inside = next.min(to).saturating_sub(passed.max(from));
            let middle = self.0.median_equivalent(value.value_iterated_to());
            sum += inside as f64 * middle as f64;
            passed = next;
        }
        sum / to.saturating_sub(from).max(1) as f64
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// All times in ascending order, each with its number of occurrences.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let all = self.0.iter_recorded();
        all.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for Samples {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut samples = Self::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            samples.0.saturating_record_n(ns, count);
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_report::stats::quantile;

    #[test]
    fn quantiles_survive_json() {
        let mut samples = Samples::default();
        (1..=1_000).for_each(|ns| samples.record(ns));
        let text = serde_json::to_string(&samples).expect("serialises");
        let mut back: Samples = serde_json::from_str(&text).expect("parses");
        let at = |samples: &Samples, share| quantile(&samples.pairs(), share);
        assert_eq!((at(&back, 0.5), at(&back, 0.99), at(&back, 1.0)), (500, 990, 1_000));
        back.merge(&samples);
        assert_eq!((back.count(), at(&back, 0.5)), (2_000, 500));
    }

    #[test]
    fn quantiles_of_pairs_are_those_of_the_histogram() {
        for times in [&[7_u64][..], &[1, 2, 3, 4], &[5, 5, 5, 900], &[10, 20_000, 30_000_000]] {
            let mut samples = Samples::default();
            times.iter().for_each(|&ns| samples.record(ns));
            for share in [0.5, 0.99] {
                let wanted = samples.0.value_at_quantile(share);
                assert_eq!(quantile(&samples.pairs(), share), wanted, "{times:?}");
            }
        }
    }

    #[test]
    fn the_middle_half_has_a_mean() {
        let mut samples = Samples::default();
        [1, 10, 12, 9_000].into_iter().for_each(|ns| samples.record(ns));
        assert!((samples.middle_mean() - 11.0).abs() < 1e-9);
        assert!(Samples::default().middle_mean().abs() < 1e-9);
    }

    #[test]
    fn an_empty_histogram_has_no_pairs() {
        assert_eq!(Samples::default().pairs(), []);
    }
}
