//! Random sizes and lifetimes of blocks.

use fastrand::Rng;
use m3ipc_report::stats::whole;

/// Size of the least block, in bytes.
const LEAST_BYTES: usize = 64;

/// A size from 64 to `most` bytes: each power of two as likely, and evenly within it.
#[inline]
pub fn size(rng: &mut Rng, most: usize) -> usize {
    let powers = (most / LEAST_BYTES).max(1).ilog2();
    if powers == 0 {
        return LEAST_BYTES;
    }
    let least = LEAST_BYTES << rng.u32(..powers);
    least + rng.usize(..least)
}

/// A lifetime with this mean, at least 1, with an exponential distribution.
pub fn lifetime(rng: &mut Rng, mean: u64) -> u64 {
    // 1 - f64() is above 0, so its logarithm is finite.
    whole(-(1.0 - rng.f64()).ln() * mean as f64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lifetimes_keep_their_bounds() {
        let mut rng = Rng::with_seed(5);
        let mut sum = 0;
        for _ in 0..10_000 {
            assert!((64..=65_536).contains(&size(&mut rng, 65_536)));
            assert_eq!(size(&mut rng, 64), 64);
            sum += lifetime(&mut rng, 1_000);
        }
        assert!((900..1_100).contains(&(sum / 10_000)), "the mean lifetime is {}", sum / 10_000);
    }
}
