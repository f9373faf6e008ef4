//! The door: the one word that says whether the receiver must be called.
//!
//! A bell is one record in the kernel's socket, so that poll, select and epoll see it. The rule that the whole of the
//! stream keeps: *outside of a call of the receiver, blocks hold bytes if and only if a bell lies in the
//! socket* (or is on its way there). So readiness, in every form the kernel has, is the kernel's own.
//!
//! | word | means | the next sender |
//! |---|---|---|
//! | ARMED | the receiver does not look | turns it to RUNG and rings |
//! | RUNG | a bell is in the socket, or on its way | does not ring |
//! | WATCHING(n) | the receiver looks, and takes all up to byte n before it leaves | rings only beyond n |
//!
//! Senders turn ARMED or WATCHING to RUNG; all else is the receiver's. Both may write the word: whoever
//! breaks the rule is not woken, or wakes too often, in this one connection.

use core::sync::atomic::Ordering;
use m3ipc_link::Word64;

const ARMED: u64 = 0;
const RUNG: u64 = 1;
const WATCHING: u64 = 2;
const STATE: u64 = 3;
const SHIFT: u32 = 2;

/// A peer that turns the word while we do gets its bell after so many tries.
const TRIES: u32 = 4;

fn watching(until: u64) -> u64 {
    until << SHIFT | WATCHING
}

/// Publishes that bytes up to `tail` are there; `true` where a bell must be rung for them.
#[inline]
pub fn publish(tail_word: &impl Word64, door: &impl Word64, tail: u64) -> bool {
    announce(tail_word, tail);
    call(door, tail)
}

/// The first half of [`publish`]: bytes up to `tail` are there. Whoever says so [calls](call) before he leaves, unless the
/// receiver has come by itself.
#[inline]
pub fn announce(tail_word: &impl Word64, tail: u64) {
    tail_word.swap(tail, Ordering::SeqCst);
    tail_word.fence_after_update(); // pairs with `answer`, `watch` and `rest`, after which the tail is read
}

/// Whether the receiver must be called for the bytes up to `tail`, as the door stands now.
#[inline]
pub fn needs_call(door: &impl Word64, tail: u64) -> bool {
    let seen = door.load(Ordering::SeqCst);
    match seen & STATE {
        RUNG => false,
        // Positions are below 2^62: a stream of a terabyte a second would take months to get there.
        WATCHING => seen >> SHIFT < tail,
        _ => true,
    }
}

/// The second half: `true` where a bell must be rung.
#[inline]
pub fn call(door: &impl Word64, tail: u64) -> bool {
    for _ in 0..TRIES {
        let seen = door.load(Ordering::SeqCst);
        match seen & STATE {
            RUNG => return false,
            WATCHING if seen >> SHIFT >= tail => return false,
            _ => {}
        }
        if door.compare_exchange(seen, RUNG).is_ok() {
            return true;
        }
    }
    true
}

/// Says that the receiver looks, and will take everything up to byte `until`. `false` where a bell has been rung.
#[inline]
pub fn watch(door: &impl Word64, until: u64) -> bool {
    let watches = door.compare_exchange(ARMED, watching(until)).is_ok();
    door.fence_after_update(); // pairs with `publish`
    watches
}

/// Says that the receiver looks no more. The tail must be read once more afterwards.
#[inline]
pub fn rest(door: &impl Word64, until: u64) {
    // Where it fails a sender rang.
    let _ = door.compare_exchange(watching(until), ARMED);
    door.fence_after_update(); // pairs with `publish`
}

/// Turns a rung door back; `true` where it was one: a bell is to be taken out of the socket then, but only
/// once the blocks are found empty after this call.
#[inline]
pub fn answer(door: &impl Word64) -> bool {
    let rung =
        door.load(Ordering::SeqCst) & STATE == RUNG && door.compare_exchange(RUNG, ARMED).is_ok();
    door.fence_after_update(); // pairs with `publish`
    rung
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn a_bell_is_rung_once_until_it_is_answered() {
        let (tail, door) = (AtomicU64::new(0), AtomicU64::new(0));
        assert!(publish(&tail, &door, 1));
        assert!(!publish(&tail, &door, 2));
        assert!(!watch(&door, 100), "a rung door is answered first");
        assert!(answer(&door) && !answer(&door));
        assert!(publish(&tail, &door, 3));
    }

    #[test]
    fn who_looks_is_called_for_what_he_will_not_take_only() {
        let (tail, door) = (AtomicU64::new(0), AtomicU64::new(0));
        assert!(watch(&door, 10));
        assert!(!publish(&tail, &door, 10));
        assert!(publish(&tail, &door, 11));
        rest(&door, 10);
        assert!(answer(&door), "the bell outlives the looking");
        assert!(watch(&door, 20));
        rest(&door, 20);
        assert!(publish(&tail, &door, 12), "who has left must be called");
    }

    #[test]
    fn a_word_of_nonsense_is_answered_by_a_bell() {
        let (tail, door) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        assert!(publish(&tail, &door, 1));
        assert!(answer(&door));
    }
}
