//! Deadlock: the call that closes a circle of waiting endpoints is refused.
//!
//! As in Minix, every endpoint waits for at most one other, so the graph is a
//! set of chains and following one of them is enough. Who waits for ANY waits
//! for nobody in particular and never is in a circle. A group of two in which one
//! sends and the other receives from it is about to meet, and no deadlock; two who
//! both send, or both receive, are. In a longer circle no two wait for each
//! other, so it is always a deadlock.
//!
//! What it does not do: wait for several peers at once; break a circle (it names
//! the one whose call ends with -101, no more).
//!
//! # Source
//! Minix 3, `kernel/proc.c`, `deadlock()`; the contract, "Where the later
//! releases err, and ours does not".

use std::collections::BTreeMap;

use m3ipc_abi::Address;

/// What a blocked endpoint waits for its peer to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// In send, or in a sendrec whose request nobody took yet: the peer is to receive.
    Sending,
    /// In receive of one source, or in a sendrec whose request was taken: the peer is to send.
    Receiving,
}

/// One endpoint that waits for one other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Who waits.
    pub who: Address,
    /// For whom.
    pub waits_for: Address,
    /// For what.
    pub verb: Verb,
    /// When it began to wait: any number that rises (nanoseconds, a serial number).
    pub since: u64,
}

/// A circle of waiting endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its members, each waiting for the next and the last for the first.
    pub members: Vec<Address>,
    /// The youngest waiter (of equals the highest address): its call gets -101.
    pub closer: Address,
}

/// The circle that `start` is part of, if there is one.
///
/// Of several records of one `who` the last counts. A circle further along
/// the chain that does not pass through `start` is not reported: its own
/// members report it.
#[must_use]
pub fn closes_cycle<'a>(
    start: Address,
    records: impl IntoIterator<Item = &'a Blocked>,
) -> Option<Cycle> {
    let graph: BTreeMap<Address, &Blocked> =
        records.into_iter().map(|record| (record.who, record)).collect();
    let first = *graph.get(&start)?;
    let mut group = vec![first];
    let mut next = first.waits_for;
    while next != start {
        let record = *graph.get(&next)?;
        group.push(record);
        if group.len() > graph.len() {
            return None;
        }
        next = record.waits_for;
    }
    if let [one, other] = group[..]
        && one.verb != other.verb
    {
        return None;
    }
    let closer = group.iter().max_by_key(|record| (record.since, record.who))?.who;
    Some(Cycle { members: group.iter().map(|record| record.who).collect(), closer })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(who: i32, waits_for: i32, verb: Verb, since: u64) -> Blocked {
        Blocked { who: Address(who), waits_for: Address(waits_for), verb, since }
    }

    #[test]
    fn a_chain_that_ends_is_no_cycle() {
        let records = [blocked(1, 2, Verb::Sending, 1), blocked(2, 3, Verb::Sending, 2)];
        assert_eq!(closes_cycle(Address(1), &records), None);
        assert_eq!(closes_cycle(Address(3), &records), None);
    }

    #[test]
    fn two_senders_are_a_cycle_and_the_younger_closes_it() {
        let records = [blocked(1, 2, Verb::Sending, 7), blocked(2, 1, Verb::Sending, 3)];
        let cycle = closes_cycle(Address(2), &records).unwrap();
        assert_eq!(cycle.members, [Address(2), Address(1)]);
        assert_eq!(cycle.closer, Address(1));
    }

    #[test]
    fn two_receivers_are_a_cycle() {
        let records = [blocked(1, 2, Verb::Receiving, 1), blocked(2, 1, Verb::Receiving, 2)];
        assert_eq!(closes_cycle(Address(1), &records).unwrap().closer, Address(2));
    }

    #[test]
    fn a_sender_and_its_receiver_are_about_to_meet() {
        let records = [blocked(1, 2, Verb::Sending, 1), blocked(2, 1, Verb::Receiving, 2)];
        assert_eq!(closes_cycle(Address(1), &records), None);
    }

    #[test]
    fn three_of_any_verbs_are_a_cycle() {
        let records = [
            blocked(1, 2, Verb::Sending, 1),
            blocked(2, 3, Verb::Receiving, 5),
            blocked(3, 1, Verb::Sending, 4),
        ];
        let cycle = closes_cycle(Address(3), &records).unwrap();
        assert_eq!((cycle.members.len(), cycle.closer), (3, Address(2)));
    }

    #[test]
    fn a_circle_elsewhere_is_left_to_its_members() {
        let records = [
            blocked(9, 1, Verb::Sending, 1),
            blocked(1, 2, Verb::Sending, 2),
            blocked(2, 1, Verb::Sending, 3),
        ];
        assert_eq!(closes_cycle(Address(9), &records), None);
    }
}
