//! Deadlock: the rule that names the call which closes a cycle of waiting endpoints.
//!
//! As in Minix, an endpoint waits for at most one other. The graph is therefore a set of chains,
//! and one chain decides. An endpoint that waits for ANY waits for no particular endpoint, so it is
//! in no cycle.
//!
//! Two endpoints are no deadlock if one sends and the other receives from it: they are about to
//! meet. Two senders, or two receivers, are a deadlock. A longer cycle is always a deadlock.
//!
//! Limits: no wait for several peers at once. The rule names the endpoint whose call ends with
//! -101; it does not break the cycle.
//!
//! # Source
//! Minix 3, `kernel/proc.c`, `deadlock()`; the contract, "Where the later releases err, and ours
//! does not".

use std::collections::BTreeMap;

use m3ipc_abi::Address;

/// The call in which an endpoint is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedIn {
    /// `send`, or `sendrec` before the take of its request: the peer has to receive.
    Send,
    /// `receive` from one source, or `sendrec` after the take: the peer has to send.
    Receive,
}

/// An endpoint that waits for one other endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The waiting endpoint.
    pub endpoint: Address,
    /// The endpoint that it waits for.
    pub peer: Address,
    /// The call.
    pub call: BlockedIn,
    /// The start of the wait: any rising number (nanoseconds, a serial number).
    pub since: u64,
}

/// A cycle of waiting endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its members. Each waits for the next, the last for the first.
    pub members: Vec<Address>,
    /// The youngest waiter (of equals, the highest address). Its call ends with -101.
    pub closer: Address,
}

/// The cycle of which `start` is a member, if there is one.
///
/// The last record of an endpoint counts. The function does not report a cycle further along the
/// chain without `start`; the members of that cycle find it themselves.
#[must_use]
pub fn cycle_through<'a>(
    start: Address,
    records: impl IntoIterator<Item = &'a Blocked>,
) -> Option<Cycle> {
    let graph: BTreeMap<Address, &Blocked> =
        records.into_iter().map(|record| (record.endpoint, record)).collect();
    let first = *graph.get(&start)?;
    let mut chain = vec![first];
    let mut next = first.peer;
    while next != start {
        let record = *graph.get(&next)?;
        chain.push(record);
        if chain.len() > graph.len() {
            return None;
        }
        next = record.peer;
    }
    if let [one, other] = chain[..]
        && one.call != other.call
    {
        return None;
    }
    let closer = chain.iter().max_by_key(|record| (record.since, record.endpoint))?.endpoint;
    Some(Cycle { members: chain.iter().map(|record| record.endpoint).collect(), closer })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(endpoint: i32, peer: i32, call: BlockedIn, since: u64) -> Blocked {
        Blocked { endpoint: Address(endpoint), peer: Address(peer), call, since }
    }

    #[test]
    fn a_chain_that_ends_is_no_cycle() {
        let records = [blocked(1, 2, BlockedIn::Send, 1), blocked(2, 3, BlockedIn::Send, 2)];
        assert_eq!(cycle_through(Address(1), &records), None);
        assert_eq!(cycle_through(Address(3), &records), None);
    }

    #[test]
    fn two_senders_are_a_cycle_and_the_younger_closes_it() {
        let records = [blocked(1, 2, BlockedIn::Send, 7), blocked(2, 1, BlockedIn::Send, 3)];
        let cycle = cycle_through(Address(2), &records).unwrap();
        assert_eq!(cycle.members, [Address(2), Address(1)]);
        assert_eq!(cycle.closer, Address(1));
    }

    #[test]
    fn two_receivers_are_a_cycle() {
        let records = [blocked(1, 2, BlockedIn::Receive, 1), blocked(2, 1, BlockedIn::Receive, 2)];
        assert_eq!(cycle_through(Address(1), &records).unwrap().closer, Address(2));
    }

    #[test]
    fn a_sender_and_its_receiver_are_about_to_meet() {
        let records = [blocked(1, 2, BlockedIn::Send, 1), blocked(2, 1, BlockedIn::Receive, 2)];
        assert_eq!(cycle_through(Address(1), &records), None);
    }

    #[test]
    fn three_of_any_calls_are_a_cycle() {
        let records = [
            blocked(1, 2, BlockedIn::Send, 1),
            blocked(2, 3, BlockedIn::Receive, 5),
            blocked(3, 1, BlockedIn::Send, 4),
        ];
        let cycle = cycle_through(Address(3), &records).unwrap();
        assert_eq!((cycle.members.len(), cycle.closer), (3, Address(2)));
    }

    #[test]
    fn a_cycle_elsewhere_is_left_to_its_members() {
        let records = [
            blocked(9, 1, BlockedIn::Send, 1),
            blocked(1, 2, BlockedIn::Send, 2),
            blocked(2, 1, BlockedIn::Send, 3),
        ];
        assert_eq!(cycle_through(Address(9), &records), None);
    }
}
