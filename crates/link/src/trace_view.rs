//! The reader's side of a trace ring. [`crate::trace_ring`] has the layout.

use crate::trace_record::TraceRecord;
use crate::trace_ring::{HEAD, slot_at, slots_in};
use crate::words::View;
use core::sync::atomic::{Ordering, fence};
use m3ipc_shm::Observed;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// The reader's side of a trace ring.
#[derive(Debug)]
pub struct TraceView<V = Observed> {
    view: V,
    slots: u64,
    next: u64,
    lost: u64,
    broken: u64,
}

impl TraceView {
    /// Maps a ring for reading.
    ///
    /// # Errors
    /// `INVAL` if no ring has this size; those of [`Observed::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        let bytes = m3ipc_sys::memory_bytes(&memory)?;
        let slots = slots_in(bytes).ok_or(Errno::INVAL)?;
        let bytes = usize::try_from(bytes).map_err(|_too_large| Errno::INVAL)?;
        Ok(Self { view: Observed::map(memory, bytes)?, slots, next: 0, lost: 0, broken: 0 })
    }
}

impl<V: View> TraceView<V> {
    /// Passes the new records to `take`, oldest first, at most one ring of them. Returns their
    /// number.
    pub fn read(&mut self, mut take: impl FnMut(TraceRecord)) -> u64 {
        let head = self.view.load64(HEAD, Ordering::Acquire);
        if head < self.next {
            // An owner that keeps the rules never counts backwards.
            self.broken = self.broken.saturating_add(1);
            self.next = head;
            return 0;
        }
        let oldest = head.saturating_sub(self.slots);
        if oldest > self.next {
            self.lost = self.lost.saturating_add(oldest - self.next);
            self.next = oldest;
        }
        let mut read = 0;
        while self.next < head {
            match self.read_one(self.next) {
                Found::Record(words) => match TraceRecord::from_words(words) {
                    Some(record) => {
                        read += 1;
                        take(record);
                    }
                    None => self.broken = self.broken.saturating_add(1),
                },
                Found::Overwritten => self.lost = self.lost.saturating_add(1),
            }
            self.next += 1;
        }
        read
    }

    fn read_one(&self, number: u64) -> Found {
        let slot = slot_at(number % self.slots);
        let written = |order| self.view.load64(slot, order) == number.wrapping_add(1);
        if !written(Ordering::Acquire) {
            return Found::Overwritten;
        }
        let words =
            core::array::from_fn(|at| self.view.load64(slot + 8 + 8 * at, Ordering::Relaxed));
        fence(Ordering::Acquire); // pairs with the fence of `TraceRing::write`
        if written(Ordering::Relaxed) { Found::Record(words) } else { Found::Overwritten }
    }

    /// Records that were overwritten before this reader read them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Slots without a valid record, and wrong heads: the owner breaks the rules.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.broken
    }
}

/// The content of a slot.
enum Found {
    Record([u64; 7]),
    Overwritten,
}

#[cfg(test)]
mod tests;
