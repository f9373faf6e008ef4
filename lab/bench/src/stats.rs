//! Samples, their percentiles, and medians over rounds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer times count as this: 1,000 seconds.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Times in nanoseconds, in a histogram of three significant digits.
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

    /// Adds all times of another.
    pub fn merge(&mut self, other: &Self) {
        for value in other.0.iter_recorded() {
            self.add(value.value_iterated_to(), value.count_at_value());
        }
    }

    /// The time that this share (0 to 1) of the samples does not exceed; 0 where there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The mean of the middle half: what a typical one is, to a part of a step of the clock.
    #[must_use]
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

    /// The longest time.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// All times in order, each with how often.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect()
    }

    /// The histogram of such pairs.
    #[must_use]
    pub fn of_pairs(pairs: &[(u64, u64)]) -> Self {
        let mut samples = Self::default();
        pairs.iter().for_each(|&(ns, count)| samples.add(ns, count));
        samples
    }

    fn add(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for Samples {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_pairs(&Vec::deserialize(deserializer)?))
    }
}

/// The median: the mean of the two in the middle where they are even in number; `None` of nothing.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// A figure of nanoseconds as a whole number.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates, and a time is not negative"
)]
pub fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 5.0]), Some(5.0));
    }

    #[test]
    fn quantiles_survive_the_way_through_json() {
        let mut samples = Samples::default();
        (1..=1_000).for_each(|ns| samples.record(ns));
        let text = serde_json::to_string(&samples).expect("serialises");
        let mut back: Samples = serde_json::from_str(&text).expect("parses");
        assert_eq!((back.quantile(0.5), back.quantile(0.99), back.max()), (500, 990, 1_000));
        back.merge(&samples);
        assert_eq!((back.count(), back.quantile(0.5)), (2_000, 500));
    }

    #[test]
    fn the_middle_half_has_a_mean() {
        let mut samples = Samples::default();
        [1, 10, 12, 9_000].into_iter().for_each(|ns| samples.record(ns));
        assert!((samples.middle_mean() - 11.0).abs() < 1e-9);
        assert!(Samples::default().middle_mean().abs() < 1e-9);
    }

    #[test]
    fn an_empty_histogram_says_zero() {
        assert_eq!(Samples::default().quantile(0.5), 0);
        assert_eq!(Samples::default().max(), 0);
    }

    #[test]
    fn whole_saturates() {
        assert_eq!((whole(1.5), whole(-3.0), whole(f64::NAN)), (2, 0, 0));
    }
}
