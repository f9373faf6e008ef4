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
//! system, see [`reservation`](super::reservation): a peer that names a larger ring makes the sender
//! take more, or use the kernel.
//!
//! The library has no thread. A process looks for idle rings in some of its sends and before it
//! sleeps in an event loop. A process that does neither keeps them. One look takes a part of the
//! rings, so that no call waits for all of them; the next look goes on where it stopped.

use super::reservation::Reservation;
use super::ring_half::{Direction, RingHalf};
use super::send::Sender;
use super::socket_state::{self, SocketState, half_of};
use crate::memory::layout::{RING_BYTES_FIRST, half};
use crate::memory::lock;
use crate::process::limits;
use crate::protocol::{HalfView, RingState};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use m3ipc_sys::monotonic_ns;

/// The time between two looks for idle rings, each of which may have several parts.
pub const LOOK_NS: u64 = 1_000_000_000;
/// The time between two parts of a look.
const PART_NS: u64 = 10_000_000;
/// Sockets of a part.
const SOCKETS_PER_PART: usize = 1024;
/// Rings of a part that give memory back at most.
const RINGS_PER_PART: usize = 32;
/// Sends between two readings of the clock.
const SENDS_PER_CLOCK: u32 = 256;
/// A ring that grows gets at least so many times its size.
const GROWTH: usize = 4;

/// Rings of this process that are larger than at first.
static LARGE: AtomicU32 = AtomicU32::new(0);
/// Sends with large rings.
static SENDS: AtomicU32 = AtomicU32::new(0);
/// The moment of the last part of a look.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
/// The socket with which the look goes on; 0 between two looks.
static NEXT: AtomicUsize = AtomicUsize::new(0);

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

    fn is_large(&self) -> bool {
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
        if !self.reserve(&sender.half, size) {
            return ring;
        }
        sender.store(half::RING_BYTES, size as u64);
        RingState { size, ..ring }
    }

    /// Makes the ring of a socket small again, if no byte was sent since the last look. Whether the
    /// system was asked.
    fn shrink(&self, state: &SocketState) -> bool {
        if !self.is_large() {
            return false;
        }
        let Some(end) = state.joined_end() else { return false };
        let half = half_of(end, Direction::Send);
        let tail = half.load(half::TAIL);
        if self.seen_tail.swap(tail, Ordering::Relaxed) != tail {
            return false;
        }
        let Some(_held) = lock::try_take(half.lock(half::SEND_LOCK)) else { return false };
        if !half.ring().is_ok_and(|ring| ring.filled == 0) {
            return false;
        }
        if self.change(|reservation| reservation.give_back(&half, RING_BYTES_FIRST)) {
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

/// In each send: looks for idle rings now and then.
#[inline]
pub(super) fn look_in_send() {
    if any_large() && SENDS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENDS_PER_CLOCK) {
        look_now_and_then(monotonic_ns());
    }
}

/// Whether a look has parts left.
#[must_use]
pub fn is_looking() -> bool {
    NEXT.load(Ordering::Relaxed) > 0
}

/// The time from one look, or part of a look, to the next one.
#[must_use]
pub fn gap_ns() -> u64 {
    if is_looking() { PART_NS } else { LOOK_NS }
}

/// Looks for idle rings, unless a thread did within the last second. Not in a process that has
/// limited its system calls.
#[cold]
pub fn look_now_and_then(now_ns: u64) {
    let last_ns = LOOKED_NS.load(Ordering::Relaxed);
    if any_large()
        && !limits::are_on()
        && now_ns.saturating_sub(last_ns) >= gap_ns()
        && LOOKED_NS.compare_exchange(last_ns, now_ns, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        let from = NEXT.load(Ordering::Relaxed);
        let next = look(socket_state::all().skip(from));
        NEXT.store(next.map_or(0, |sockets| from + sockets), Ordering::Relaxed);
    }
}

/// One part of a look; the number of its sockets, where more are left.
fn look(mut states: impl Iterator<Item = &'static SocketState>) -> Option<usize> {
    let mut rings = 0;
    for socket in 0..SOCKETS_PER_PART {
        if rings == RINGS_PER_PART {
            return Some(socket);
        }
        let state = states.next()?;
        rings += usize::from(state.extent.shrink(state));
    }
    Some(SOCKETS_PER_PART)
}
