//! The marked slots that a wait reports, in the order of their marks.

use super::set::{Patience, Report, Set, each_bit};
use crate::connection::armed_poller::{ArmedPoller, BIT_WORDS};
use core::sync::atomic::Ordering;
use m3ipc_sys::monotonic_ns;

/// Slots of one list at most; later marks wait for the next list.
const SLOTS_MAX: usize = 256;
/// Looks of one list: each further look follows marks of the last microseconds.
const LOOKS_MAX: u32 = 8;

/// Marked slots with bytes, by the moments of their marks.
#[derive(Debug)]
pub(super) struct Due {
    slots: [(u64, u32); SLOTS_MAX],
    count: usize,
    /// What is left of the patience with senders that publish.
    pub(super) patience: Patience,
}

impl Due {
    const fn none() -> Self {
        Self { slots: [(0, 0); SLOTS_MAX], count: 0, patience: Patience::new() }
    }

    /// Takes the oldest marks of a set.
    ///
    /// One look over the words may find a mark and miss an earlier one in a word that it has left.
    /// The looks go on until one finds no mark that is older than the youngest of the first look.
    pub(super) fn take(set: &Set, poller: Option<ArmedPoller>) -> Option<Self> {
        // The list has 4 KiB, which most waits need not clear.
        set.has_marks(poller).then(|| Self::take_marks(set, poller))
    }

    fn take_marks(set: &Set, poller: Option<ArmedPoller>) -> Self {
        let mut due = Self::none();
        let start_ns = monotonic_ns();
        let mut found = [0_u64; BIT_WORDS];
        for (word, found) in found.iter_mut().enumerate().take(set.words()) {
            *found = set.take_own_marks(word);
        }
        if let Some(poller) = poller {
            find_bits(set, poller, start_ns, &mut found);
            for (word, found) in found.iter().enumerate().take(set.words()) {
                // A bit that its sender has withdrawn has a wakeup byte, which the kernel reports.
                let _ = poller.take_some(word, *found);
            }
        }
        set.gathered_ns.store(start_ns, Ordering::Relaxed);
        // Now that the bits are taken: bytes that arrive from now on are none of this list.
        for (word, found) in found.iter().enumerate().take(set.words()) {
            each_bit(*found, |bit| due.add(set, word * 64 + bit));
        }
        due
    }

    /// Inserts a slot, if it has bytes: a mark without bytes takes no place. The youngest mark
    /// stays with the set where there is no room for all.
    fn add(&mut self, set: &Set, slot: usize) {
        let at_ns = set.own_moment(slot);
        match set.report(slot, &self.patience) {
            Report::Nothing => {}
            Report::Later => set.keep(slot, at_ns),
            Report::Bytes { .. } => {
                if let Some((late_ns, late)) = self.insert(at_ns, slot) {
                    set.keep(late, late_ns);
                }
            }
        }
    }

    /// Inserts a slot; the youngest mark, where there is no room for all.
    fn insert(&mut self, at_ns: u64, slot: usize) -> Option<(u64, usize)> {
        let entry = (at_ns, u32::try_from(slot).unwrap_or(u32::MAX));
        let mut evicted = None;
        if self.count == SLOTS_MAX {
            let last = self.slots[SLOTS_MAX - 1];
            if last <= entry {
                return Some((at_ns, slot));
            }
            evicted = Some((last.0, last.1 as usize));
            self.count -= 1;
        }
        let mut at = self.count;
        while at > 0 && self.slots[at - 1] > entry {
            self.slots[at] = self.slots[at - 1];
            at -= 1;
        }
        self.slots[at] = entry;
        self.count += 1;
        evicted
    }

    /// The slots with their moments, the oldest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u64, usize)> {
        self.slots[..self.count].iter().map(|(at_ns, slot)| (*at_ns, *slot as usize))
    }
}

/// Adds the bits of senders to the marks of a list, and notes their moments.
fn find_bits(set: &Set, poller: ArmedPoller, start_ns: u64, found: &mut [u64; BIT_WORDS]) {
    let mut youngest_ns = 0;
    for look in 0..LOOKS_MAX {
        let mut any = false;
        for (word, found) in found.iter_mut().enumerate().take(set.words()) {
            let mut wanted = 0;
            // A sender notes the moment before it sets the bit, and not again while it is set.
            each_bit(poller.peek(word) & !*found, |bit| {
                let stamp_ns = set.stamp(word * 64 + bit);
                let now_ns = if stamp_ns > start_ns { monotonic_ns() } else { start_ns };
                let at_ns = set.within(stamp_ns, now_ns);
                if look == 0 || at_ns < youngest_ns {
                    youngest_ns = youngest_ns.max(at_ns);
                    set.note_moment(word * 64 + bit, at_ns);
                    wanted |= 1 << bit;
                }
            });
            *found |= wanted;
            any |= wanted != 0;
        }
        if !any {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_marks_stay_in_their_order() {
        let mut due = Due::none();
        for at in (0..SLOTS_MAX as u64).rev() {
            assert_eq!(due.insert(10 + 2 * at, usize::try_from(at).unwrap()), None);
        }
        assert_eq!(due.insert(900, 900), Some((900, 900)), "younger than all others");
        assert_eq!(due.insert(11, 901), Some((10 + 2 * 255, 255)), "the youngest leaves");
        let slots: Vec<(u64, usize)> = due.slots().collect();
        assert_eq!(slots.len(), SLOTS_MAX);
        assert_eq!(slots[..3], [(10, 0), (11, 901), (12, 1)]);
        assert!(slots.is_sorted());
    }
}
