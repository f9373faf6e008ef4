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
//! | HELD(n), asked or not | proxy, which cannot know what the receiver did: [`lose`] | LOST(n) |
//! | TAKEN(n) | proxy, to which no answer comes: [`lose_answer`] | UNANSWERED(n) |
//! | HELD(n), asked or not | proxy without room: [`let_go`] | FULL(n) |
//! | HELD(n), asked or not | sender that waits no longer: [`leave_behind`] | EMPTY(n) |
//! | GIVEN BACK(n), LOST(n), UNANSWERED(n) | sender: [`crate::slot::post`] | FULL(n+1) |
//!
//! All these words have the phase REFUSED and a bit that no refusal has. The fast path compares
//! whole words with FULL and TAKEN, so it never knows of them. The cell itself stays as it is: the
//! proxy has its copy. The reason of an end lies beside the notifications of the proxy, where no
//! other party writes: a proxy that writes it too late spoils no later message.
//!
//! The word alone says whether the message was taken, and one compare-and-swap decides each step.
//! A sender that gives a message up goes by [`take_back`].

use crate::slot::{Held, SlotPhase, SlotState, Withdrawing};
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
    [Held::Open, Held::Asked]
        .into_iter()
        .any(|held| word.compare_exchange(held.word(seen), to).is_ok())
}

/// As [`leave`], to a word that ends the wait of the sender.
fn decide(word: &impl Word64, seen: SlotState, to: u64) -> bool {
    let moved = leave(word, seen, to);
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    moved
}

/// The receiver has taken a held message. `false` if its sender waits no longer.
pub fn take(word: &impl Word64, seen: SlotState) -> bool {
    decide(word, seen, seen.in_phase(SlotPhase::Taken).encode())
}

/// The receiver never gets a held message. `false` if its sender waits no longer.
pub fn give_back(word: &impl Word64, seen: SlotState) -> bool {
    decide(word, seen, Held::GivenBack.word(seen))
}

/// Nobody knows whether the receiver has taken a held message. `false` if its sender waits no
/// longer.
pub fn lose(word: &impl Word64, seen: SlotState) -> bool {
    decide(word, seen, Held::Lost.word(seen))
}

/// No answer comes to a taken request. `false` if its sender waits no longer.
pub fn lose_answer(word: &impl Word64, seen: SlotState) -> bool {
    let taken = seen.in_phase(SlotPhase::Taken).encode();
    let moved = word.compare_exchange(taken, Held::Unanswered.word(seen)).is_ok();
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    moved
}

/// Leaves a message as if it had not been held: it could not be sent on yet. `false` if its sender
/// waits no longer.
pub fn let_go(word: &impl Word64, seen: SlotState) -> bool {
    leave(word, seen, seen.encode())
}

/// The sender wants a held message back. Afterwards, wake the proxy.
pub fn ask_back(word: &impl Word64, full: SlotState) {
    // A failure means that the message is not held any more, or was asked for.
    let _ = word.compare_exchange(Held::Open.word(full), Held::Asked.word(full));
    word.fence_after_update(); // pairs with the fence of `publish_mode`
}

/// The sender of a held message waits no longer: nobody will say what became of it. `false` if the
/// message is not held any more.
pub fn leave_behind(word: &impl Word64, full: SlotState) -> bool {
    leave(word, full, full.in_phase(SlotPhase::Empty).encode())
}

/// A sender that gives a message up.
pub trait TakingBack {
    /// Why a step failed.
    type Error;

    /// Withdraws the message, by [`Link::withdraw`](crate::Link::withdraw).
    ///
    /// # Errors
    /// The receiver broke the rules.
    fn withdraw(&mut self) -> Result<Withdrawing, Self::Error>;

    /// Asks for the held message, by [`Link::ask_back`](crate::Link::ask_back), and wakes the
    /// proxy.
    fn ask_back(&mut self);

    /// Waits while the message is held. `false` if the wait has ended before.
    fn await_proxy(&mut self) -> bool;

    /// Leaves the held message behind, by [`Link::leave_behind`](crate::Link::leave_behind).
    fn leave_behind(&mut self) -> bool;
}

/// Takes a message back, or finds out what became of it. While a proxy holds it, its word is
/// awaited, as long as the sender has patience. The result is never [`Withdrawing::Held`].
///
/// # Errors
/// Those of [`TakingBack::withdraw`].
pub fn take_back<S: TakingBack>(sender: &mut S) -> Result<Withdrawing, S::Error> {
    loop {
        let found = sender.withdraw()?;
        if found != Withdrawing::Held {
            return Ok(found);
        }
        // A proxy that let the message go and held it again has forgotten that it was asked.
        sender.ask_back();
        if !sender.await_proxy() && sender.leave_behind() {
            return Ok(Withdrawing::Unknown);
        }
    }
}

#[cfg(test)]
mod tests;
