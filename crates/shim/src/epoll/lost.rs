//! Bits that a hostile sender cleared.
//!
//! All senders of an event loop may write the bits of its poller. One of them can clear the bits of
//! the others. Their bytes lie in rings that it cannot reach. So a wait looks into the rings
//! itself: at most ten times a second while the loop is busy, and once in each sleep. Bytes that
//! arrive during a sleep have wakeup bytes.
//!
//! A look has parts of [`PART_SLOTS`] slots, [`PART_NS`] apart, and waits for no sender. Where one
//! publishes at that moment, its bytes have a mark or a wakeup byte soon, or the mark is lost
//! later: the wait looks again. A hostile sender thus delays a report by [`LOOK_NS`] at most, and
//! by [`PART_NS`] more for each further part.

use super::set::{READABLE, Set};
use core::sync::atomic::Ordering;
use m3ipc_sys::monotonic_ns;

/// The time between two looks.
pub(super) const LOOK_NS: u64 = 100_000_000;
/// The time between two parts of a look.
pub(super) const PART_NS: u64 = 25_000_000;
/// Slots of a part.
const PART_SLOTS: usize = 512;
/// Slots of a set whose waits look before each sleep, in place of once during it.
pub(super) const FEW: usize = 16;

/// Whether a look has an answer for each of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Each slot with bytes has a mark.
    Complete,
    /// A slot changed, or its sender published, at that moment: look again.
    Unsettled,
}

impl Set {
    /// Parts of one look.
    pub(super) fn look_parts(&self) -> u32 {
        u32::try_from(self.top().div_ceil(PART_SLOTS)).unwrap_or(1)
    }

    /// One part of a look: marks the slots with bytes that no mark and no wakeup byte stands for.
    pub(super) fn look_for_lost(&self) -> Look {
        let top = self.top();
        let from = Some(self.look_next.load(Ordering::Relaxed)).filter(|from| *from < top);
        let from = from.unwrap_or(0);
        let end = (from + PART_SLOTS).min(top);
        // All slots: a slot that is not settled must not hide the others.
        let unsettled = (from..end).filter(|slot| self.look_at(*slot) == Look::Unsettled).count();
        self.look_next.store(if end < top { end } else { 0 }, Ordering::Relaxed);
        self.looked_ns.store(monotonic_ns(), Ordering::Relaxed);
        if unsettled > 0 { Look::Unsettled } else { Look::Complete }
    }

    /// The same, unless a wait did lately.
    pub(super) fn look_now_and_then(&self, now_ns: u64) {
        let is_between = self.look_next.load(Ordering::Relaxed) > 0;
        let gap_ns = if is_between { PART_NS } else { LOOK_NS };
        if self.poller().is_some()
            && now_ns.saturating_sub(self.looked_ns.load(Ordering::Relaxed)) >= gap_ns
        {
            self.look_for_lost();
        }
    }

    fn look_at(&self, slot: usize) -> Look {
        let Some(kept) = self.slot(slot) else { return Look::Complete };
        let Some(watched) = kept.read() else { return Look::Unsettled };
        if watched.fd < 0 || watched.events & READABLE == 0 {
            return Look::Complete;
        }
        let Some(socket) = self.socket(slot).filter(|socket| socket.is_armed()) else {
            return Look::Complete;
        };
        // Most rings are empty, and most waits of a program at rest end here.
        if socket.has_empty_ring() {
            return Look::Complete;
        }
        match socket.has_unsignalled_at_once() {
            None => return Look::Unsettled,
            Some(true) if !self.is_reported_edge(slot, socket) => self.keep_stamped(slot, socket),
            Some(_) => {}
        }
        Look::Complete
    }
}
