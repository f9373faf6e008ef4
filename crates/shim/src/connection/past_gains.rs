//! What earlier connections of this process gained by their rings: a trial for the next ones.
//!
//! A connection whose ring gains nothing finds that out in two rests, some thousand sends later.
//! Servers take new connections of the same kind all the time. So after one that left its rings
//! for that reason, the next ones leave them at their first rest. One connection of
//! [`SKIPPED`] + 1 goes through both rests again: the cause may have passed. A ring that pays ends
//! the shortcut at once, and so do spins that find messages.

use core::sync::atomic::{AtomicU32, Ordering};

/// Directions that leave at their first rest, after one that gained nothing in two.
const SKIPPED: u32 = 15;
/// Spins that found messages since then, and end the shortcut.
const HITS_MAX: u32 = 256;

/// The gains of one process. Threads may lose one another's counts, which makes the shortcut
/// longer or shorter by one direction.
#[derive(Debug)]
pub struct PastGains {
    /// Directions that may still take the shortcut.
    left: AtomicU32,
    /// The spins that had found something when it began.
    hits: AtomicU32,
}

static OF_PROCESS: PastGains = PastGains::new();

impl PastGains {
    /// No connection gained nothing yet.
    pub(super) const fn new() -> Self {
        Self { left: AtomicU32::new(0), hits: AtomicU32::new(0) }
    }

    /// The record of this process.
    pub(super) fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// A direction rests again and gained nothing, after so many spins that found something.
    pub(super) fn note_none(&self, hits: u32) {
        self.hits.store(hits, Ordering::Relaxed);
        self.left.store(SKIPPED, Ordering::Relaxed);
    }

    /// The ring of a direction pays.
    pub(super) fn note_gain(&self) {
        if self.left.load(Ordering::Relaxed) != 0 {
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// A direction rests for the first time: whether it needs no second rest to know that its ring
    /// gains nothing.
    pub(super) fn foretell_none(&self, hits: u32) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 || hits.wrapping_sub(self.hits.load(Ordering::Relaxed)) >= HITS_MAX {
            return false;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_directions_take_the_shortcut_and_the_next_one_rests_twice() {
        let gains = PastGains::new();
        assert!(!gains.foretell_none(0), "nothing is known");
        gains.note_none(7);
        assert_eq!((0..).find(|_direction| !gains.foretell_none(7)), Some(SKIPPED));
        gains.note_none(7);
        assert!(gains.foretell_none(7));
    }

    #[test]
    fn a_ring_that_pays_and_spins_that_find_messages_end_the_shortcut() {
        let gains = PastGains::new();
        gains.note_none(u32::MAX);
        assert!(gains.foretell_none(HITS_MAX - 2), "the count of spins wraps");
        assert!(!gains.foretell_none(HITS_MAX - 1));
        gains.note_none(0);
        gains.note_gain();
        assert!(!gains.foretell_none(0));
    }
}
