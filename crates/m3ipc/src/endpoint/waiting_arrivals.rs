//! Arrivals that wait for a receive, in the order in which they were found: the bound on each wait.
//!
//! The contract orders what waits: a remembered wakeup, notifications by slot, messages by priority
//! and time. Arrivals without end would then keep others out. So an arrival is *overdue* after
//! [`PASSES_MAX`] deliveries, or after as many as arrivals waited beside it if these were more. Of
//! two receives, one then delivers the arrival that waits longest.
//!
//! **The bound**, stated here once for messages, notifications, pulses, deaths and timers: an
//! arrival is delivered at the latest by receive `32 + 4 n` from ANY after the receive that found
//! it. `n` is the number of arrivals that waited then, itself included. A peer has at most one
//! message and one notification or pulse among them: its next one is a new arrival.
//!
//! What waits at a moment is delivered in the contract's order alone, if nothing new comes.

use m3ipc_abi::Address;
use std::collections::VecDeque;

/// Deliveries that may pass an arrival, if fewer arrivals wait.
pub(super) const PASSES_MAX: u64 = 32;

/// An arrival, by the way on which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextArrival {
    /// A message on the link of this index.
    Message(u32),
    /// A notification or a pulse on the link of this index.
    Notification(u32),
    /// A notification or a pulse of this source, which was kept.
    Kept(Address),
    /// The report of a death.
    Death,
    /// The pulse of a timer.
    Timer,
}

/// Tells one wait of an arrival from another.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct WaitingArrival {
    what: NextArrival,
    ticket: Ticket,
    /// The number of the delivery after which it is overdue; the maximum until all that came with
    /// it was found. Rises along the queue.
    due: u64,
}

/// The arrivals that wait. Entries of what was taken stay until they are seen.
#[derive(Debug, Default)]
pub(super) struct WaitingArrivals {
    entries: VecDeque<WaitingArrival>,
    deliveries: u64,
    last_ticket: Ticket,
    /// The length after the latest removal of all entries of what was taken.
    cleared_len: usize,
    /// Whether the latest delivery was that of an overdue arrival.
    was_overdue: bool,
}

impl WaitingArrivals {
    /// Adds an arrival that was found now.
    pub(super) fn add(&mut self, what: NextArrival) -> Ticket {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.entries.push_back(WaitingArrival { what, ticket, due: u64::MAX });
        ticket
    }

    /// All that is there has been found: new arrivals learn when they are overdue. `waits` tells of
    /// each entry whether its arrival still waits.
    pub(super) fn settle(&mut self, mut waits: impl FnMut(NextArrival, Ticket) -> bool) {
        while let Some(first) = self.entries.front()
            && !waits(first.what, first.ticket)
        {
            self.entries.pop_front();
        }
        // So at least half of the entries wait, beyond a small number.
        if self.entries.len() as u64 > PASSES_MAX.max(2 * self.cleared_len as u64) {
            self.entries.retain(|entry| waits(entry.what, entry.ticket));
            self.cleared_len = self.entries.len();
        }
        self.cleared_len = self.cleared_len.min(self.entries.len());
        let due = self.deliveries + PASSES_MAX.max(self.entries.len() as u64);
        let later = self.entries.iter_mut().rev().take_while(|entry| entry.due > due);
        later.for_each(|entry| entry.due = due);
    }

    /// The overdue arrival that waits longest and is `wanted`, if the next delivery is its turn.
    pub(super) fn overdue(
        &self,
        mut wanted: impl FnMut(NextArrival, Ticket) -> bool,
    ) -> Option<NextArrival> {
        if self.was_overdue {
            return None;
        }
        let mut due = self.entries.iter().take_while(|entry| entry.due <= self.deliveries);
        due.find(|entry| wanted(entry.what, entry.ticket)).map(|entry| entry.what)
    }

    /// Notes a delivery, and whether it was that of an overdue arrival.
    pub(super) fn note_delivery(&mut self, was_overdue: bool) {
        self.deliveries += 1;
        self.was_overdue = was_overdue;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Receives that find an arrival of each of `busy` peers anew, lowest first, until that of
    /// another peer is delivered. Their number.
    fn receives(busy: u32) -> u64 {
        let mut waiting = WaitingArrivals::default();
        let mut tickets = vec![0; busy as usize + 1];
        let mut present = BTreeSet::new();
        for number in 1.. {
            for index in 0..=busy {
                if present.insert(index) {
                    tickets[index as usize] = waiting.add(NextArrival::Notification(index));
                }
            }
            let is_present = |what, ticket| match what {
                NextArrival::Notification(index) => {
                    present.contains(&index) && tickets[index as usize] == ticket
                }
                _ => false,
            };
            waiting.settle(is_present);
            let overdue = waiting.overdue(is_present);
            let index = match overdue {
                Some(NextArrival::Notification(index)) => index,
                _ => *present.first().expect("all are there"),
            };
            waiting.note_delivery(overdue.is_some());
            present.remove(&index);
            if index == busy {
                return number;
            }
        }
        unreachable!("the numbers do not end")
    }

    #[test]
    fn each_arrival_comes_within_the_bound() {
        for busy in [1, 2, 8, 100, 1_000] {
            let number = receives(busy);
            assert!(number <= 32 + 4 * u64::from(busy + 1), "{number} beside {busy}");
        }
    }

    #[test]
    fn what_waits_at_a_moment_is_never_overdue() {
        let mut waiting = WaitingArrivals::default();
        let mut tickets: Vec<Ticket> =
            (0..500).map(|index| waiting.add(NextArrival::Message(index))).collect();
        // The latest ones go first.
        while let Some(taken) = tickets.pop() {
            waiting.settle(|_, ticket| ticket <= taken);
            assert_eq!(waiting.overdue(|_, ticket| ticket <= taken), None);
            waiting.note_delivery(false);
        }
    }

    #[test]
    fn entries_of_what_was_taken_do_not_collect_behind_one_that_waits() {
        let mut waiting = WaitingArrivals::default();
        let first = waiting.add(NextArrival::Message(0));
        for _ in 0..10_000 {
            waiting.add(NextArrival::Notification(1));
            waiting.settle(|_, ticket| ticket == first);
            assert!(waiting.entries.len() <= 33);
            waiting.note_delivery(false);
        }
    }
}
