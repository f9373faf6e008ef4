//! Medians and quantiles.

/// The median, the mean of the middle two for an even number; `None` of no finite value.
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

/// The time that this share (0 to 1) of the samples does not exceed; 0 of no sample.
#[must_use]
pub fn quantile(samples: &[(u64, u64)], share: f64) -> u64 {
    let all: u64 = samples.iter().map(|(_, number)| number).sum();
    let wanted = ((share * all as f64).ceil()).max(1.0);
    let mut seen = 0;
    let reaches = |(_, number): &&(u64, u64)| {
        seen += number;
        seen as f64 >= wanted
    };
    samples.iter().find(reaches).map_or(0, |(ns, _)| *ns)
}

/// A figure as a whole number; negative values and NaN become 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates"
)]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A figure to one decimal.
#[must_use]
pub fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
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
    fn quantiles_count_each_time_as_often_as_it_was_taken() {
        let samples = [(10, 1), (20, 8), (900, 1)];
        assert_eq!([0.0, 0.5, 0.9, 0.99].map(|q| quantile(&samples, q)), [10, 20, 20, 900]);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn whole_saturates() {
        assert_eq!((whole(1.5), whole(-3.0), whole(f64::NAN)), (2, 0, 0));
    }
}
