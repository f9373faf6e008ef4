//! A set of indexes in use, with its lowest free index.

use std::collections::BTreeSet;

/// Indexes in use. [`IndexPool::lowest_free`] needs no search.
///
/// Invariant: `lowest` is not in `used`, and `used` has every index below `lowest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexPool {
    used: BTreeSet<u32>,
    lowest: u32,
}

impl IndexPool {
    pub(super) fn lowest_free(&self) -> u32 {
        self.lowest
    }

    /// Marks an index as used; `false` if it was used already.
    pub(super) fn take(&mut self, index: u32) -> bool {
        let fresh = self.used.insert(index);
        if index == self.lowest {
            let run = self.used.range(index..).zip(index..).take_while(|(used, at)| *used == at);
            self.lowest = run.last().map_or(index, |(_, at)| at + 1);
        }
        fresh
    }

    pub(super) fn release(&mut self, index: u32) {
        if self.used.remove(&index) {
            self.lowest = self.lowest.min(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_index_is_known_after_each_step() {
        let mut pool = IndexPool::default();
        for index in [0, 1, 3, 2] {
            assert!(pool.take(index));
        }
        assert_eq!(pool.lowest_free(), 4);
        pool.release(1);
        pool.release(3);
        assert_eq!(pool.lowest_free(), 1);
        assert!(pool.take(1));
        assert_eq!(pool.lowest_free(), 3);
        assert!(!pool.take(1));
    }
}
