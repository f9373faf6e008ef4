//! The rank test of Mann and Whitney, and the effect that belongs to it.
//!
//! Both are exact for few values (the distribution is counted, ties included) and normal for many.
//! The test assumes nothing about the distribution of the times.
//!
//! # Source
//! H. B. Mann, D. R. Whitney, Annals of Mathematical Statistics 18 (1947); J. L. Hodges,
//! E. L. Lehmann, ibid. 34 (1963).

/// Up to this number of values of both sides the distribution is counted.
const COUNTED: usize = 40;

/// The chance of values as high as those of `b` beside `a` if both share one distribution.
///
/// 1 if either side is empty.
#[must_use]
pub fn higher_p(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let ranks = doubled_ranks(a, b);
    let sum: usize = ranks[a.len()..].iter().sum();
    if ranks.len() <= COUNTED {
        let sums = subset_sums(&ranks, b.len());
        let all: f64 = sums.iter().sum();
        return sums[sum.min(sums.len())..].iter().sum::<f64>() / all;
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let total = n + m;
    let mean = m * (total + 1.0) / 2.0;
    let tied: f64 = ties(&ranks).into_iter().map(|size| size.powi(3) - size).sum();
    let variance = n * m / 12.0 * (total + 1.0 - tied / (total * (total - 1.0)));
    if variance <= 0.0 { 1.0 } else { above((sum as f64 / 2.0 - mean - 0.5) / variance.sqrt()) }
}

/// The least result of [`higher_p`] for these numbers of values.
#[must_use]
pub fn least_p(a: usize, b: usize) -> f64 {
    (1..=b).map(|number| number as f64 / (a + number) as f64).product()
}

/// The ratio of `b` to `a` with its interval at this level (0.95).
///
/// It is the median of all ratios of a value of `b` to a value of `a`. `None` if a side is empty or
/// has a value that is not positive.
#[must_use]
pub fn ratio(a: &[f64], b: &[f64], level: f64) -> Option<(f64, f64, f64)> {
    if a.is_empty()
        || b.is_empty()
        || a.iter().chain(b).any(|&value| value.is_nan() || value <= 0.0)
    {
        return None;
    }
    let mut ratios: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b / a)).collect();
    ratios.sort_by(f64::total_cmp);
    let cut = cut(a.len(), b.len(), (1.0 - level) / 2.0);
    let middle = crate::stats::median(ratios.iter().copied())?;
    Some((middle, ratios[cut], ratios[ratios.len() - 1 - cut]))
}

/// The number of sorted ratios outside the interval at each end.
fn cut(a: usize, b: usize, tail: f64) -> usize {
    let most = (a * b - 1) / 2;
    if a + b > COUNTED {
        let (n, m) = (a as f64, b as f64);
        let spread = (n * m * (n + m + 1.0) / 12.0).sqrt();
        let cut = n * m / 2.0 - quantile_above(tail) * spread - 1.0;
        return usize::try_from(crate::stats::whole(cut.floor().max(0.0))).unwrap_or(0).min(most);
    }
    let ranks: Vec<usize> = (1..=a + b).map(|rank| 2 * rank).collect();
    let sums = subset_sums(&ranks, b);
    let all: f64 = sums.iter().sum();
    let least = b * (b + 1);
    let mut below = 0.0;
    // The statistic is a sum of ranks less its least value. Sums are doubled.
    let holds = |cut: &usize| {
        below += sums[least + 2 * cut];
        below / all <= tail
    };
    (0..=most).take_while(holds).count().saturating_sub(1).min(most)
}

/// Twice the rank of each value, those of `a` first. Equal values share the mean of their ranks.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let values: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        2 * below + equal + 1
    };
    values.iter().map(rank).collect()
}

/// The number of choices of `size` ranks for each sum.
fn subset_sums(ranks: &[usize], size: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut counts = vec![vec![0.0; most + 1]; size + 1];
    counts[0][0] = 1.0;
    for &rank in ranks {
        for taken in (1..=size).rev() {
            for sum in rank..=most {
                let before = counts[taken - 1][sum - rank];
                counts[taken][sum] += before;
            }
        }
    }
    counts.swap_remove(size)
}

/// Sizes of the groups of equal ranks.
fn ties(ranks: &[usize]) -> Vec<f64> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64).collect()
}

/// The share of a normal distribution above `z`.
///
/// # Source
/// Abramowitz and Stegun 7.1.26, correct to 1e-7.
fn above(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = series * (-x * x).exp() / 2.0;
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// The `z` above which this share (below one half) of a normal distribution lies.
fn quantile_above(share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if above(middle) > share { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests;
