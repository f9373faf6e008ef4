//! Directions whose receiver mostly sleeps: the ring gains nothing, and the kernel is better.
//!
//! The ring gains by the messages that need no wakeup byte. The sender keeps a balance: a small
//! message that the kernel carries because its receiver sleeps, or one in the ring with a wakeup
//! byte, is a point against the ring. A message without one, or a large one, is a point for it.
//! With [`AGAINST`] points against the ring the direction rests in the kernel. Up to [`FOR_MAX`]
//! points of better times count: a ring that mostly pays outlives a burst.
//!
//! The cause may pass: other programs wanted the CPUs, or the receiver was idle. So a direction
//! returns to the ring after some sends. It rests for four times as many sends each time, up to
//! [`REST_MAX`], until its ring has all points for it. A return that does not pay costs about
//! [`AGAINST`] messages.
//!
//! Where other tasks want the CPUs and the answers rest in the kernel, a message that follows an
//! answer is a point against the ring in any case. Its sender returns at once and sleeps: it is
//! woken for single answers, by the receiver, which gains less than it pays.
//!
//! A direction that rests twice in a row, and whose process found few messages by spins meanwhile,
//! gains nothing: see [`WakeupShare::is_fruitless`]. After such a direction the next ones of the
//! process need no second rest: see [`PastGains`].
//!
//! The count of wakeup bytes comes from shared memory, and may have any value.

use super::past_gains::PastGains;
use crate::spin;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Points against the ring, with which a direction rests.
const AGAINST: i32 = 32;
/// Points for the ring at most.
const FOR_MAX: i32 = 256;
/// Wakeup bytes that count for one message at most: its own, and one before a send past the ring.
const WAKEUPS_MAX: u64 = 2;
/// Sends of the first rest, and of the longest.
const REST_MIN: u32 = 1_024;
const REST_MAX: u32 = 65_536;
/// Each rest is so many times as long as the last one.
const REST_FACTOR: u32 = 4;
/// Spins that found something pay where there was one for so many sends of the rest.
const SENDS_PER_HIT: u32 = 4;

/// The balance of one direction, and its rest. The sender's lock guards all but the sends that are
/// left of a rest.
#[derive(Debug)]
pub struct WakeupShare {
    /// Points against the ring; points for it are negative.
    balance: AtomicI32,
    /// The wakeup bytes that had been sent at the last message.
    wakeups: AtomicU64,
    /// Sends that are left of the rest.
    left: AtomicU32,
    /// Sends of the last rest; 0 is none.
    last: AtomicU32,
    /// The spins of this process that had found something when the last rest began.
    hits: AtomicU32,
    /// The bytes of answers through the kernel that the last look saw.
    answers: AtomicU64,
    /// Not 0: the ring gains nothing.
    fruitless: AtomicU32,
}

impl WakeupShare {
    /// No messages: all zeros.
    pub(super) const fn new() -> Self {
        Self {
            balance: AtomicI32::new(0),
            wakeups: AtomicU64::new(0),
            left: AtomicU32::new(0),
            last: AtomicU32::new(0),
            hits: AtomicU32::new(0),
            answers: AtomicU64::new(0),
            fruitless: AtomicU32::new(0),
        }
    }

    /// Forgets the direction of before.
    pub(super) fn reset(&self) {
        self.begin(0);
        self.left.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
        self.answers.store(0, Ordering::Relaxed);
        self.fruitless.store(0, Ordering::Relaxed);
    }

    /// Whether the ring gains nothing: the direction rests at least for the second time in a row,
    /// and the spins of this process did not find messages meanwhile; or it rests for the first
    /// time, and earlier directions of this process gained nothing.
    #[inline]
    pub(super) fn is_fruitless(&self) -> bool {
        self.fruitless.load(Ordering::Relaxed) != 0
    }

    /// Notes a small message in the ring, after so many wakeup bytes, ever. Whether the direction
    /// rests from now on.
    #[inline]
    pub(super) fn note_message(&self, wakeups: u64, past: &PastGains) -> bool {
        let before = self.wakeups.load(Ordering::Relaxed);
        self.wakeups.store(wakeups, Ordering::Relaxed);
        let points = match wakeups.wrapping_sub(before).min(WAKEUPS_MAX) {
            0 => -1,
            1 => 1,
            _ => 3,
        };
        self.note(points, past)
    }

    /// Whether this end has received bytes past its rings since the last look; `taken` is their
    /// count, ever.
    #[inline]
    pub(super) fn has_answers(&self, taken: u64) -> bool {
        let before = self.answers.load(Ordering::Relaxed);
        self.answers.store(taken, Ordering::Relaxed);
        taken != before
    }

    /// Notes a small message in a ring that gains nothing without wakeup bytes, either. Whether the
    /// direction rests from now on.
    #[inline]
    pub(super) fn note_one_way(&self, wakeups: u64, past: &PastGains) -> bool {
        self.wakeups.store(wakeups, Ordering::Relaxed);
        self.note(1, past)
    }

    /// Notes a large message in the ring, which gains also with a wakeup byte.
    #[inline]
    pub(super) fn note_large(&self, wakeups: u64, past: &PastGains) {
        self.wakeups.store(wakeups, Ordering::Relaxed);
        self.note(-1, past);
    }

    /// Notes a small message that the kernel carries because its receiver sleeps. Whether the
    /// direction rests from now on.
    #[inline]
    pub(super) fn note_asleep(&self, past: &PastGains) -> bool {
        self.note(1, past)
    }

    fn note(&self, points: i32, past: &PastGains) -> bool {
        let balance = (self.balance.load(Ordering::Relaxed) + points).max(-FOR_MAX);
        self.balance.store(balance, Ordering::Relaxed);
        if balance == -FOR_MAX {
            past.note_gain();
            self.last.store(0, Ordering::Relaxed);
            self.fruitless.store(0, Ordering::Relaxed);
        }
        let rests = balance >= AGAINST;
        if rests {
            self.begin_rest(past);
        }
        rests
    }

    #[cold]
    fn begin_rest(&self, past: &PastGains) {
        let last = self.last.load(Ordering::Relaxed);
        let hits = spin::hits();
        let found = hits.wrapping_sub(self.hits.swap(hits, Ordering::Relaxed));
        let is_fruitless = if last == 0 {
            past.foretell_none(hits)
        } else {
            let is_fruitless = found < last / SENDS_PER_HIT;
            if is_fruitless {
                past.note_none(hits);
            }
            is_fruitless
        };
        self.fruitless.store(u32::from(is_fruitless), Ordering::Relaxed);
        let next =
            if last == 0 { REST_MIN } else { last.saturating_mul(REST_FACTOR).min(REST_MAX) };
        self.last.store(next, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
        self.balance.store(0, Ordering::Relaxed);
    }

    /// Notes a send of a direction at rest; whether the rest is over.
    #[inline]
    pub(super) fn note_send_at_rest(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// Notes a send of a direction at rest that takes no lock; `false` where the rest is over. Two
    /// threads may count one send, which makes the rest longer by one.
    #[inline]
    pub(super) fn passes(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left != 0
    }

    /// Makes the rest longer by the shortest rest.
    pub(super) fn rest_on(&self) {
        self.left.store(REST_MIN, Ordering::Relaxed);
    }

    /// Begins anew in the ring, after so many wakeup bytes, ever.
    pub(super) fn begin(&self, wakeups: u64) {
        self.balance.store(0, Ordering::Relaxed);
        self.wakeups.store(wakeups, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends messages of which `woken` in ten need a wakeup byte; the message that begins a rest.
    fn messages_until_rest(share: &WakeupShare, woken: u64, most: u64) -> Option<u64> {
        let past = PastGains::new();
        let mut wakeups = share.wakeups.load(Ordering::Relaxed);
        (1..=most).find(|message| {
            wakeups += u64::from(message % 10 < woken);
            share.note_message(wakeups, &past)
        })
    }

    fn sends_at_rest(share: &WakeupShare) -> u32 {
        (0..).find(|_send| share.note_send_at_rest()).unwrap()
    }

    #[test]
    fn a_direction_rests_where_most_messages_need_a_wakeup_byte() {
        for woken in 0..=5 {
            assert_eq!(messages_until_rest(&WakeupShare::new(), woken, 10_000), None);
        }
        assert_eq!(messages_until_rest(&WakeupShare::new(), 10, 10_000), Some(32));
        let slowly = messages_until_rest(&WakeupShare::new(), 7, 10_000).unwrap();
        assert!((32..100).contains(&slowly), "{slowly}");
    }

    #[test]
    fn a_direction_rests_whose_receiver_mostly_sleeps() {
        let past = PastGains::new();
        let share = WakeupShare::new();
        assert_eq!((1..100).find(|_message| share.note_asleep(&past)), Some(32));
        // Every second message is large, or finds the receiver awake.
        let share = WakeupShare::new();
        for message in 0..1_000 {
            assert!(!share.note_asleep(&past));
            if message % 2 == 0 {
                share.note_large(0, &past);
            } else {
                assert!(!share.note_message(0, &past));
            }
        }
    }

    #[test]
    fn a_direction_rests_whose_answers_rest_while_the_cpus_are_in_demand() {
        let (share, past) = (WakeupShare::new(), PastGains::new());
        assert!((0..1_000).all(|_message| !share.note_message(0, &past)), "the ring pays");
        let one_way = (1..1_000).find(|_message| share.note_one_way(0, &past));
        assert_eq!(one_way, Some(256 + 32));
        assert!(share.has_answers(7) && !share.has_answers(7) && share.has_answers(8));
    }

    #[test]
    fn a_ring_that_pays_outlives_a_burst() {
        let share = WakeupShare::new();
        assert_eq!(messages_until_rest(&share, 0, 1_000), None);
        assert_eq!(messages_until_rest(&share, 10, 10_000), Some(256 + 32));
    }

    #[test]
    fn each_rest_is_longer_up_to_a_limit() {
        let share = WakeupShare::new();
        let rests: Vec<u32> = (0..6)
            .map(|_rest| {
                assert_eq!(messages_until_rest(&share, 10, 10_000), Some(32));
                sends_at_rest(&share)
            })
            .collect();
        assert_eq!(rests, [1024, 4096, 16_384, 65_536, 65_536, 65_536]);
        share.rest_on();
        assert_eq!((0..).find(|_send| !share.passes()), Some(REST_MIN));
        assert!(share.note_send_at_rest(), "the locked send ends the rest");
    }

    #[test]
    fn a_direction_whose_ring_pays_rests_shortly_again() {
        let share = WakeupShare::new();
        for _rest in 0..2 {
            messages_until_rest(&share, 10, 10_000);
        }
        assert_eq!(messages_until_rest(&share, 0, 255), None);
        messages_until_rest(&share, 10, 10_000);
        assert_eq!(sends_at_rest(&share), 16_384);
        assert_eq!(messages_until_rest(&share, 0, 256), None);
        messages_until_rest(&share, 10, 10_000);
        assert_eq!(sends_at_rest(&share), REST_MIN);
    }

    #[test]
    fn a_direction_that_rests_twice_without_a_found_message_is_fruitless() {
        let share = WakeupShare::new();
        messages_until_rest(&share, 10, 10_000);
        sends_at_rest(&share);
        assert!(!share.is_fruitless(), "the cause may pass");
        messages_until_rest(&share, 10, 10_000);
        assert!(share.is_fruitless());
        share.reset();
        messages_until_rest(&share, 10, 10_000);
        share.hits.store(spin::hits().wrapping_sub(REST_MIN / 4), Ordering::Relaxed);
        messages_until_rest(&share, 10, 10_000);
        assert!(!share.is_fruitless(), "spins find messages");
    }

    #[test]
    fn after_a_direction_that_gains_nothing_the_next_one_rests_once() {
        let past = PastGains::new();
        let rest = |share: &WakeupShare| {
            assert_eq!((1..100).find(|_message| share.note_asleep(&past)), Some(32));
        };
        let (first, second) = (WakeupShare::new(), WakeupShare::new());
        rest(&first);
        sends_at_rest(&first);
        rest(&first);
        rest(&second);
        assert!(first.is_fruitless() && second.is_fruitless());
        // A third one whose ring pays: the fourth rests twice.
        let (third, fourth) = (WakeupShare::new(), WakeupShare::new());
        assert!((0..FOR_MAX).all(|_message| !third.note_message(0, &past)));
        rest(&fourth);
        assert!(!fourth.is_fruitless());
    }

    #[test]
    fn any_counts_in_shared_memory_are_harmless() {
        let (share, past) = (WakeupShare::new(), PastGains::new());
        for wakeups in [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63] {
            for _message in 0..400 {
                share.note_message(wakeups, &past);
            }
        }
        share.begin(u64::MAX);
        assert!(!share.note_message(3, &past));
        assert_eq!(share.balance.load(Ordering::Relaxed), 3, "the count wraps");
    }
}
