//! Notification suppression: the one word that tells a sender whether the receiver needs a
//! notification.
//!
//! A notification is a byte or a record in a kernel socket, so that poll, select and epoll report
//! it. The sender and the receiver keep one invariant: *outside of a call of the receiver, shared
//! memory holds bytes if and only if a notification lies in the socket* or is on its way there.
//! Readiness therefore stays the kernel's own, in every form that the kernel has.
//!
//! | state | meaning | the next sender |
//! |---|---|---|
//! | NEEDED | the receiver does not poll | changes it to SENT and sends a notification |
//! | SENT | a notification lies in the socket, or is on its way | sends nothing |
//! | POLLING(n) | the receiver polls, and takes all bytes below n | notifies only for later bytes |
//! | ARMED(place) | a poller of the receiver awaits the connection | marks the place, see [`armed`](crate::armed) |
//!
//! A sender changes all other states to SENT. The receiver makes all other changes. Both parties
//! can write the word. A party that breaks the rule loses wake-ups, or gets too many, on this one
//! connection.
//!
//! # Source
//! The name and the idea are those of virtio's `used_event`.

use crate::Word64;
use core::sync::atomic::Ordering;

const NEEDED: u64 = 0;
const SENT: u64 = 1;
const POLLING: u64 = 2;
const ARMED: u64 = 3;
const STATE_MASK: u64 = 3;
const POSITION_SHIFT: u32 = 2;

/// Attempts to change the word, before the sender notifies without having changed it: a hostile
/// peer can change the word at the same time for ever.
const ATTEMPTS: u32 = 4;

/// The state of the word, as a sender sees it that knows of polling by a [`PollingWord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuppressionState {
    /// The receiver does not wait in the kernel, or polls as its polling word says.
    Needed,
    /// A notification lies in the socket, or is on its way.
    Sent,
    /// A poller awaits the connection, at this place.
    Armed(u64),
}

/// What the word is changed to when no notification is in the socket any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// The next sender notifies.
    #[default]
    Needed,
    /// A poller awaits the connection, at this place. It has at most 62 bits.
    Armed(u64),
}

impl Rest {
    fn word(self) -> u64 {
        match self {
            Self::Needed => NEEDED,
            Self::Armed(place) => place << POSITION_SHIFT | ARMED,
        }
    }
}

fn polling(until: u64) -> u64 {
    until << POSITION_SHIFT | POLLING
}

/// Publishes that bytes up to `tail` are there.
///
/// The sender must then call [`NotificationSuppression::request`], unless the receiver is known to
/// poll by itself.
#[inline]
pub fn publish_tail(tail_word: &impl Word64, tail: u64) {
    tail_word.swap(tail, Ordering::SeqCst);
    // Pairs with the fences of `begin_polling`, `end_polling` and `rearm`: the receiver reads the
    // tail after each of them.
    tail_word.fence_after_update();
}

/// The notification suppression of one direction of a connection.
#[derive(Debug)]
pub struct NotificationSuppression<'a, W: Word64>(&'a W);

impl<'a, W: Word64> NotificationSuppression<'a, W> {
    /// The suppression that this word of shared memory holds.
    #[must_use]
    #[inline]
    pub fn new(word: &'a W) -> Self {
        Self(word)
    }

    /// Publishes bytes up to `tail`; `true` where the sender must send a notification for them.
    #[must_use]
    #[inline]
    pub fn publish(&self, tail_word: &impl Word64, tail: u64) -> bool {
        publish_tail(tail_word, tail);
        self.request(tail)
    }

    /// Whether the receiver needs a notification for bytes up to `tail`, without changing the word.
    #[must_use]
    #[inline]
    pub fn is_needed(&self, tail: u64) -> bool {
        let seen = self.0.load(Ordering::SeqCst);
        match seen & STATE_MASK {
            SENT => false,
            // Positions stay below 2^62: at a terabyte a second that takes 53 days.
            POLLING => seen >> POSITION_SHIFT < tail,
            _ => true,
        }
    }

    /// Whether the receiver does not poll, and no notification was sent: bytes that are published
    /// now need one.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) & STATE_MASK == NEEDED
    }

    /// Claims the notification for bytes up to `tail`; `true` where the sender must send it.
    #[must_use]
    #[inline]
    pub fn request(&self, tail: u64) -> bool {
        for _ in 0..ATTEMPTS {
            let seen = self.0.load(Ordering::SeqCst);
            match seen & STATE_MASK {
                SENT => return false,
                POLLING if seen >> POSITION_SHIFT >= tail => return false,
                _ => {}
            }
            if self.0.compare_exchange(seen, SENT).is_ok() {
                return true;
            }
        }
        true
    }

    /// The receiver polls from now on, and will take all bytes up to `until`.
    ///
    /// `false` where a notification has been sent already.
    #[must_use]
    #[inline]
    pub fn begin_polling(&self, until: u64) -> bool {
        let begun = self.0.compare_exchange(NEEDED, polling(until)).is_ok();
        self.0.fence_after_update(); // pairs with `publish_tail`
        begun
    }

    /// The receiver stops polling. It must read the tail once more after this call.
    #[inline]
    pub fn end_polling(&self, until: u64) {
        // This fails where a sender has sent a notification; the word stays SENT then.
        let _ = self.0.compare_exchange(polling(until), NEEDED);
        self.0.fence_after_update(); // pairs with `publish_tail`
    }

    /// Changes SENT back to NEEDED; `true` where the word was SENT.
    ///
    /// The receiver then takes one notification out of the socket, but only after it has found the
    /// shared memory empty.
    #[inline]
    pub fn rearm(&self) -> bool {
        self.rearm_to(Rest::Needed)
    }

    /// Changes SENT to this state, as [`rearm`](Self::rearm).
    #[inline]
    pub fn rearm_to(&self, rest: Rest) -> bool {
        let was_sent = self.0.load(Ordering::SeqCst) & STATE_MASK == SENT
            && self.0.compare_exchange(SENT, rest.word()).is_ok();
        self.0.fence_after_update(); // pairs with `publish_tail`
        was_sent
    }

    /// The state of the word.
    #[must_use]
    #[inline]
    pub fn state(&self) -> SuppressionState {
        let seen = self.0.load(Ordering::SeqCst);
        match seen & STATE_MASK {
            SENT => SuppressionState::Sent,
            ARMED => SuppressionState::Armed(seen >> POSITION_SHIFT),
            _ => SuppressionState::Needed,
        }
    }

    /// Whether a notification lies in the socket, or is on its way.
    #[must_use]
    #[inline]
    pub fn is_sent(&self) -> bool {
        self.0.load(Ordering::SeqCst) & STATE_MASK == SENT
    }

    /// The place at which a poller awaits the connection.
    #[must_use]
    #[inline]
    pub fn armed(&self) -> Option<u64> {
        let seen = self.0.load(Ordering::SeqCst);
        (seen & STATE_MASK == ARMED).then_some(seen >> POSITION_SHIFT)
    }

    /// Changes NEEDED to ARMED. The receiver then reads the tail: bytes from before have no mark.
    pub fn arm(&self, place: u64) {
        // This fails while a notification lies in the socket; the receiver arms when it takes that.
        let _ = self.0.compare_exchange(NEEDED, Rest::Armed(place).word());
        self.0.fence_after_update(); // pairs with `publish_tail`
    }

    /// Changes ARMED to NEEDED. The receiver then reads the tail: bytes from before have no
    /// notification, and senders notify of later bytes.
    pub fn disarm(&self) {
        let seen = self.0.load(Ordering::SeqCst);
        if seen & STATE_MASK == ARMED {
            // This fails where a sender has sent a notification.
            let _ = self.0.compare_exchange(seen, NEEDED);
        }
        self.0.fence_after_update(); // pairs with `publish_tail`
    }
}

/// A word in which a receiver says that it polls, beside the suppression word: it polls, and takes
/// all bytes below the position in the word.
///
/// Only the receiver writes it, so neither party takes the line of the suppression word from the
/// other. A position at or below the receiver's head says nothing: a receiver that took all that it
/// promised need not write again.
#[derive(Debug)]
pub struct PollingWord<'a, W: Word64>(&'a W);

impl<'a, W: Word64> PollingWord<'a, W> {
    /// The promise that this word of shared memory holds.
    #[must_use]
    #[inline]
    pub fn new(word: &'a W) -> Self {
        Self(word)
    }

    /// The receiver polls from now on, and will take all bytes up to `until`. It then reads the
    /// tail.
    #[inline]
    pub fn begin(&self, until: u64) {
        self.0.swap(until, Ordering::SeqCst);
        self.0.fence_after_update(); // pairs with `publish_tail`
    }

    /// The receiver stops polling. It must read the tail once more after this call.
    #[inline]
    pub fn end(&self) {
        self.0.swap(0, Ordering::SeqCst);
        self.0.fence_after_update(); // pairs with `publish_tail`
    }

    /// Whether the receiver takes all bytes up to `tail`. The sender has published them.
    #[must_use]
    #[inline]
    pub fn covers(&self, tail: u64) -> bool {
        self.0.load(Ordering::SeqCst) >= tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn one_notification_is_sent_until_the_receiver_rearms() {
        let (tail, word) = (AtomicU64::new(0), AtomicU64::new(0));
        let suppression = NotificationSuppression::new(&word);
        assert!(suppression.publish(&tail, 1));
        assert!(!suppression.publish(&tail, 2));
        assert!(!suppression.begin_polling(100), "the receiver must rearm first");
        assert!(suppression.rearm() && !suppression.rearm());
        assert!(suppression.publish(&tail, 3));
    }

    #[test]
    fn a_polling_receiver_is_notified_only_of_bytes_beyond_its_limit() {
        let (tail, word) = (AtomicU64::new(0), AtomicU64::new(0));
        let suppression = NotificationSuppression::new(&word);
        assert!(suppression.begin_polling(10));
        assert!(!suppression.publish(&tail, 10));
        assert!(suppression.publish(&tail, 11));
        suppression.end_polling(10);
        assert!(suppression.rearm(), "the notification outlives the polling");
        assert!(suppression.begin_polling(20));
        suppression.end_polling(20);
        assert!(suppression.publish(&tail, 12), "a receiver that stopped polling is notified");
    }

    #[test]
    fn a_corrupt_word_costs_one_notification() {
        let (tail, word) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let suppression = NotificationSuppression::new(&word);
        assert!(suppression.publish(&tail, 1));
        assert!(suppression.rearm());
    }
}
