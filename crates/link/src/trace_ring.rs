//! The trace ring: the latest halves of messages of one endpoint, each with its stamps.
//!
//! ```text
//! 0x000   head: number of records ever written    (the rest of the page is unused)
//! 0x1000  slot 0, slot 1, ...                     one cache line each, a power of two of them
//!
//! a slot  number of the record + 1; 0 during a write
//!         number of the message << 8 | subject          number of the answered request
//!         partner | type << 32                          bytes | side << 32
//!         the base stamp, and the distances of four others from it
//! ```
//!
//! Only the owner writes the ring, and it never waits for a reader. A full ring loses its oldest
//! records; a slow reader counts the lost ones. The daemon seals the ring before another process
//! may map it. A reader keeps its own count and takes the size of the ring from the memory. The
//! records are only claims of the owner.

use crate::trace_record::TraceRecord;
use crate::words::{Page, Word64};
use core::sync::atomic::{Ordering, fence};
use m3ipc_shm::Shared;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// The lowest and the highest number of records of a ring.
pub const TRACE_SLOTS: (u32, u32) = (64, 1 << 18);

pub(crate) const HEAD: usize = 0;
pub(crate) const SLOTS: usize = 0x1000;
const SLOT_BYTES: usize = 64;

/// Size in bytes of a ring for `slots` records. The number is clamped to [`TRACE_SLOTS`] and
/// rounded up to a power of two.
#[must_use]
pub fn trace_bytes(slots: u32) -> u64 {
    let slots = slots.clamp(TRACE_SLOTS.0, TRACE_SLOTS.1).next_power_of_two();
    SLOTS as u64 + u64::from(slots) * SLOT_BYTES as u64
}

/// Number of records of a ring of this size; `None` if no ring has this size.
pub(crate) fn slots_in(bytes: u64) -> Option<u64> {
    let slots = bytes.checked_sub(SLOTS as u64)? / SLOT_BYTES as u64;
    let whole = u32::try_from(slots).is_ok_and(|slots| trace_bytes(slots) == bytes);
    whole.then_some(slots)
}

/// The owner's side of a trace ring.
#[derive(Debug)]
pub struct TraceRing<P = Shared> {
    page: P,
    mask: u64,
    next: u64,
}

impl TraceRing {
    /// Maps a ring, before the daemon seals it.
    ///
    /// # Errors
    /// `INVAL` if no ring has this size; those of [`Shared::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        let bytes = m3ipc_sys::memory_bytes(&memory)?;
        let slots = slots_in(bytes).ok_or(Errno::INVAL)?;
        let bytes = usize::try_from(bytes).map_err(|_too_large| Errno::INVAL)?;
        Ok(Self { page: Shared::map(memory, bytes)?, mask: slots - 1, next: 0 })
    }
}

impl<P: Page> TraceRing<P> {
    /// Writes one record. In a full ring, it replaces the oldest.
    pub fn write(&mut self, record: &TraceRecord) {
        let slot = slot_at(self.next & self.mask);
        let number = self.page.word64(slot);
        number.store(0, Ordering::Relaxed);
        // Pairs with the fence of `read_one`, after which a reader checks the number again.
        fence(Ordering::Release);
        for (at, word) in record.words().into_iter().enumerate() {
            self.page.word64(slot + 8 + 8 * at).store(word, Ordering::Relaxed);
        }
        self.next += 1;
        number.store(self.next, Ordering::Release); // pairs with the first load of `read_one`
        self.page.word64(HEAD).store(self.next, Ordering::Release);
    }
}

#[inline]
pub(crate) fn slot_at(index: u64) -> usize {
    // The index is below the number of slots, which fits.
    SLOTS + usize::try_from(index).unwrap_or(0) * SLOT_BYTES
}
