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
//! system: a peer that names a larger ring makes the sender take more, or use the kernel.
//!
//! The library has no thread. A process looks for idle rings in some of its sends and before it
//! sleeps in an event loop. A process that does neither keeps them.

use super::ring_half::Direction;
use super::send::Sender;
use super::socket_state::{self, SocketState, half_of};
use crate::memory::layout::{RING_BYTES_FIRST, half};
use crate::memory::lock;
use crate::memory::window::PairMemory;
use crate::protocol::{HalfView, RingState};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::monotonic_ns;

/// The time between two looks for idle rings.
pub const LOOK_NS: u64 = 1_000_000_000;
/// Sends between two readings of the clock.
const SENDS_PER_CLOCK: u32 = 256;
/// A ring that grows gets at least so many times its size.
const GROWTH: usize = 4;

/// Rings of this process that are larger than at first.
static LARGE: AtomicU32 = AtomicU32::new(0);
/// Sends with large rings.
static SENDS: AtomicU32 = AtomicU32::new(0);
/// The moment of the last look.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// The memory of one ring, as far as this process took it from the system.
#[derive(Debug)]
pub struct RingExtent {
    /// Bytes from the start of the ring.
    reserved: AtomicU32,
    /// Not 0: the ring was full, and grows when it is empty.
    was_full: AtomicU32,
    /// The tail at the last look for idle rings.
    seen_tail: AtomicU64,
}

impl RingExtent {
    /// None: all zeros.
    pub(super) const fn new() -> Self {
        Self {
            reserved: AtomicU32::new(0),
            was_full: AtomicU32::new(0),
            seen_tail: AtomicU64::new(0),
        }
    }

    /// Forgets the ring of an earlier pair.
    pub(super) fn forget(&self) {
        self.set_reserved(0);
        self.was_full.store(0, Ordering::Relaxed);
        self.seen_tail.store(0, Ordering::Relaxed);
    }

    fn set_reserved(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(0);
        let before = self.reserved.swap(bytes, Ordering::Relaxed);
        let first = u32::try_from(RING_BYTES_FIRST).unwrap_or(0);
        match (before > first, bytes > first) {
            (false, true) => drop(LARGE.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(LARGE.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Takes memory from the system for a ring of this size; `false` where there is none.
    #[inline]
    pub(super) fn reserve(&self, memory: PairMemory, side: usize, size: usize) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed) as usize;
        reserved >= size || self.reserve_more(memory, side, reserved..size)
    }

    #[cold]
    fn reserve_more(
        &self,
        memory: PairMemory,
        side: usize,
        missing: core::ops::Range<usize>,
    ) -> bool {
        let size = missing.end;
        let is_reserved = memory.reserve_ring(side, missing).is_ok();
        if is_reserved {
            self.set_reserved(size);
        }
        is_reserved
    }

    /// The ring for a send of so many bytes: a larger one, where it is empty and small. Under the
    /// sender's lock.
    #[inline]
    pub(super) fn fit(&self, sender: &Sender<'_>, ring: RingState, bytes: usize) -> RingState {
        let is_small = bytes > ring.size - ring.filled;
        if is_small && ring.filled > 0 {
            self.was_full.store(1, Ordering::Relaxed);
        }
        let grows = is_small || self.was_full.load(Ordering::Relaxed) != 0;
        if grows && ring.filled == 0 && ring.size < sender.ring_bytes_max {
            return self.grow(sender, ring, bytes);
        }
        ring
    }

    #[cold]
    fn grow(&self, sender: &Sender<'_>, ring: RingState, bytes: usize) -> RingState {
        let wanted = bytes.min(sender.ring_bytes_max).next_power_of_two().max(ring.size * GROWTH);
        let size = wanted.min(sender.ring_bytes_max);
        self.was_full.store(0, Ordering::Relaxed);
        if !self.reserve(sender.memory, sender.side, size) {
            return ring;
        }
        sender.store(half::RING_BYTES, size as u64);
        RingState { size, ..ring }
    }

    /// Makes the ring of a socket small again, if no byte was sent since the last look.
    fn shrink(&self, state: &SocketState) {
        if self.reserved.load(Ordering::Relaxed) as usize <= RING_BYTES_FIRST {
            return;
        }
        let Some(end) = state.joined_end() else { return };
        let half = half_of(end, Direction::Send);
        let tail = half.load(half::TAIL);
        if self.seen_tail.swap(tail, Ordering::Relaxed) != tail {
            return;
        }
        let Some(_held) = lock::try_take(half.lock(half::SEND_LOCK)) else { return };
        if half.ring().is_ok_and(|ring| ring.filled == 0) {
            half.store(half::RING_BYTES, RING_BYTES_FIRST as u64);
            end.memory.give_back_ring(end.side, RING_BYTES_FIRST);
            self.set_reserved(RING_BYTES_FIRST);
        }
    }
}

/// Whether any ring of this process is larger than at first.
#[must_use]
pub fn any_large() -> bool {
    LARGE.load(Ordering::Relaxed) > 0
}

/// In each send: looks for idle rings now and then.
#[inline]
pub(super) fn look_in_send() {
    if any_large() && SENDS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENDS_PER_CLOCK) {
        look_now_and_then(monotonic_ns());
    }
}

/// Looks for idle rings, unless a thread did within the last second.
#[cold]
pub fn look_now_and_then(now_ns: u64) {
    let last_ns = LOOKED_NS.load(Ordering::Relaxed);
    if any_large()
        && now_ns.saturating_sub(last_ns) >= LOOK_NS
        && LOOKED_NS.compare_exchange(last_ns, now_ns, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        socket_state::all().for_each(|state| state.extent.shrink(state));
    }
}
