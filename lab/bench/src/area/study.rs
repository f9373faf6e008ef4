//! How free memory falls to pieces: blocks of random sizes with random lifetimes, and what is left in between.
//!
//! ```text
//! two of a hundred blocks live long (200,000 blocks more), the others shortly (1,000); sizes from 64 bytes to
//! 64 KB, each power of two as likely as another; a half of the room is taken, or three quarters
//! ```
//! The same dice are thrown for every pool, so two pools differ by what they do, not by what they are asked.
//! No clock is read: the study gives the same figures on every machine.

use std::collections::BTreeMap;

/// A pool of memory as the study sees it.
pub trait Pool {
    /// Takes so many bytes (a multiple of 64) for a block that will live long or not; gives where.
    fn take(&mut self, bytes: u64, is_long: bool) -> Option<u64>;

    /// Gives back what was taken.
    fn give(&mut self, offset: u64, bytes: u64);

    /// Bytes that are free.
    fn free_bytes(&self) -> u64;

    /// The longest free run in bytes.
    fn largest_free(&self) -> u64;
}

/// What is asked of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Operations in all: each block taken and each given back is one.
    pub operations: u64,
    /// Looks at the pool, evenly spread.
    pub samples: u64,
    /// Of a hundred blocks so many live long.
    pub long_of_100: u64,
    /// Mean lifetimes in blocks taken, of the others and of the long ones.
    pub lifetimes: (u64, u64),
    /// The largest block in bytes.
    pub most_bytes: usize,
}

/// The life of the study, and the room for it.
pub const LIFE: Life = Life {
    operations: 10_000_000,
    samples: 100,
    long_of_100: 2,
    lifetimes: (1_000, 200_000),
    most_bytes: 64 << 10,
};
/// Bytes of the pools: with these a half is free, and a quarter.
pub const ROOMS: [u64; 2] = [96 << 20, 64 << 20];

/// One look at a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Operations before it.
    pub operation: u64,
    /// Bytes that were free.
    pub free_bytes: u64,
    /// The longest free run in bytes.
    pub largest_bytes: u64,
}

impl Sample {
    /// The longest free run as a share of all that is free; 1 where nothing is.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.free_bytes == 0 { 1.0 } else { self.largest_bytes as f64 / self.free_bytes as f64 }
    }
}

/// What became of a pool.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The looks, in order.
    pub samples: Vec<Sample>,
    /// Blocks that the pool had no room for.
    pub refused: u64,
    /// Of those, how many would have fitted into what was free, were it in one piece.
    pub for_pieces: u64,
}

/// Lives this life in a pool.
pub fn live(pool: &mut dyn Pool, life: &Life, seed: u64) -> Course {
    let mut dice = Dice::new(seed);
    let mut course = Course::default();
    // Who dies when: several at one time are kept in order of coming.
    let mut deaths: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let every = (life.operations / life.samples.max(1)).max(1);
    let (mut operation, mut taken) = (0, 0);
    while operation < life.operations {
        let dead =
            deaths.first_key_value().filter(|(when, _)| when.0 <= taken).map(|(&when, _)| when);
        if let Some(block) = dead.and_then(|when| deaths.remove(&when)) {
            pool.give(block.0, block.1);
        } else {
            taken += 1;
            let is_long = dice.below(100) < life.long_of_100;
            let bytes = (dice.size(life.most_bytes) as u64).next_multiple_of(64);
            let mean = if is_long { life.lifetimes.1 } else { life.lifetimes.0 };
            let dies = taken + dice.lifetime(mean);
            match pool.take(bytes, is_long) {
                Some(offset) => {
                    deaths.insert((dies, taken), (offset, bytes));
                }
                None => {
                    course.refused += 1;
                    course.for_pieces += u64::from(pool.free_bytes() >= bytes);
                }
            }
        }
        operation += 1;
        if operation % every == 0 {
            let (free_bytes, largest_bytes) = (pool.free_bytes(), pool.largest_free());
            course.samples.push(Sample { operation, free_bytes, largest_bytes });
        }
    }
    course
}

/// Throws that are the same in every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next throw (xorshift64*).
    #[inline]
    pub fn throw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        u64::try_from((u128::from(self.throw()) * u128::from(limit)) >> 64).unwrap_or(0)
    }

    /// A size from 64 to `most` bytes: each power of two as likely, and evenly within it.
    #[inline]
    pub fn size(&mut self, most: usize) -> usize {
        let powers = u64::from((most / 64).max(1).ilog2());
        if powers == 0 {
            return 64;
        }
        let least = 64 << self.below(powers);
        least + usize::try_from(self.below(least as u64)).unwrap_or(0)
    }

    /// A lifetime with this mean, at least 1: most are short, few long, as of what dies by chance.
    pub fn lifetime(&mut self, mean: u64) -> u64 {
        // Between 0 and 1, neither of them.
        let share = (self.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64;
        crate::stats::whole(-share.ln() * mean as f64).max(1)
    }
}

#[cfg(test)]
mod tests;
