//! The berth: where a party of a copy lies while the other one copies.
//!
//! Each side of a link has one word for it, which only the two parties can
//! reach. A party that nobody copies with never touches it.
//!
//! | state | who moves it on | to |
//! |---|---|---|
//! | RUNNING | party: [`park`], when it begins to wait | PARKED |
//! | PARKED | requester: [`begin`], by compare-and-swap | COPYING |
//! | PARKED | party: [`leave`], by compare-and-swap | RUNNING |
//! | COPYING | requester: [`end`] | PARKED |
//! | COPYING | party: [`leave`], which then sleeps on the word | AWAITED |
//! | AWAITED | requester: [`end`], which then wakes the party | RUNNING |
//!
//! A party that takes its memory back from one who has died or holds it too long
//! writes EVICTED: that one has to ask for a berth anew, and the daemon asks the party.
//!
//! Between PARKED and RUNNING the party touches nothing that it does not own
//! by the call it is in; between COPYING and what follows it its memory is the
//! requester's to copy. One compare-and-swap decides who is first.

use crate::words::Word32;
use core::sync::atomic::Ordering;

/// The party runs: its memory is its own.
pub const RUNNING: u32 = 0;
const PARKED: u32 = 1;
const COPYING: u32 = 2;
/// The party has something to do and sleeps on the word until the copy has ended.
pub const AWAITED: u32 = 3;
const REVOKED: u32 = 4;

/// Why a copy cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotParked {
    /// The party runs.
    Running,
    /// Another copy of the same requester has not ended, or the party is about to leave.
    Busy,
}

/// What a party that wants to leave has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing: its memory is its own again.
    Left,
    /// Sleep while the word is [`AWAITED`], then ask again.
    Wait,
}

/// The party begins to wait: from here on it may be copied with.
#[inline]
pub fn park(word: &impl Word32) {
    word.store(PARKED, Ordering::Release); // pairs with the exchange in `begin`
}

/// The requester begins to copy.
///
/// # Errors
/// [`NotParked`]; nothing may be copied then.
#[inline]
pub fn begin_copy(word: &impl Word32) -> Result<(), NotParked> {
    match word.compare_exchange(PARKED, COPYING) {
        Ok(_) => Ok(()),
        Err(COPYING | AWAITED) => Err(NotParked::Busy),
        Err(_) => Err(NotParked::Running),
    }
}

/// The requester has copied; `true` where the party sleeps on the word and must be woken.
#[inline]
#[must_use]
pub fn end_copy(word: &impl Word32) -> bool {
    match word.compare_exchange(COPYING, PARKED) {
        Err(AWAITED) => {
            word.store(RUNNING, Ordering::Release); // pairs with the exchanges in `leave`
            true
        }
        // Anything else: the party has gone by force, and the word is its own.
        Ok(_) | Err(_) => false,
    }
}

/// Whether a copy that has begun may still go on: the party is there.
#[inline]
#[must_use]
pub fn is_copying(word: &impl Word32) -> bool {
    matches!(word.load(Ordering::Acquire), COPYING | AWAITED)
}

/// The party wants its memory back.
#[inline]
pub fn leave(word: &impl Word32) -> Leave {
    match word.compare_exchange(PARKED, RUNNING) {
        Err(COPYING) if word.compare_exchange(COPYING, AWAITED).is_ok() => Leave::Wait,
        // It has ended just now: the next try leaves.
        Err(COPYING) => Leave::Wait,
        Err(AWAITED) => Leave::Wait,
        Ok(_) | Err(RUNNING | REVOKED) => Leave::Left,
        Err(_) => {
            revoke(word);
            Leave::Left
        }
    }
}

/// The party takes its memory back from a requester that has died or broken the rules.
pub fn revoke(word: &impl Word32) {
    word.store(REVOKED, Ordering::Release); // pairs with the exchange in `begin`
}

/// Whether the party has taken its memory back by force: the requester has no berth any more.
#[inline]
#[must_use]
pub fn is_revoked(word: &impl Word32) -> bool {
    word.load(Ordering::Relaxed) == REVOKED
}
