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

use super::Link;
use super::notification::PULSE_SHIFT;
use crate::layout::PULSES_MAX;
use crate::pulse_places::after;
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
        if !self.has_pulse() {
            return None;
        }
        let (sender, place) = (self.side.other(), usize::from(self.pulses.take));
        let (at, shift) = sender.pulse_code(place);
        let code = self.page.word64(at).load(Ordering::Relaxed) >> shift & CODE_MASK;
        let value = self.page.word64(sender.pulse_value(place)).load(Ordering::Relaxed);
        self.pulses.take = after(self.pulses.take);
        // Release, by SeqCst: pairs with the load of `send_pulse`.
        let pending = self.page.word64(sender.notification());
        pending.fetch_add(ONE.wrapping_neg(), Ordering::SeqCst);
        Some((u8::try_from(code).expect("the mask has 8 bits"), value))
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
