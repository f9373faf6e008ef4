//! Bits that a hostile sender cleared.
//!
//! All senders of an event loop may write the bits of its poller. One of them can clear the bits of
//! the others. Their bytes lie in rings that it cannot reach. So a wait looks into the rings itself:
//! at most ten times a second while the loop is busy, and once in each sleep. Bytes that arrive
//! during a sleep have wakeup bytes. A hostile sender thus delays a report by [`LOOK_NS`] at most.

use super::set::{READABLE, Set};
use core::sync::atomic::Ordering;

/// The time between two looks.
pub(super) const LOOK_NS: u64 = 100_000_000;
/// Slots of a set whose waits look before each sleep, in place of once during it.
pub(super) const FEW: usize = 16;

impl Set {
    /// Marks the slots with bytes that no mark and no wakeup byte stands for.
    pub(super) fn look_for_lost(&self, now_ns: u64) {
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        for slot in 0..self.top() {
            self.look_at(slot);
        }
    }

    /// The same, unless a wait did lately.
    pub(super) fn look_now_and_then(&self, now_ns: u64) {
        if self.poller().is_some()
            && now_ns.saturating_sub(self.looked_ns.load(Ordering::Relaxed)) >= LOOK_NS
        {
            self.look_for_lost(now_ns);
        }
    }

    fn look_at(&self, slot: usize) {
        let Some(watched) = self.slot(slot).and_then(|slot| slot.read()) else { return };
        if watched.fd < 0 || watched.events & READABLE == 0 {
            return;
        }
        let Some(socket) = self.socket(slot).filter(|socket| socket.is_armed()) else { return };
        // `None` is a publish in progress, whose bit comes.
        if socket.has_unsignalled() != Some(true) || self.is_reported_edge(slot, socket) {
            return;
        }
        self.keep(slot, socket.marked_at_ns());
    }
}
