//! A set of numbers that always knows its lowest free one.

use std::collections::BTreeSet;

/// Numbers in use; the lowest free one is found without a search.
///
/// Invariant: `lowest` is not in `used`, and every number below it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dense {
    used: BTreeSet<u32>,
    lowest: u32,
}

impl Dense {
    pub(super) fn lowest_free(&self) -> u32 {
        self.lowest
    }

    /// Marks as used; false where it was already.
    pub(super) fn take(&mut self, number: u32) -> bool {
        let fresh = self.used.insert(number);
        if number == self.lowest {
            let run = self.used.range(number..).zip(number..).take_while(|(used, at)| *used == at);
            self.lowest = run.last().map_or(number, |(_, at)| at + 1);
        }
        fresh
    }

    pub(super) fn give_back(&mut self, number: u32) {
        if self.used.remove(&number) {
            self.lowest = self.lowest.min(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_known_after_each_step() {
        let mut dense = Dense::default();
        for number in [0, 1, 3, 2] {
            assert!(dense.take(number));
        }
        assert_eq!(dense.lowest_free(), 4);
        dense.give_back(1);
        dense.give_back(3);
        assert_eq!(dense.lowest_free(), 1);
        assert!(dense.take(1));
        assert_eq!(dense.lowest_free(), 3);
        assert!(!dense.take(1));
    }
}
