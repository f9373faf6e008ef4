//! The memory of a ring: little at first, more with the traffic, and little again when idle.
//!
//! | moment | size |
//! |---|---|
//! | first switch to the ring | [`RING_BYTES_FIRST`] |
//! | a send finds the ring empty and too small, or the ring was full before | at least four times |
//! | no byte was sent for a second or two | [`RING_BYTES_FIRST`]; the rest goes to the system |
//!
//! Only a holder of the sender's lock changes the size, and only while the ring is empty. The
//! receiver has copied all bytes then: it moves the head behind each copy. It reads the size after
//! the tail, see [`HalfView::ring`]. So the change needs no consent of the receiver.
//!
//! The size lies in shared memory. A sender writes only where this process took memory from the
//! system, see `reservation`: a peer that names a larger ring makes the
//! sender take more, or use the kernel.

use super::reservation::Reservation;
use super::ring_half::RingHalf;
use crate::memory::layout::{RING_BYTES_FIRST, half};
use crate::memory::lock;
use crate::protocol::{HalfView, RingState};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A ring that grows gets at least so many times its size.
const GROWTH: usize = 4;

/// Rings of this process that are larger than at first.
static LARGE: AtomicU32 = AtomicU32::new(0);
/// The memory of one ring, as far as this process took it from the system.
#[derive(Debug)]
pub struct RingExtent {
    reservation: Reservation,
    /// Not 0: the ring was full, and grows when it is empty.
    was_full: AtomicU32,
    /// The tail at the last look for idle rings.
    seen_tail: AtomicU64,
}

impl RingExtent {
    /// None: all zeros.
    pub(super) const fn new() -> Self {
        Self {
            reservation: Reservation::new(),
            was_full: AtomicU32::new(0),
            seen_tail: AtomicU64::new(0),
        }
    }

    /// Forgets the ring of an earlier pair.
    pub(super) fn forget(&self) {
        self.change(Reservation::forget);
        self.was_full.store(0, Ordering::Relaxed);
        self.seen_tail.store(0, Ordering::Relaxed);
    }

    /// Changes the reservation, and counts the ring as large while it is.
    fn change<T>(&self, step: impl FnOnce(&Reservation) -> T) -> T {
        let before = self.is_large();
        let result = step(&self.reservation);
        match (before, self.is_large()) {
            (false, true) => drop(LARGE.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(LARGE.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        result
    }

    /// Whether the ring is larger than at first.
    pub(super) fn is_large(&self) -> bool {
        self.reservation.bytes() > RING_BYTES_FIRST
    }

    /// Takes memory from the system for a ring of this size; `false` where there is none. Under the
    /// sender's lock.
    #[inline]
    pub(super) fn reserve(&self, half: &RingHalf, size: usize) -> bool {
        self.reservation.has(half, size) || self.reserve_more(half, size)
    }

    #[cold]
    fn reserve_more(&self, half: &RingHalf, size: usize) -> bool {
        self.change(|reservation| reservation.reserve(half, size))
    }

    /// The ring for a send of so many bytes: a larger one, where it is empty and small. Under the
    /// sender's lock.
    #[inline]
    pub(super) fn fit(
        &self,
        half: &RingHalf,
        bytes_max: usize,
        ring: RingState,
        bytes: usize,
    ) -> RingState {
        let is_small = bytes > ring.size - ring.filled;
        if is_small && ring.filled > 0 {
            self.was_full.store(1, Ordering::Relaxed);
        }
        let grows = is_small || self.was_full.load(Ordering::Relaxed) != 0;
        if grows && ring.filled == 0 && ring.size < bytes_max {
            return self.grow(half, bytes_max, ring, bytes);
        }
        ring
    }

    #[cold]
    fn grow(&self, half: &RingHalf, bytes_max: usize, ring: RingState, bytes: usize) -> RingState {
        let wanted = bytes.min(bytes_max).next_power_of_two().max(ring.size * GROWTH);
        let size = wanted.min(bytes_max);
        self.was_full.store(0, Ordering::Relaxed);
        if !self.reserve(half, size) {
            return ring;
        }
        half.store(half::RING_BYTES, size as u64);
        RingState { size, ..ring }
    }

    /// Makes the ring small again, if no byte was sent since the last look. Whether the system was
    /// asked.
    pub(super) fn shrink(&self, half: &RingHalf) -> bool {
        let tail = half.load(half::TAIL);
        if self.seen_tail.swap(tail, Ordering::Relaxed) != tail {
            return false;
        }
        let Some(_held) = lock::try_take(half.lock(half::SEND_LOCK)) else { return false };
        if !half.ring().is_ok_and(|ring| ring.filled == 0) {
            return false;
        }
        if self.change(|reservation| reservation.give_back(half, RING_BYTES_FIRST)) {
            half.store(half::RING_BYTES, RING_BYTES_FIRST as u64);
        }
        true
    }
}

/// Whether any ring of this process is larger than at first.
#[must_use]
pub fn any_large() -> bool {
    LARGE.load(Ordering::Relaxed) > 0
}
