use super::*;
use crate::slot::{self, Cancelled, MessageFate, MessageKind, RuleBroken};
use core::cell::Cell;
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
        assert_eq!(slot::fate(&word, full, true), MessageFate::Held(expected));
        assert_eq!(slot::peek(&word), Ok(None));
        assert_eq!(slot::refusal(&word, full), None);
        assert!(slot::is_quiet(&word) && !slot::is_answer_awaited(&word, full));
        assert!(!slot::take(&word, full), "a second receiver");
        assert_eq!(slot::withdraw(&word, full, true), Ok(Withdrawing::Held));
    }
}

#[test]
fn a_held_message_is_taken_or_comes_back() {
    let (word, full) = held();
    assert!(take(&word, full) && !give_back(&word, full));
    assert_eq!(slot::fate(&word, full, true), MessageFate::Taken);
    assert!(lose_answer(&word, full) && !lose_answer(&word, full));
    assert_eq!(state(&word, full), Some(Held::Unanswered));
    assert_eq!(slot::withdraw(&word, full, true), Ok(Withdrawing::Taken));
    assert_eq!(slot::cancel(&word, full, true), Ok(Cancelled::Unanswered));

    let (word, full) = held();
    ask_back(&word, full);
    assert!(give_back(&word, full) && !take(&word, full));
    assert_eq!(slot::fate(&word, full, true), MessageFate::Held(Held::GivenBack));
    assert_eq!(slot::peek(&word), Ok(None), "the proxy does not find it again");
    assert_eq!(slot::withdraw(&word, full, true), Ok(Withdrawing::Withdrawn));
    assert_eq!(slot::cancel(&word, full, true), Ok(Cancelled::Withdrawn));

    let (word, full) = held();
    assert!(lose(&word, full) && !take(&word, full) && !give_back(&word, full));
    assert_eq!(slot::withdraw(&word, full, true), Ok(Withdrawing::Unknown));
    assert_eq!(slot::cancel(&word, full, true), Ok(Cancelled::Unknown));

    let (word, full) = held();
    assert!(let_go(&word, full));
    assert_eq!(slot::peek(&word), Ok(Some(full)));
    assert_eq!(slot::withdraw(&word, full, true), Ok(Withdrawing::Withdrawn));
}

#[test]
fn a_sender_that_waits_no_longer_knows_that_it_does_not_know() {
    for asked in [false, true] {
        let (word, full) = held();
        if asked {
            ask_back(&word, full);
            assert!(leave_behind(&word, full) && !leave_behind(&word, full));
        } else {
            assert_eq!(slot::cancel(&word, full, true), Ok(Cancelled::Unknown));
        }
        assert!(!take(&word, full) && !give_back(&word, full) && !let_go(&word, full));
        let next = slot::post(&word, full, MessageKind::Send);
        assert_eq!(slot::peek(&word), Ok(Some(next)));
        assert_eq!(state(&word, full), None);
    }
}

#[test]
fn only_a_proxy_may_hold() {
    for kind in [MessageKind::Send, MessageKind::Request, MessageKind::Reply, MessageKind::Relay] {
        let full = SlotState::NEW.next(kind);
        let is_held_by_rule = matches!(kind, MessageKind::Send | MessageKind::Request);
        for held in [Held::Open, Held::Asked, Held::GivenBack, Held::Lost, Held::Unanswered] {
            let word = AtomicU64::new(held.word(full));
            assert!(SlotState::decode(held.word(full)).is_ok(), "a form of its own");
            assert_eq!(slot::fate(&word, full, false), MessageFate::Gone);
            assert_eq!(slot::is_taken(&word, full, false), Err(RuleBroken));
            assert_eq!(slot::withdraw(&word, full, false), Err(RuleBroken));
            assert_eq!(slot::cancel(&word, full, false), Err(RuleBroken));
            assert_eq!(slot::withdraw(&word, full, true).is_ok(), is_held_by_rule);
        }
    }
}

/// A word that another party changes just before some of the accesses.
struct Contested {
    word: AtomicU64,
    /// The values of the other party, for the next accesses.
    next: Cell<Vec<u64>>,
}

impl Contested {
    fn new(values: &[u64]) -> Self {
        let next = Cell::new(values.iter().rev().copied().collect());
        Self { word: AtomicU64::new(0), next }
    }

    fn word(&self) -> &AtomicU64 {
        let mut next = self.next.take();
        if let Some(value) = next.pop() {
            self.word.store(value, Ordering::Relaxed);
        }
        self.next.set(next);
        &self.word
    }
}

impl Word64 for Contested {
    fn load(&self, order: Ordering) -> u64 {
        self.word().load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.word().store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.word().swap(value, order)
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.word().fetch_or(bits, order)
    }
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        self.word().fetch_add(number, order)
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        Word64::compare_exchange(self.word(), old, new)
    }
}

/// Each way in which a proxy may move a message on, beside a sender that gives it up: no step is
/// taken for a broken rule, and the result is that of a word that was there.
#[test]
fn a_proxy_that_acts_during_a_withdrawal_breaks_no_rule() {
    let full = SlotState::NEW.next(MessageKind::Request);
    let open = Held::Open.word(full);
    let taken = full.in_phase(SlotPhase::Taken).encode();
    let ways: [(&[u64], Withdrawing); 7] = [
        (&[open, open, taken], Withdrawing::Held),
        (&[open, full.encode(), open], Withdrawing::Held),
        (&[open, Held::GivenBack.word(full)], Withdrawing::Held),
        (&[taken, Held::Unanswered.word(full)], Withdrawing::Taken),
        (&[Held::GivenBack.word(full)], Withdrawing::Withdrawn),
        (&[Held::Lost.word(full)], Withdrawing::Unknown),
        (&[full.encode()], Withdrawing::Withdrawn),
    ];
    for (values, expected) in ways {
        assert_eq!(slot::withdraw(&Contested::new(values), full, true), Ok(expected), "{values:?}");
    }
}

#[test]
fn a_proxy_that_acts_during_a_cancellation_breaks_no_rule() {
    let full = SlotState::NEW.next(MessageKind::Request);
    let (posted, open) = (full.encode(), Held::Open.word(full));
    let taken = full.in_phase(SlotPhase::Taken).encode();
    let [given_back, unanswered] = [Held::GivenBack, Held::Unanswered].map(|it| it.word(full));
    let ways: [(&[u64], Cancelled); 7] = [
        (&[open, posted], Cancelled::Withdrawn),
        (&[open, given_back], Cancelled::Withdrawn),
        (&[open, taken], Cancelled::Taken),
        (&[open, taken, unanswered], Cancelled::Unanswered),
        (&[taken, unanswered], Cancelled::Unanswered),
        (&[open], Cancelled::Unknown),
        (&[open, posted, open, posted, open, posted, open, posted, open], Cancelled::Unknown),
    ];
    for (values, expected) in ways {
        let word = Contested::new(values);
        assert_eq!(slot::cancel(&word, full, true), Ok(expected), "{values:?}");
        let left = SlotState::decode(word.word.load(Ordering::Relaxed)).unwrap();
        assert!(left.phase() != SlotPhase::Full, "nobody finds it any more");
    }
    let word = Contested::new(&[taken, posted, taken, posted, taken, posted, taken, posted, taken]);
    assert_eq!(slot::cancel(&word, full, false), Err(RuleBroken), "a hostile peer, in finite time");
}
