//! The parts of a link beside its messages: notifications, wake words and copy gates.

use super::Link;
use crate::copy_gate;
use crate::layout::ARGUMENT;
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::Ordering;

impl<P: Page> Link<P> {
    /// Sets the notification of this side, and adds the bits of its argument. Afterwards, read the
    /// peer's wait mode and wake it if needed.
    #[inline]
    pub fn notify(&self, argument: u64) {
        let line = self.side.notification();
        if argument != 0 {
            self.page.word64(line + ARGUMENT).fetch_or(argument, Ordering::Relaxed);
        }
        let pending = self.page.word32(line);
        pending.swap(1, Ordering::SeqCst);
        pending.fence_after_update(); // pairs with the fence of `publish_mode`
    }

    /// Whether the peer has taken the notification of this side.
    #[must_use]
    pub fn is_notification_taken(&self) -> bool {
        self.page.word32(self.side.notification()).load(Ordering::SeqCst) == 0
    }

    /// Whether the peer has notified.
    #[must_use]
    #[inline]
    pub fn has_notification(&self) -> bool {
        self.page.word32(self.side.other().notification()).load(Ordering::SeqCst) != 0
    }

    /// Takes the peer's notification, with its argument.
    #[inline]
    pub fn take_notification(&self) -> Option<u64> {
        if !self.has_notification() {
            return None;
        }
        let line = self.side.other().notification();
        self.page.word32(line).swap(0, Ordering::SeqCst);
        let argument = self.page.word64(line + ARGUMENT);
        // The load saves a locked exchange for an empty argument.
        Some(if argument.load(Ordering::Relaxed) == 0 {
            0
        } else {
            argument.swap(0, Ordering::Relaxed)
        })
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
    #[inline]
    pub fn end_copy(&self) {
        let word = self.peer_copy_gate();
        if copy_gate::end_copy(word) {
            self.page.wake(word);
        }
    }
}
