//! The copy gate: the word by which a waiting party admits a copy of its memory.
//!
//! Each side of a link has one gate, which only the two parties can reach. A party without copies
//! never touches it.
//!
//! | state | moved by | to |
//! |---|---|---|
//! | RUNNING | party: [`park`], when it begins to wait | PARKED |
//! | PARKED | requester: [`begin_copy`], by compare-and-swap | COPYING |
//! | PARKED | party: [`close_all`] or [`leave`], by compare-and-swap | RUNNING |
//! | COPYING | requester: [`end_copy`] | PARKED |
//! | COPYING | party: [`close_all`] or [`leave`]; it then sleeps on the word | AWAITED |
//! | AWAITED | requester: [`end_copy`], which then wakes the party | RUNNING |
//! | any | party: [`revoke`] | REVOKED |
//!
//! A party revokes the gate if the requester has died or holds it too long. The requester must then
//! ask the daemon for the gate anew, and the daemon asks the party.
//!
//! A party with many gates closes all of them before it awaits the first copy. No copy begins in
//! that wait, and each copy in progress has the whole time limit.
//!
//! Between PARKED and RUNNING, the party touches no memory that its call has lent. While the gate
//! is COPYING or AWAITED, the requester may copy that memory. One compare-and-swap decides between
//! both.

use crate::words::Word32;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_shm::{RegionCopier, RegionPass};

/// The party runs and uses its memory.
pub const RUNNING: u32 = 0;
const PARKED: u32 = 1;
const COPYING: u32 = 2;
/// The party must leave, and sleeps on the word until the copy ends.
pub const AWAITED: u32 = 3;
const REVOKED: u32 = 4;

/// The reason for a refused copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotParked {
    /// The party runs.
    Running,
    /// Another copy of this requester has not ended, or the party is about to leave.
    Busy,
}

/// The next step of a party that leaves its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// None: the party has its memory back.
    Left,
    /// Sleep while the word is [`AWAITED`], then call [`leave`] again.
    Wait,
}

/// The party begins to wait and admits copies.
#[inline]
pub fn park(word: &impl Word32) {
    word.store(PARKED, Ordering::Release); // pairs with the exchange of `begin_copy`
}

/// The requester begins to copy in an area, which its copier then does.
///
/// # Errors
/// As [`begin_copy`].
#[inline]
pub fn begin_copy_in<'a>(
    word: &AtomicU32,
    copier: &'a mut RegionCopier,
) -> Result<RegionPass<'a>, NotParked> {
    copier.begin(word, PARKED, COPYING).map_err(why_refused)
}

/// The requester begins to copy.
///
/// # Errors
/// [`NotParked`]: the requester must not copy.
#[inline]
pub fn begin_copy(word: &impl Word32) -> Result<(), NotParked> {
    word.compare_exchange(PARKED, COPYING).map(drop).map_err(why_refused)
}

#[cold]
fn why_refused(state: u32) -> NotParked {
    match state {
        COPYING | AWAITED => NotParked::Busy,
        _ => NotParked::Running,
    }
}

/// The requester has copied. `true` if the party sleeps on the word: wake it.
#[inline]
#[must_use]
pub fn end_copy(word: &impl Word32) -> bool {
    match word.compare_exchange(COPYING, PARKED) {
        Err(AWAITED) => {
            word.store(RUNNING, Ordering::Release); // pairs with the exchanges of `leave`
            true
        }
        // In any other state, the party has revoked the gate.
        Ok(_) | Err(_) => false,
    }
}

/// Whether a copy may go on: the party has not revoked the gate.
#[inline]
#[must_use]
pub fn is_copying(word: &impl Word32) -> bool {
    matches!(word.load(Ordering::Acquire), COPYING | AWAITED)
}

/// The party asks for its memory.
#[inline]
pub fn leave(word: &impl Word32) -> Leave {
    match word.compare_exchange(PARKED, RUNNING) {
        Err(COPYING) if word.compare_exchange(COPYING, AWAITED).is_ok() => Leave::Wait,
        // The copy has just ended: the next call leaves.
        Err(COPYING) => Leave::Wait,
        Err(AWAITED) => Leave::Wait,
        Ok(_) | Err(RUNNING | REVOKED) => Leave::Left,
        Err(_) => {
            revoke(word);
            Leave::Left
        }
    }
}

/// Attempts to close one gate. Each fails only if a copy begins or ends during it.
const CLOSE_TRIES: u32 = 4;

/// The party closes its gates: no new copy begins. `true` if a copy is in progress: call [`unpark`]
/// for each gate.
#[must_use]
pub fn close_all<'a, W: Word32 + 'a>(gates: impl Iterator<Item = &'a W>) -> bool {
    // Every gate is closed, also after the first one with a copy.
    gates.fold(false, |is_awaited, gate| is_awaited | !close(gate))
}

/// Closes one gate; `false` if its copy is in progress.
fn close(gate: &impl Word32) -> bool {
    for _ in 0..CLOSE_TRIES {
        if leave(gate) == Leave::Left {
            return true;
        }
        if gate.load(Ordering::Relaxed) == AWAITED {
            return false;
        }
    }
    false
}

/// How a party got its memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unparked {
    /// No copy was open, or it ended.
    Left,
    /// The party revoked the gate during a copy.
    Revoked,
}

/// The party leaves its gate. `word` is the gate, or `None` if the link is gone meanwhile. `wait`
/// sleeps while the gate is [`AWAITED`], or for a shorter time. It returns `false` if the requester
/// has died or broken its time limit; the party then revokes the gate.
pub fn unpark<P: ?Sized, W: Word32>(
    party: &mut P,
    word: impl Fn(&P) -> Option<&W>,
    mut wait: impl FnMut(&mut P) -> bool,
) -> Unparked {
    while word(party).is_some_and(|gate| leave(gate) == Leave::Wait) {
        if !wait(party) {
            if let Some(gate) = word(party) {
                revoke(gate);
            }
            return Unparked::Revoked;
        }
    }
    Unparked::Left
}

/// The party takes its memory back from a requester that has died or broken the rules.
pub fn revoke(word: &impl Word32) {
    word.store(REVOKED, Ordering::Release); // pairs with the exchange of `begin_copy`
}

/// Whether the party has revoked the gate. The requester must ask for the gate anew.
#[inline]
#[must_use]
pub fn is_revoked(word: &impl Word32) -> bool {
    word.load(Ordering::Relaxed) == REVOKED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_runs_only_while_its_party_is_parked() {
        let gate = AtomicU32::new(RUNNING);
        assert_eq!(begin_copy(&gate), Err(NotParked::Running));
        park(&gate);
        assert_eq!(begin_copy(&gate), Ok(()));
        assert_eq!(begin_copy(&gate), Err(NotParked::Busy));
        assert_eq!(leave(&gate), Leave::Wait);
        assert!(is_copying(&gate) && end_copy(&gate), "the party awaits the end");
        assert_eq!((leave(&gate), begin_copy(&gate)), (Leave::Left, Err(NotParked::Running)));
    }

    #[test]
    fn no_copy_begins_while_another_gate_is_awaited() {
        let gates = [const { AtomicU32::new(RUNNING) }; 3];
        gates.iter().for_each(park);
        assert_eq!(begin_copy(&gates[0]), Ok(()));
        assert_eq!(begin_copy(&gates[2]), Ok(()));
        assert!(close_all(gates.iter()), "two copies are in progress");
        assert_eq!(begin_copy(&gates[1]), Err(NotParked::Running));
        assert!(end_copy(&gates[0]) && is_copying(&gates[2]) && end_copy(&gates[2]));
        assert!(!close_all(gates.iter()), "no copy is left");
        assert!(gates.iter().all(|gate| begin_copy(gate) == Err(NotParked::Running)));
    }

    #[test]
    fn a_revoked_gate_admits_no_copy_until_it_is_parked_again() {
        let gate = AtomicU32::new(RUNNING);
        park(&gate);
        assert_eq!(begin_copy(&gate), Ok(()));
        let mut party = &gate;
        assert_eq!(unpark(&mut party, |gate| Some(*gate), |_gate| false), Unparked::Revoked);
        assert!(is_revoked(&gate) && !is_copying(&gate) && !end_copy(&gate));
        assert_eq!(begin_copy(&gate), Err(NotParked::Running));
        park(&gate);
        assert_eq!(begin_copy(&gate), Ok(()));
    }
}
