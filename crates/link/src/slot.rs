//! The slot: one message cell in one direction, decided by one word.
//!
//! | state | who moves it on | to |
//! |---|---|---|
//! | EMPTY(n) | sender: [`post`] | FULL(n+1) |
//! | FULL(n) | receiver: [`take`], by compare-and-swap | TAKEN(n) |
//! | FULL(n) | sender: [`withdraw`], by compare-and-swap | EMPTY(n) |
//! | TAKEN(n) | sender: [`post`] | FULL(n+1) |
//! | TAKEN(n) | sender of a request: [`give_up`] | EMPTY(n) |
//!
//! Only FULL is contested, and there one compare-and-swap decides: a message is
//! delivered or withdrawn, never both, never neither. Only the sender writes
//! the rest of the cell, and never while it is FULL, so a copy whose `take`
//! succeeded is whole. The number n makes every FULL unlike all before it.
//!
//! TAKEN(n) of a request also means: its sender awaits an answer. An answer is
//! posted only while that stands ([`answer_stands`]), and whoever gives up
//! looks for an answer once more afterwards: one of the two sees the other.

use crate::atom::Word64;
use core::sync::atomic::Ordering;

/// The peer wrote what the rules do not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What a message is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A message whose sender waits until it is taken.
    Send = 1,
    /// A request: its sender waits for an answer.
    Request = 2,
    /// An answer to the request that its stamp names.
    Reply = 3,
    /// Instead of an answer: ask the endpoint that the payload names.
    Relay = 4,
}

impl Kind {
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            1 => Some(Self::Send),
            2 => Some(Self::Request),
            3 => Some(Self::Reply),
            4 => Some(Self::Relay),
            _ => None,
        }
    }
}

/// The phase of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No message; the sender's.
    Empty,
    /// A message; contested.
    Full,
    /// A message that was taken; the sender's again.
    Taken,
}

const PHASE_BITS: u32 = 2;
const KIND_BITS: u32 = 6;
const SEQUENCE_SHIFT: u32 = PHASE_BITS + KIND_BITS;
const SEQUENCE_MASK: u64 = u64::MAX >> SEQUENCE_SHIFT;

/// A state word, decoded: phase, kind and number of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The phase.
    pub phase: Phase,
    /// The kind of the message; of no meaning before the first one.
    pub kind: Kind,
    /// The number of the message: 1 for the first, wraps after 2^56.
    pub sequence: u64,
}

impl State {
    /// How a slot begins: a page of zeros.
    pub const NEW: Self = Self { phase: Phase::Empty, kind: Kind::Send, sequence: 0 };

    /// The word for this state.
    #[must_use]
    #[inline]
    pub const fn encode(self) -> u64 {
        let phase = match self.phase {
            Phase::Empty if self.sequence == 0 => return 0,
            Phase::Empty => 0,
            Phase::Full => 1,
            Phase::Taken => 2,
        };
        phase | (self.kind as u64) << PHASE_BITS | self.sequence << SEQUENCE_SHIFT
    }

    /// The state that a word of shared memory claims.
    ///
    /// # Errors
    /// [`Broken`] where no rule leads to such a word.
    #[inline]
    pub const fn decode(word: u64) -> Result<Self, Broken> {
        if word == 0 {
            return Ok(Self::NEW);
        }
        let phase = match word & ((1 << PHASE_BITS) - 1) {
            0 => Phase::Empty,
            1 => Phase::Full,
            2 => Phase::Taken,
            _ => return Err(Broken),
        };
        match Kind::from_bits(word >> PHASE_BITS & ((1 << KIND_BITS) - 1)) {
            Some(kind) => Ok(Self { phase, kind, sequence: word >> SEQUENCE_SHIFT }),
            None => Err(Broken),
        }
    }

    /// The same message in another phase.
    #[must_use]
    #[inline]
    pub const fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// The next message of a sender whose last one was this.
    #[must_use]
    #[inline]
    pub const fn next(self, kind: Kind) -> Self {
        Self { phase: Phase::Full, kind, sequence: self.sequence.wrapping_add(1) & SEQUENCE_MASK }
    }
}

/// Publishes the message that the sender has written into the cell.
/// `last` is the sender's own record of its last message, never the shared word.
#[inline]
pub fn post(word: &impl Word64, last: State, kind: Kind) -> State {
    let full = last.next(kind);
    // Release: pairs with the acquire in `look`; the cell is written before.
    word.swap(full.encode(), Ordering::SeqCst);
    word.fence_after_update(); // pairs with the sleeper's look after `Status::sleep`
    full
}

/// What has become of a message that was posted as `full`.
///
/// # Errors
/// [`Broken`] where the word is neither the post nor its taking.
#[inline]
pub fn is_taken(word: &impl Word64, full: State) -> Result<bool, Broken> {
    let found = word.load(Ordering::Acquire);
    if found == full.encode() {
        Ok(false)
    } else if found == full.in_phase(Phase::Taken).encode() {
        Ok(true)
    } else {
        Err(Broken)
    }
}

/// Takes a message back: `Ok(true)` if it was, `Ok(false)` if the receiver has it.
///
/// # Errors
/// [`Broken`] as in [`is_taken`].
pub fn withdraw(word: &impl Word64, full: State) -> Result<bool, Broken> {
    match word.compare_exchange(full.encode(), full.in_phase(Phase::Empty).encode()) {
        Ok(_) => Ok(true),
        Err(_) => {
            is_taken(word, full).and_then(|taken| if taken { Ok(false) } else { Err(Broken) })
        }
    }
}

/// Says that the sender of a taken request no longer awaits an answer. It must
/// look for one once more after this.
pub fn give_up(word: &impl Word64, full: State) {
    word.swap(full.in_phase(Phase::Empty).encode(), Ordering::SeqCst);
    word.fence_after_update(); // pairs with the fence of `post` before `answer_stands`
}

/// Whether the sender of this taken request still awaits its answer.
#[inline]
pub fn answer_stands(word: &impl Word64, request: State) -> bool {
    word.load(Ordering::Acquire) == request.in_phase(Phase::Taken).encode()
}

/// The message that waits in a slot, if any.
///
/// # Errors
/// [`Broken`] where the word is no state at all.
#[inline]
pub fn look(word: &impl Word64) -> Result<Option<State>, Broken> {
    // Acquire: pairs with `post`; the cell is read after.
    let state = State::decode(word.load(Ordering::Acquire))?;
    Ok((state.phase == Phase::Full).then_some(state))
}

/// Whether there is surely nothing to take: the cheap look of one who waits.
#[inline]
pub fn is_quiet(word: &impl Word64) -> bool {
    // Relaxed: whoever finds something here looks again, with `look`.
    let phase = word.load(Ordering::Relaxed) & ((1 << PHASE_BITS) - 1);
    phase == 0 || phase == 2
}

/// Takes the message that `look` saw, after its cell was copied; `false` where
/// its sender withdrew it meanwhile: the copy is void.
#[inline]
pub fn take(word: &impl Word64, seen: State) -> bool {
    let taken = word.compare_exchange(seen.encode(), seen.in_phase(Phase::Taken).encode()).is_ok();
    word.fence_after_update(); // pairs with the sender's look after `Status::sleep`
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn states_survive_their_encoding() {
        for phase in [Phase::Empty, Phase::Full, Phase::Taken] {
            for kind in [Kind::Send, Kind::Request, Kind::Reply, Kind::Relay] {
                for sequence in [1, 2, SEQUENCE_MASK] {
                    let state = State { phase, kind, sequence };
                    assert_eq!(State::decode(state.encode()), Ok(state));
                }
            }
        }
        assert_eq!(State::decode(0), Ok(State::NEW));
    }

    #[test]
    fn words_that_no_rule_makes_are_broken() {
        assert_eq!(State::decode(3), Err(Broken));
        assert_eq!(State::decode(1), Err(Broken));
        assert_eq!(State::decode(u64::MAX), Err(Broken));
    }

    #[test]
    fn a_message_is_taken_or_withdrawn_never_both() {
        let word = AtomicU64::new(0);
        let first = post(&word, State::NEW, Kind::Send);
        let seen = look(&word).unwrap().unwrap();
        assert!(take(&word, seen));
        assert_eq!(withdraw(&word, first), Ok(false));
        let second = post(&word, first, Kind::Send);
        assert_eq!(withdraw(&word, second), Ok(true));
        assert!(!take(&word, second));
        assert_eq!(look(&word), Ok(None));
    }

    #[test]
    fn the_number_wraps() {
        let last = State { phase: Phase::Taken, kind: Kind::Send, sequence: SEQUENCE_MASK };
        assert_eq!(last.next(Kind::Send).sequence, 0);
        assert_eq!(State::decode(last.next(Kind::Send).encode()), Ok(last.next(Kind::Send)));
    }
}
