//! Pulses: notifications with a code and a value, in the order of their sending.
//!
//! The places of a link form a ring of [`PULSES_MAX`] pulses per direction. Each side keeps its
//! next place privately. The shared word of the [notifications](super::notification) has the number
//! of pulses that the receiver has not taken:
//!
//! | pending | sender: [`Link::send_pulse`] | receiver: [`Link::take_pulse`] |
//! |---|---|---|
//! | 0 | writes a place, then counts up | finds nothing |
//! | 1 to 15 | writes a place, then counts up | copies a place, then counts down |
//! | 16 | refuses: the ring is full | copies a place, then counts down |
//!
//! One word tells of both, so a receiver that looks for notifications needs no further look. The
//! sender writes only places that the receiver has given back by its count. A hostile party causes
//! or loses pulses of its own link alone.
//!
//! A proxy copies pulses and counts them down later, when the other node has room for them: until
//! then they count in the ring of their sender.

use super::Link;
use super::notification::PULSE_SHIFT;
use crate::layout::PULSES_MAX;
use crate::pulse_places::{after, after_some};
use crate::words::{LinePage, Word64};
use core::sync::atomic::Ordering;

/// One pulse in the word of pending notifications.
const ONE: u64 = 1 << PULSE_SHIFT;
/// The bits of a code in a word of codes.
const CODE_MASK: u64 = 0xff;

impl<P: LinePage> Link<P> {
    /// Sends a pulse. `false` if [`PULSES_MAX`] pulses wait: nothing was sent. Afterwards, read the
    /// peer's wait mode and wake it if needed.
    #[must_use]
    pub fn send_pulse(&mut self, code: u8, value: u64) -> bool {
        let (side, place) = (self.side, usize::from(self.pulses.send));
        let pending = self.page.word64(side.notification());
        // Acquire, by SeqCst: pairs with `take_pulse`, whose copy of the place precedes its count.
        if pending.load(Ordering::SeqCst) >> PULSE_SHIFT >= PULSES_MAX as u64 {
            return false;
        }
        let (at, shift) = side.pulse_code(place);
        let codes = self.page.word64(at);
        let others = codes.load(Ordering::Relaxed) & !(CODE_MASK << shift);
        codes.store(others | u64::from(code) << shift, Ordering::Relaxed);
        self.page.word64(side.pulse_value(place)).store(value, Ordering::Relaxed);
        self.pulses.send = after(self.pulses.send);
        // Release, by SeqCst: pairs with the load of `take_pulse`.
        let pending = self.page.word64(side.notification());
        pending.fetch_add(ONE, Ordering::SeqCst);
        pending.fence_after_update(); // pairs with the fence of `publish_mode`
        true
    }

    /// Takes the first pulse of the peer: its code and its value.
    pub fn take_pulse(&mut self) -> Option<(u8, u64)> {
        let pulse = self.copy_pulse()?;
        self.remove_copied_pulses(1);
        Some(pulse)
    }

    /// Copies the first pulse of the peer that was not copied yet. It stays in its place, and
    /// counts as pending, until [`remove_copied_pulses`](Self::remove_copied_pulses).
    pub fn copy_pulse(&mut self) -> Option<(u8, u64)> {
        if !self.has_uncopied_pulse() {
            return None;
        }
        let place = usize::from(after_some(self.pulses.take, self.pulses.copied));
        let sender = self.side.other();
        let (at, shift) = sender.pulse_code(place);
        let code = self.page.word64(at).load(Ordering::Relaxed) >> shift & CODE_MASK;
        let value = self.page.word64(sender.pulse_value(place)).load(Ordering::Relaxed);
        self.pulses.copied += 1;
        Some((u8::try_from(code).expect("the mask has 8 bits"), value))
    }

    /// Whether a pulse of the peer waits that was not copied.
    #[must_use]
    pub fn has_uncopied_pulse(&self) -> bool {
        // A hostile peer may claim more pulses than there are places.
        let waiting = (self.pending_word() >> PULSE_SHIFT).min(PULSES_MAX as u64);
        waiting > u64::from(self.pulses.copied)
    }

    /// Removes the first pulses that were copied, at most so many: their places are free again.
    pub fn remove_copied_pulses(&mut self, most: usize) {
        let removed = u8::try_from(most).unwrap_or(u8::MAX).min(self.pulses.copied);
        self.pulses.copied -= removed;
        self.pulses.take = after_some(self.pulses.take, removed);
        // Release, by SeqCst: pairs with the load of `send_pulse`.
        let pending = self.page.word64(self.side.other().notification());
        pending.fetch_add((u64::from(removed) * ONE).wrapping_neg(), Ordering::SeqCst);
    }

    /// The latest pulses that were copied, at most so many, count as not copied.
    pub fn uncopy_pulses(&mut self, most: usize) {
        let most = u8::try_from(most).unwrap_or(u8::MAX);
        self.pulses.copied = self.pulses.copied.saturating_sub(most);
    }

    /// Whether a pulse of the peer waits.
    #[must_use]
    pub fn has_pulse(&self) -> bool {
        self.pending_word() >> PULSE_SHIFT != 0
    }

    /// The number of pulses of this side that the peer has not taken, as the peer claims.
    #[must_use]
    pub fn pending_pulses(&self) -> usize {
        let pending = self.page.word64(self.side.notification()).load(Ordering::SeqCst);
        usize::try_from(pending >> PULSE_SHIFT).map_or(PULSES_MAX, |pulses| pulses.min(PULSES_MAX))
    }
}
