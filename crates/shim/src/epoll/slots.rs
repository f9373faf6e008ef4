//! The slots of a set: a few of its own, and a larger table for a set of many sockets.
//!
//! All tables lie in the library's image. They take memory from the system only where they are
//! used.

use super::slot::Slot;
use crate::connection::armed_poller::BIT_WORDS;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::RawFd;

/// Slots of a set at most; sockets beyond need wakeup bytes.
pub(super) const SLOTS: usize = BIT_WORDS * 64;
/// Slots that each set has.
const OWN: usize = 1024;
/// Sets of a process that may have more slots than their own.
const LARGE_SETS: usize = 8;

/// The further slots of a large set.
type Table = [Slot; SLOTS - OWN];

static TABLES: [Table; LARGE_SETS] = [const { [const { Slot::new() }; SLOTS - OWN] }; LARGE_SETS];
/// Not 0: a set has the table.
static TAKEN: [AtomicU32; LARGE_SETS] = [const { AtomicU32::new(0) }; LARGE_SETS];

/// The slots of a set.
#[derive(Debug)]
pub(super) struct Slots {
    own: [Slot; OWN],
    /// The table of a large set plus one; 0 is none.
    table: AtomicU32,
    /// One more than the highest slot in use.
    top: AtomicU32,
    /// No slot below is free.
    free_from: AtomicU32,
}

impl Slots {
    /// Free slots: all zeros.
    pub(super) const fn new() -> Self {
        Self {
            own: [const { Slot::new() }; OWN],
            table: AtomicU32::new(0),
            top: AtomicU32::new(0),
            free_from: AtomicU32::new(0),
        }
    }

    fn table(&self) -> Option<&'static Table> {
        TABLES.get((self.table.load(Ordering::Acquire) as usize).checked_sub(1)?)
    }

    /// The slot of a number.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&Slot> {
        match slot.checked_sub(OWN) {
            None => self.own.get(slot),
            Some(further) => self.table()?.get(further),
        }
    }

    /// Slots that may be in use.
    pub(super) fn top(&self) -> usize {
        (self.top.load(Ordering::Acquire) as usize).min(SLOTS)
    }

    /// Takes a free slot for a descriptor.
    pub(super) fn take(&self, fd: RawFd) -> Option<usize> {
        let from = self.free_from.load(Ordering::Acquire);
        let slot = self.take_from(from as usize, fd).or_else(|| self.take_from(0, fd))?;
        let next = u32::try_from(slot).unwrap_or(0) + 1;
        let _ = self.free_from.compare_exchange(from, next, Ordering::AcqRel, Ordering::Relaxed);
        self.top.fetch_max(next, Ordering::AcqRel);
        Some(slot)
    }

    fn take_from(&self, from: usize, fd: RawFd) -> Option<usize> {
        let free = |slot: &usize| self.get(*slot).is_some_and(|slot| slot.take(fd));
        (from..OWN)
            .find(free)
            .or_else(|| self.open_table().then(|| (from.max(OWN)..SLOTS).find(free)).flatten())
    }

    /// Gives the set a table, where one is left.
    fn open_table(&self) -> bool {
        if self.table.load(Ordering::Acquire) != 0 {
            return true;
        }
        let (free, taken) = (0, 1);
        let is_free = |at: &usize| {
            TAKEN[*at].compare_exchange(free, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(at) = (0..LARGE_SETS).find(is_free) else { return false };
        let number = u32::try_from(at).unwrap_or(0) + 1;
        let set = self.table.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed);
        if set.is_err() {
            TAKEN[at].store(0, Ordering::Release);
        }
        true
    }

    /// Frees a slot.
    pub(super) fn leave(&self, slot: usize) {
        if let Some(left) = self.get(slot) {
            left.leave();
            self.free_from.fetch_min(u32::try_from(slot).unwrap_or(0), Ordering::AcqRel);
        }
    }

    /// Frees all slots of a set that no descriptor refers to, and its table.
    pub(super) fn clear(&self) {
        for slot in (0..self.top()).filter_map(|slot| self.get(slot)) {
            slot.clear();
        }
        self.top.store(0, Ordering::Release);
        self.free_from.store(0, Ordering::Relaxed);
        if let Some(table) = (self.table.swap(0, Ordering::AcqRel) as usize).checked_sub(1) {
            TAKEN[table % LARGE_SETS].store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIRST: Slots = Slots::new();
    static OTHER: [Slots; LARGE_SETS] = [const { Slots::new() }; LARGE_SETS];

    #[test]
    fn a_large_set_has_a_table_until_it_is_cleared() {
        let fd = |slot: usize| i32::try_from(slot).unwrap();
        for slot in 0..SLOTS {
            assert_eq!(FIRST.take(fd(slot)), Some(slot));
        }
        assert_eq!((FIRST.take(1), FIRST.top()), (None, SLOTS));
        FIRST.leave(OWN + 7);
        FIRST.leave(9);
        assert_eq!(FIRST.get(9).unwrap().fd(), -1);
        assert_eq!((FIRST.take(1), FIRST.take(2), FIRST.take(3)), (Some(9), Some(OWN + 7), None));
        for set in &OTHER {
            (0..OWN).for_each(|slot| assert_eq!(set.take(fd(slot)), Some(slot)));
        }
        let large = OTHER.iter().filter(|set| set.take(1) == Some(OWN)).count();
        assert_eq!(large, LARGE_SETS - 1, "the first set has a table");
        FIRST.clear();
        let last = OTHER.iter().find(|set| set.table().is_none()).unwrap();
        assert_eq!((FIRST.top(), last.take(1)), (0, Some(OWN)));
        assert_eq!(FIRST.take(5), Some(0));
        OTHER.iter().for_each(Slots::clear);
        FIRST.clear();
    }
}
