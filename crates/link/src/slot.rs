//! The slot: the message cell of one direction, with one state word.
//!
//! | state | moved by | to |
//! |---|---|---|
//! | EMPTY(n) | sender: [`post`] | FULL(n+1) |
//! | FULL(n) | receiver: [`take`], by compare-and-swap | TAKEN(n) |
//! | FULL(n) | receiver: [`refuse`], by compare-and-swap | REFUSED(n) |
//! | FULL(n) | sender: [`withdraw`], by compare-and-swap | EMPTY(n) |
//! | TAKEN(n) | sender: [`post`] | FULL(n+1) |
//! | TAKEN(n) | sender of a request: [`cancel`] | EMPTY(n) |
//! | REFUSED(n) | sender: [`post`] | FULL(n+1) |
//!
//! A proxy also holds messages ([`crate::held`]), and nobody else may: from any other receiver the
//! words of a held message break the rules. `may_hold` tells the two apart.
//!
//! Only FULL is contested, and one compare-and-swap decides the contest. So a message is delivered,
//! refused or withdrawn, exactly one of the three. A receiver refuses a message whose payload lies
//! in a block that it cannot accept; a sender never gets a refusal of any other message.
//!
//! Only the sender writes the rest of the cell, and never while the slot is FULL. So a copy with a
//! successful [`take`] is whole. The number n makes every FULL differ from all earlier ones.
//!
//! TAKEN(n) of a request also means that its sender awaits an answer. The receiver posts an answer
//! only in this state ([`is_answer_awaited`]). A sender that cancels its request polls for an
//! answer once more afterwards. So at least one of the two sees the other.

use crate::words::Word64;
use core::sync::atomic::Ordering;

/// The peer wrote a word that the rules do not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleBroken;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A message. Its sender waits until the receiver has taken it.
    Send = 1,
    /// A request. Its sender waits for an answer.
    Request = 2,
    /// An answer to the request whose number is its stamp.
    Reply = 3,
    /// Instead of an answer: the requester must ask the endpoint that the payload names.
    Relay = 4,
}

impl MessageKind {
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
#[repr(u8)]
pub enum SlotPhase {
    /// No message. The sender owns the cell.
    Empty = 0,
    /// A message. Receiver and sender contest it.
    Full = 1,
    /// A taken message. The sender owns the cell again.
    Taken = 2,
    /// A refused message. The sender owns the cell again.
    Refused = 3,
}

/// Why a receiver refused a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRefusal {
    /// The receiver cannot accept this block. It may accept another one in a new area.
    Retry,
    /// The receiver lacks memory or addresses for any such block.
    Final,
}

/// What became of a posted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// It is still in the slot, and the receiver may take or refuse it.
    Open,
    /// The receiver has taken it.
    Taken,
    /// The receiver has refused it.
    Refused(SlotRefusal),
    /// A proxy holds or held it, on behalf of a receiver on another node.
    Held(Held),
    /// The sender withdrew it or posted another one, or the receiver broke the rules.
    Gone,
}

/// The outcome of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawing {
    /// The message went back: the receiver never gets it.
    Withdrawn,
    /// The receiver has taken it.
    Taken,
    /// A proxy holds it and has not decided. Nothing changed.
    Held,
    /// A proxy has said that nobody knows whether the receiver has taken it.
    Unknown,
}

/// The outcome of a cancelled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The request went back: the receiver never had it.
    Withdrawn,
    /// The receiver has taken the request. Poll for the answer once more: it may have been posted
    /// before the cancellation.
    Taken,
    /// The receiver has taken the request, and a proxy has said that no answer comes.
    Unanswered,
    /// A proxy held the request: its receiver, on another node, may have taken it.
    Unknown,
}

const PHASE_BITS: u32 = 2;
const KIND_BITS: u32 = 6;
const SEQUENCE_SHIFT: u32 = PHASE_BITS + KIND_BITS;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;
/// The bit of a final refusal, among the bits of the kind.
const FINAL: u64 = 1 << (SEQUENCE_SHIFT - 1);
/// The bit of a held message: its proxy has a copy.
const HELD: u64 = 1 << (SEQUENCE_SHIFT - 2);
/// The bit of a held message that its sender wants back.
const ASKED: u64 = 1 << (SEQUENCE_SHIFT - 3);

/// Changes of a word beyond which a cancellation goes by no rule: see [`cancel`].
const CHANGES_MAX: usize = 8;

/// A held message, as its sender and its proxy see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The proxy has it.
    Open,
    /// Its sender wants it back.
    Asked,
    /// The receiver never gets it. The sender has it again.
    GivenBack,
    /// Nobody knows whether the receiver has taken it. The sender has it again.
    Lost,
    /// The receiver has taken it, and no answer comes. The sender has it again.
    Unanswered,
}

impl Held {
    const ALL: [Self; 5] = [Self::Open, Self::Asked, Self::GivenBack, Self::Lost, Self::Unanswered];

    /// The word for this state of the message that was posted as `full`.
    pub(crate) const fn word(self, full: SlotState) -> u64 {
        let word = full.in_phase(SlotPhase::Refused).encode();
        match self {
            Self::Open => word | HELD,
            Self::Asked => word | HELD | ASKED,
            Self::GivenBack => word | HELD | FINAL,
            Self::Unanswered => word | HELD | FINAL | ASKED,
            Self::Lost => word | ASKED,
        }
    }

    /// The state of the message that was posted as `full`, by the found word.
    pub(crate) fn of(found: u64, full: SlotState) -> Option<Self> {
        Self::ALL.into_iter().find(|held| found == held.word(full))
    }

    /// Whether the proxy still decides.
    #[must_use]
    pub const fn is_undecided(self) -> bool {
        matches!(self, Self::Open | Self::Asked)
    }
}

/// A state word that a rule leads to: phase, kind and number of the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SlotState(u64);

impl SlotState {
    /// The first state of a slot: a page of zeros.
    pub const NEW: Self = Self(0);

    /// The word for this state.
    #[must_use]
    #[inline]
    pub const fn encode(self) -> u64 {
        self.0
    }

    /// The state in a word of shared memory.
    ///
    /// # Errors
    /// [`RuleBroken`] if no rule leads to such a word.
    #[inline]
    pub const fn decode(word: u64) -> Result<Self, RuleBroken> {
        let flags = FINAL | HELD | ASKED;
        let kind =
            if word & PHASE_MASK == SlotPhase::Refused as u64 { word & !flags } else { word };
        let known = MessageKind::from_bits(kind >> PHASE_BITS & KIND_MASK).is_some();
        if known || word == Self::NEW.0 { Ok(Self(word)) } else { Err(RuleBroken) }
    }

    /// The phase.
    #[must_use]
    #[inline]
    pub const fn phase(self) -> SlotPhase {
        match self.0 & PHASE_MASK {
            0 => SlotPhase::Empty,
            1 => SlotPhase::Full,
            2 => SlotPhase::Taken,
            _ => SlotPhase::Refused,
        }
    }

    /// The kind of the message; `Send` before the first message.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> MessageKind {
        match MessageKind::from_bits(self.0 >> PHASE_BITS & (KIND_MASK & !(FINAL >> PHASE_BITS))) {
            Some(kind) => kind,
            None => MessageKind::Send,
        }
    }

    /// The number of the message. The first has 1; the number wraps after 2^56.
    #[must_use]
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 >> SEQUENCE_SHIFT
    }

    /// The state in a word, if that is a message of this kind.
    #[inline]
    pub(crate) const fn of_kind(word: u64, kind: MessageKind) -> Option<Self> {
        let full = (kind as u64) << PHASE_BITS | SlotPhase::Full as u64;
        let mask = PHASE_MASK | KIND_MASK << PHASE_BITS;
        if word & mask == full { Some(Self(word)) } else { None }
    }

    /// The state in a word, if that is a message or a request.
    #[inline(always)]
    pub(crate) const fn of_asking(word: u64) -> Option<(MessageKind, Self)> {
        // Phase and kind together are the lowest byte.
        const SEND: u64 = (MessageKind::Send as u64) << PHASE_BITS | SlotPhase::Full as u64;
        const REQUEST: u64 = (MessageKind::Request as u64) << PHASE_BITS | SlotPhase::Full as u64;
        match word & (PHASE_MASK | KIND_MASK << PHASE_BITS) {
            REQUEST => Some((MessageKind::Request, Self(word))),
            SEND => Some((MessageKind::Send, Self(word))),
            _ => None,
        }
    }

    /// Whether this word says that the message `self` was taken, which was full.
    #[inline(always)]
    pub(crate) const fn is_taken_in(self, word: u64) -> bool {
        const FULL_TO_TAKEN: u64 = SlotPhase::Full as u64 ^ SlotPhase::Taken as u64;
        // For a slot that was never used, only a word that no rule makes says so.
        word ^ self.0 == FULL_TO_TAKEN
    }

    /// The word for the refusal of this message.
    #[inline]
    const fn encode_refusal(self, refusal: SlotRefusal) -> u64 {
        let word = self.in_phase(SlotPhase::Refused).encode();
        match refusal {
            SlotRefusal::Retry => word,
            SlotRefusal::Final => word | FINAL,
        }
    }

    /// The same message in another phase.
    #[must_use]
    #[inline]
    pub const fn in_phase(self, phase: SlotPhase) -> Self {
        Self(self.0 & !PHASE_MASK | phase as u64)
    }

    /// The state of the sender's next message.
    #[must_use]
    #[inline]
    pub const fn next(self, kind: MessageKind) -> Self {
        let sequence = self.sequence().wrapping_add(1) << SEQUENCE_SHIFT;
        Self(sequence | (kind as u64) << PHASE_BITS | SlotPhase::Full as u64)
    }
}

impl core::fmt::Debug for SlotState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}({:?} {})", self.phase(), self.kind(), self.sequence())
    }
}

/// Publishes the message that the sender has written into the cell. `last` is the sender's private
/// record of its last message, never the shared word.
#[inline]
pub fn post(word: &impl Word64, last: SlotState, kind: MessageKind) -> SlotState {
    let full = last.next(kind);
    // Release: pairs with the acquire of `peek`. The writes of the cell precede it.
    word.swap(full.encode(), Ordering::SeqCst);
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    full
}

/// What became of the message that was posted as `full`. One load decides: the receiver may change
/// the word between two loads.
#[must_use]
#[inline]
pub fn fate(word: &impl Word64, full: SlotState, may_hold: bool) -> MessageFate {
    fate_in(word.load(Ordering::Acquire), full, may_hold)
}

/// What became of a message, by the found word.
#[inline]
pub(crate) fn fate_in(found: u64, full: SlotState, may_hold: bool) -> MessageFate {
    if found == full.encode() {
        return MessageFate::Open;
    }
    if found == full.in_phase(SlotPhase::Taken).encode() {
        return MessageFate::Taken;
    }
    let all = [SlotRefusal::Retry, SlotRefusal::Final];
    if let Some(refusal) = all.into_iter().find(|it| found == full.encode_refusal(*it)) {
        return MessageFate::Refused(refusal);
    }
    // A proxy hands answers over at once.
    let may_hold = may_hold && matches!(full.kind(), MessageKind::Send | MessageKind::Request);
    match Held::of(found, full) {
        Some(held) if may_hold => MessageFate::Held(held),
        _ => MessageFate::Gone,
    }
}

/// Whether the receiver has taken the message that was posted as `full`.
///
/// # Errors
/// [`RuleBroken`] if the word is no form of the posted message.
#[inline]
pub fn is_taken(word: &impl Word64, full: SlotState, may_hold: bool) -> Result<bool, RuleBroken> {
    match fate(word, full, may_hold) {
        MessageFate::Open | MessageFate::Refused(_) | MessageFate::Held(_) => Ok(false),
        MessageFate::Taken => Ok(true),
        MessageFate::Gone => Err(RuleBroken),
    }
}

/// Whether the receiver has refused the message that was posted as `full`, and why.
#[must_use]
#[inline]
pub fn refusal(word: &impl Word64, full: SlotState) -> Option<SlotRefusal> {
    match fate(word, full, false) {
        MessageFate::Refused(refusal) => Some(refusal),
        _ => None,
    }
}

/// Withdraws a message; a refused message and one that a proxy gave back are the sender's again
/// too. The word that the compare-and-swap finds decides: a second load might find another one.
///
/// # Errors
/// [`RuleBroken`] if the word follows from no rule.
pub fn withdraw(
    word: &impl Word64,
    full: SlotState,
    may_hold: bool,
) -> Result<Withdrawing, RuleBroken> {
    let empty = full.in_phase(SlotPhase::Empty).encode();
    let Err(found) = word.compare_exchange(full.encode(), empty) else {
        return Ok(Withdrawing::Withdrawn);
    };
    match fate_in(found, full, may_hold) {
        MessageFate::Refused(_) | MessageFate::Held(Held::GivenBack) => Ok(Withdrawing::Withdrawn),
        MessageFate::Taken | MessageFate::Held(Held::Unanswered) => Ok(Withdrawing::Taken),
        MessageFate::Held(Held::Open | Held::Asked) => Ok(Withdrawing::Held),
        MessageFate::Held(Held::Lost) => Ok(Withdrawing::Unknown),
        MessageFate::Open | MessageFate::Gone => Err(RuleBroken),
    }
}

/// Ends a message that its sender waits for no longer. Withdraws it or, if the receiver has taken
/// it or a proxy holds it, leaves it behind. After [`Cancelled::Taken`], poll for the answer once
/// more.
///
/// # Errors
/// [`RuleBroken`] if the word follows from no rule.
pub fn cancel(
    word: &impl Word64,
    full: SlotState,
    may_hold: bool,
) -> Result<Cancelled, RuleBroken> {
    let empty = full.in_phase(SlotPhase::Empty).encode();
    let (mut fate, mut from) = (MessageFate::Open, full.encode());
    for _change in 0..CHANGES_MAX {
        let Err(found) = word.compare_exchange(from, empty) else {
            word.fence_after_update(); // pairs with the fence of `post`, before `is_answer_awaited`
            return Ok(match fate {
                MessageFate::Open => Cancelled::Withdrawn,
                MessageFate::Taken => Cancelled::Taken,
                _ => Cancelled::Unknown,
            });
        };
        (fate, from) = (fate_in(found, full, may_hold), found);
        match fate {
            MessageFate::Open | MessageFate::Taken => {}
            MessageFate::Held(Held::Open | Held::Asked) => {}
            MessageFate::Refused(_) | MessageFate::Held(Held::GivenBack) => {
                return Ok(Cancelled::Withdrawn);
            }
            MessageFate::Held(Held::Unanswered) => return Ok(Cancelled::Unanswered),
            MessageFate::Held(Held::Lost) => return Ok(Cancelled::Unknown),
            MessageFate::Gone => return Err(RuleBroken),
        }
    }
    // A receiver without the right to hold changes the word once.
    word.swap(empty, Ordering::SeqCst);
    if may_hold { Ok(Cancelled::Unknown) } else { Err(RuleBroken) }
}

/// Whether the sender of this taken request still awaits its answer.
#[inline]
pub fn is_answer_awaited(word: &impl Word64, request: SlotState) -> bool {
    request.is_taken_in(word.load(Ordering::Acquire))
}

/// The message in a slot, if any.
///
/// # Errors
/// [`RuleBroken`] if the word is no state.
#[inline]
pub fn peek(word: &impl Word64) -> Result<Option<SlotState>, RuleBroken> {
    // Acquire: pairs with the release of `post`. The reads of the cell follow it.
    let state = SlotState::decode(word.load(Ordering::Acquire))?;
    Ok((state.phase() == SlotPhase::Full).then_some(state))
}

/// Whether this state word has a message.
#[inline(always)]
pub(crate) const fn is_full(word: u64) -> bool {
    word & PHASE_MASK == SlotPhase::Full as u64
}

/// Whether the slot certainly has no message. This is the cheap poll of a waiter.
#[inline]
pub fn is_quiet(word: &impl Word64) -> bool {
    // Relaxed: a waiter that sees a message here calls `peek` next.
    !is_full(word.load(Ordering::Relaxed))
}

/// Refuses the message that [`peek`] saw. `false` if its sender withdrew it meanwhile.
pub fn refuse(word: &impl Word64, seen: SlotState, refusal: SlotRefusal) -> bool {
    let refused = word.compare_exchange(seen.encode(), seen.encode_refusal(refusal)).is_ok();
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    refused
}

/// Takes the message that [`peek`] saw, after the copy of its cell. `false` if its sender withdrew
/// it meanwhile: the copy is then void.
#[inline]
pub fn take(word: &impl Word64, seen: SlotState) -> bool {
    let taken =
        word.compare_exchange(seen.encode(), seen.in_phase(SlotPhase::Taken).encode()).is_ok();
    word.fence_after_update(); // pairs with the fence of `publish_mode`
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    const SEQUENCE_MAX: u64 = u64::MAX >> SEQUENCE_SHIFT;

    #[test]
    fn states_survive_their_encoding() {
        for phase in [SlotPhase::Empty, SlotPhase::Full, SlotPhase::Taken, SlotPhase::Refused] {
            for kind in
                [MessageKind::Send, MessageKind::Request, MessageKind::Reply, MessageKind::Relay]
            {
                for sequence in [1, 2, SEQUENCE_MAX] {
                    let last = SlotState((sequence - 1) << SEQUENCE_SHIFT);
                    let state = last.next(kind).in_phase(phase);
                    assert_eq!(SlotState::decode(state.encode()), Ok(state));
                    assert_eq!(
                        (state.phase(), state.kind(), state.sequence()),
                        (phase, kind, sequence)
                    );
                }
            }
        }
        assert_eq!(SlotState::decode(0), Ok(SlotState::NEW));
    }

    #[test]
    fn words_that_no_rule_makes_are_refused() {
        assert_eq!(SlotState::decode(3), Err(RuleBroken));
        assert_eq!(SlotState::decode(1), Err(RuleBroken));
        assert_eq!(SlotState::decode(u64::MAX), Err(RuleBroken));
    }

    #[test]
    fn a_message_is_taken_or_withdrawn_never_both() {
        let word = AtomicU64::new(0);
        let first = post(&word, SlotState::NEW, MessageKind::Send);
        let seen = peek(&word).unwrap().unwrap();
        assert!(take(&word, seen));
        assert_eq!(withdraw(&word, first, false), Ok(Withdrawing::Taken));
        let second = post(&word, first, MessageKind::Send);
        assert_eq!(withdraw(&word, second, false), Ok(Withdrawing::Withdrawn));
        assert!(!take(&word, second));
        assert_eq!(peek(&word), Ok(None));
    }

    #[test]
    fn a_refused_message_is_the_senders_again() {
        let word = AtomicU64::new(0);
        let mut last = SlotState::NEW;
        for cause in [SlotRefusal::Retry, SlotRefusal::Final] {
            last = post(&word, last, MessageKind::Request);
            let seen = peek(&word).unwrap().unwrap();
            assert_eq!((refusal(&word, last), fate(&word, last, false)), (None, MessageFate::Open));
            assert!(refuse(&word, seen, cause));
            assert_eq!(fate(&word, last, false), MessageFate::Refused(cause));
            assert!(!take(&word, seen));
            assert_eq!(
                (refusal(&word, last), is_taken(&word, last, false)),
                (Some(cause), Ok(false))
            );
            assert_eq!(withdraw(&word, last, false), Ok(Withdrawing::Withdrawn));
            assert_eq!(peek(&word), Ok(None));
            assert!(is_quiet(&word) && !is_answer_awaited(&word, last));
        }
        let taken = post(&word, last, MessageKind::Send);
        assert!(take(&word, taken) && !refuse(&word, taken, SlotRefusal::Final));
        assert_eq!((refusal(&word, taken), fate(&word, taken, false)), (None, MessageFate::Taken));
        assert_eq!(fate(&word, last, false), MessageFate::Gone);
    }

    #[test]
    fn the_number_wraps() {
        let before = SlotState((SEQUENCE_MAX - 1) << SEQUENCE_SHIFT);
        let last = before.next(MessageKind::Send).in_phase(SlotPhase::Taken);
        assert_eq!((last.sequence(), last.next(MessageKind::Send).sequence()), (SEQUENCE_MAX, 0));
        assert_eq!(
            SlotState::decode(last.next(MessageKind::Send).encode()),
            Ok(last.next(MessageKind::Send))
        );
    }
}
