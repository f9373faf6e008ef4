//! Held messages: what a proxy does with a message for an endpoint of another node.
//!
//! A message waits in its slot until the receiver takes it, and the sender may withdraw it until
//! then. The receiver of a remote message decides on another node. Meanwhile the proxy holds the
//! message, so that sender and receiver never both believe that they were first.
//!
//! | word | moved by | to |
//! |---|---|---|
//! | FULL(n) | proxy: [`hold`], by compare-and-swap, after its copy | HELD(n) |
//! | HELD(n) | sender, which wants the message back: [`ask_back`] | HELD(n) asked |
//! | HELD(n), asked or not | proxy: [`take`] | TAKEN(n) |
//! | HELD(n), asked or not | proxy: [`give_back`] | GIVEN BACK(n) |
//! | TAKEN(n) | proxy, to which no answer comes: [`lose_answer`] | UNANSWERED(n) |
//! | HELD(n) | proxy without room: [`let_go`] | FULL(n) |
//! | GIVEN BACK(n) | sender: [`crate::slot::withdraw`] | EMPTY(n) |
//! | each of these | sender that waits no longer: [`crate::slot::abandon`] | EMPTY(n) |
//!
//! All these words have the phase REFUSED and a bit that no refusal has. The fast path compares
//! whole words with FULL and TAKEN, so it never knows of them. The cell itself stays as it is: the
//! proxy has its copy.

use crate::slot::{Held, SlotPhase, SlotState};
use crate::words::Word64;
use core::sync::atomic::Ordering;

/// How far the message that was posted as `full` is held.
pub fn state(word: &impl Word64, full: SlotState) -> Option<Held> {
    Held::of(word.load(Ordering::Acquire), full)
}

/// Holds the message that a peek saw, after the copy of its cell. `false` if its sender withdrew
/// it: the copy is then void.
pub fn hold(word: &impl Word64, seen: SlotState) -> bool {
    word.compare_exchange(seen.encode(), Held::Open.word(seen)).is_ok()
}

/// Moves a held message on. `false` if its sender waits no longer.
fn leave(word: &impl Word64, seen: SlotState, to: u64) -> bool {
    // The sender may ask meanwhile, once.
    let moved = [Held::Open, Held::Asked]
        .into_iter()
        .any(|held| word.compare_exchange(held.word(seen), to).is_ok());
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    moved
}

/// The receiver has taken a held message. `false` if its sender waits no longer.
pub fn take(word: &impl Word64, seen: SlotState) -> bool {
    leave(word, seen, seen.in_phase(SlotPhase::Taken).encode())
}

/// The receiver never gets a held message. `false` if its sender waits no longer.
pub fn give_back(word: &impl Word64, seen: SlotState) -> bool {
    leave(word, seen, Held::GivenBack.word(seen))
}

/// No answer comes to a taken request. `false` if its sender waits no longer.
pub fn lose_answer(word: &impl Word64, seen: SlotState) -> bool {
    let taken = seen.in_phase(SlotPhase::Taken).encode();
    let moved = word.compare_exchange(taken, Held::Unanswered.word(seen)).is_ok();
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    moved
}

/// Leaves a message as if it had not been held: it could not be sent on yet.
pub fn let_go(word: &impl Word64, seen: SlotState) -> bool {
    leave(word, seen, seen.encode())
}

/// The sender wants a held message back. Afterwards, wake the proxy.
pub fn ask_back(word: &impl Word64, full: SlotState) {
    // A failure means that the message is not held any more, or was asked for.
    let _ = word.compare_exchange(Held::Open.word(full), Held::Asked.word(full));
    word.fence_after_update(); // pairs with the fence of `publish_mode`
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{self, Cancelled, MessageFate, MessageKind, is_held};
    use core::sync::atomic::AtomicU64;

    fn held() -> (AtomicU64, SlotState) {
        let word = AtomicU64::new(0);
        let full = slot::post(&word, SlotState::NEW, MessageKind::Request);
        assert_eq!(slot::peek(&word), Ok(Some(full)));
        assert!(hold(&word, full) && !hold(&word, full));
        (word, full)
    }

    #[test]
    fn a_held_message_is_open_and_nobody_else_finds_it() {
        let (word, full) = held();
        for asked in [false, true] {
            if asked {
                ask_back(&word, full);
            }
            let expected = if asked { Held::Asked } else { Held::Open };
            assert_eq!(state(&word, full), Some(expected));
            assert_eq!(slot::fate(&word, full), MessageFate::Open);
            assert_eq!(slot::peek(&word), Ok(None));
            assert_eq!(slot::refusal(&word, full), None);
            assert!(slot::is_quiet(&word) && !slot::is_answer_awaited(&word, full));
            assert!(!slot::take(&word, full), "a second receiver");
            assert!(slot::withdraw(&word, full).is_err() && is_held(&word, full));
        }
    }

    #[test]
    fn a_held_message_is_taken_or_comes_back() {
        let (word, full) = held();
        assert!(take(&word, full) && !give_back(&word, full));
        assert_eq!(slot::fate(&word, full), MessageFate::Taken);
        assert!(lose_answer(&word, full) && !lose_answer(&word, full));
        assert_eq!(state(&word, full), Some(Held::Unanswered));
        assert_eq!(slot::cancel(&word, full), Ok(Cancelled::Taken));

        let (word, full) = held();
        ask_back(&word, full);
        assert!(give_back(&word, full) && !take(&word, full));
        assert_eq!((slot::fate(&word, full), is_held(&word, full)), (MessageFate::Open, false));
        assert_eq!(slot::peek(&word), Ok(None), "the proxy does not find it again");
        assert_eq!(slot::cancel(&word, full), Ok(Cancelled::Withdrawn));

        let (word, full) = held();
        assert!(let_go(&word, full));
        assert_eq!(slot::peek(&word), Ok(Some(full)));
        assert_eq!(slot::withdraw(&word, full), Ok(true));
    }

    #[test]
    fn a_sender_that_waits_no_longer_knows_that_it_does_not_know() {
        let (word, full) = held();
        assert_eq!(slot::cancel(&word, full), Ok(Cancelled::Held));
        assert!(!take(&word, full) && !give_back(&word, full) && !let_go(&word, full));
        let next = slot::post(&word, full, MessageKind::Send);
        assert_eq!(slot::peek(&word), Ok(Some(next)));
        assert_eq!(state(&word, full), None);
    }
}
