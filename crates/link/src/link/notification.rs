//! The parts of a link beside its messages: notifications, wake words and copy gates.
//!
//! A sender counts its notifications up, and the receiver counts those down that it takes.
//! Notifications coalesce at the take, because only the receiver knows whether it waited:
//!
//! | the receiver | takes | arguments |
//! |---|---|---|
//! | begins to receive: [`Link::take_notifications`] | all pending ones, as one | all |
//! | waited in vain before: [`Link::take_first_notification`] | the first, which ended the wait | \
//!   that of the first |
//!
//! The sender keeps the argument of the first pending notification apart from the later ones. The
//! word counts them in its lower 56 bits, so a sender cannot make them wrap. Its upper 8 bits count
//! [pulses](super::pulse). Any word is valid: a hostile party causes or loses notifications of its
//! own link alone.

use super::Link;
use crate::copy_gate;
use crate::layout::{FIRST_ARGUMENT, LATER_ARGUMENT};
use crate::words::{LinePage, Word32, Word64};
use core::sync::atomic::Ordering;

/// The pending pulses in the word, from this bit on.
pub(super) const PULSE_SHIFT: u32 = 56;
/// The pending notifications in the word.
const NOTIFICATIONS: u64 = (1 << PULSE_SHIFT) - 1;

impl<P: LinePage> Link<P> {
    /// Adds a notification of this side, with the bits of its argument. Afterwards, read the peer's
    /// wait mode and wake it if needed.
    #[inline]
    pub fn notify(&self, argument: u64) {
        let line = self.side.notification();
        let pending = self.page.word64(line);
        if argument != 0 {
            let is_first = pending.load(Ordering::SeqCst) & NOTIFICATIONS == 0;
            let argument_word = if is_first { FIRST_ARGUMENT } else { LATER_ARGUMENT };
            self.page.word64(line + argument_word).fetch_or(argument, Ordering::Relaxed);
        }
        pending.fetch_add(1, Ordering::SeqCst);
        pending.fence_after_update(); // pairs with the fence of `publish_mode`
    }

    /// Whether the peer has taken all notifications of this side.
    #[must_use]
    pub fn is_notification_taken(&self) -> bool {
        self.page.word64(self.side.notification()).load(Ordering::SeqCst) & NOTIFICATIONS == 0
    }

    /// Whether the peer has sent a notification or a pulse.
    #[must_use]
    #[inline(always)]
    pub fn has_notification(&self) -> bool {
        self.pending_word() != 0
    }

    #[inline(always)]
    pub(super) fn pending_word(&self) -> u64 {
        self.page.word_in(&self.peer_notifications, 0).load(Ordering::SeqCst)
    }

    /// Takes all pending notifications of the peer as one, with the bits of all arguments.
    #[inline]
    pub fn take_notifications(&self) -> Option<u64> {
        let pending = self.pending_word() & NOTIFICATIONS;
        if pending == 0 {
            return None;
        }
        let argument = self.take_argument(FIRST_ARGUMENT) | self.take_argument(LATER_ARGUMENT);
        self.remove_notifications(pending);
        Some(argument)
    }

    /// Takes the first notification of the peer, with its argument. The later ones stay pending.
    pub fn take_first_notification(&self) -> Option<u64> {
        let pending = self.pending_word() & NOTIFICATIONS;
        if pending == 0 {
            return None;
        }
        let mut argument = self.take_argument(FIRST_ARGUMENT);
        // The sender of a sole notification may have seen another one that was just taken.
        if pending == 1 && argument == 0 {
            argument = self.take_argument(LATER_ARGUMENT);
        }
        self.remove_notifications(1);
        Some(argument)
    }

    #[inline]
    fn take_argument(&self, at: usize) -> u64 {
        let argument = self.page.word_in(&self.peer_notifications, at);
        // The load saves a locked exchange for an empty argument.
        if argument.load(Ordering::Relaxed) == 0 { 0 } else { argument.swap(0, Ordering::Relaxed) }
    }

    /// Counts taken notifications down, after the take of their arguments: the sender puts the next
    /// argument in the first place as soon as none is pending.
    #[inline]
    fn remove_notifications(&self, number: u64) {
        let pending = self.page.word_in(&self.peer_notifications, 0);
        pending.fetch_add(number.wrapping_neg(), Ordering::SeqCst);
    }

    /// The wake word of this side.
    #[must_use]
    #[inline]
    pub fn own_wake_word(&self) -> &P::Word32 {
        self.page.word32(self.side.wake_word())
    }

    /// Wakes the peer, which sleeps on its wake word of this link.
    pub fn wake_peer(&self) {
        let word = self.page.word32(self.side.other().wake_word());
        word.bump();
        self.page.wake(word);
    }

    /// The copy gate of this side: see [`copy_gate`].
    #[must_use]
    #[inline]
    pub fn own_copy_gate(&self) -> &P::Word32 {
        self.page.word32(self.side.copy_gate())
    }

    /// The copy gate of the peer.
    #[must_use]
    #[inline]
    pub fn peer_copy_gate(&self) -> &P::Word32 {
        self.page.word32(self.side.other().copy_gate())
    }

    /// Ends a copy with the peer, and wakes the peer if it sleeps on its copy gate.
    #[inline(always)]
    pub fn end_copy(&self) {
        let word = self.peer_copy_gate();
        if copy_gate::end_copy(word) {
            self.wake_at_gate(word);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_at_gate(&self, word: &P::Word32) {
        self.page.wake(word);
    }
}
