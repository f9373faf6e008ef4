//! The oracle's own check for deadlock, independent of the daemon's.
//!
//! The daemon follows a chain of waiting endpoints and stops at the first repetition. The oracle
//! instead counts steps: in `n` waiting endpoints, a cycle through an endpoint leads back to it
//! after at most `n` steps. Two endpoints of which one sends and the other receives are about to
//! meet, and are no deadlock.

use m3ipc_abi::Address;

/// An endpoint that waits for one other endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The waiting endpoint.
    pub endpoint: Address,
    /// The endpoint that it waits for.
    pub peer: Address,
    /// Whether it has a message for the peer; otherwise it waits for a message of the peer.
    pub sends: bool,
}

/// The members of the deadlock of which `start` is one: each waits for the next, the last for the
/// first.
#[must_use]
pub fn deadlock_of(start: Address, waiters: &[Waiter]) -> Option<Vec<Address>> {
    let wait_of = |endpoint| waiters.iter().find(|waiter| waiter.endpoint == endpoint);
    let chain: Vec<&Waiter> = std::iter::successors(wait_of(start), |waiter| wait_of(waiter.peer))
        .take(waiters.len())
        .collect();
    let length = chain.iter().position(|waiter| waiter.peer == start)? + 1;
    let members = &chain[..length];
    let about_to_meet = length == 2 && members[0].sends != members[1].sends;
    (!about_to_meet).then(|| members.iter().map(|waiter| waiter.endpoint).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(endpoint: i32, peer: i32, sends: bool) -> Waiter {
        Waiter { endpoint: Address(endpoint), peer: Address(peer), sends }
    }

    #[test]
    fn a_chain_that_ends_is_no_deadlock() {
        let waiters = [waiter(1, 2, true), waiter(2, 3, true)];
        assert_eq!(deadlock_of(Address(1), &waiters), None);
        assert_eq!(deadlock_of(Address(3), &waiters), None);
    }

    #[test]
    fn two_senders_or_two_receivers_are_a_deadlock_and_a_pair_is_not() {
        for (one, other, is_deadlock) in
            [(true, true, true), (false, false, true), (true, false, false), (false, true, false)]
        {
            let waiters = [waiter(1, 2, one), waiter(2, 1, other)];
            assert_eq!(deadlock_of(Address(1), &waiters).is_some(), is_deadlock);
        }
    }

    #[test]
    fn three_are_a_deadlock_and_a_deadlock_elsewhere_does_not_count() {
        let waiters =
            [waiter(1, 2, true), waiter(2, 3, false), waiter(3, 1, true), waiter(9, 1, true)];
        let members = [Address(3), Address(1), Address(2)];
        assert_eq!(deadlock_of(Address(3), &waiters).as_deref(), Some(&members[..]));
        assert_eq!(deadlock_of(Address(9), &waiters), None);
    }
}
