//! Directions at rest: how they return to the ring, and receives that pass by the ring meanwhile.
//!
//! A connection whose messages the kernel carries must cost what one without a ring costs. So a
//! receive is the program's own call, as given ([`pass`]). It passes by only where the whole
//! connection is out of its rings: the end of the stream has no other meaning then, and a later
//! send asks the kernel. A call that never ends (the thread was cancelled in it) keeps both
//! directions in the kernel.

use super::pairs::PairEnd;
use super::ring_half::{Direction, RingHalf};
use super::socket_state::{SocketState, half_of};
use crate::kernel::ready;
use crate::memory::layout::half;
use crate::memory::lock;
use crate::protocol::{HalfView, pass};
use core::sync::atomic::Ordering;
use std::os::fd::RawFd;

/// Notes a send of a direction at rest, under the sender's lock; whether the rest is over.
pub fn is_over(state: &SocketState, fd: RawFd, half: &RingHalf) -> bool {
    if !state.share.note_send_at_rest() {
        return false;
    }
    // After the peer's end each send is the kernel's.
    if ready::poll_now(fd, libc::POLLRDHUP) != 0 {
        state.share.rest_on();
        return false;
    }
    state.share.begin(half.load(half::WAKEUPS));
    half.store(half::REASON, 0);
    half.add(half::RETURNS, 1);
    half.store(half::PINNED, 0);
    true
}

/// Begins a receive past the rings; whether the program's own call is right. Its end counts the
/// bytes.
pub fn begin_receive(state: &SocketState, end: PairEnd, by_message: bool) -> bool {
    let half = half_of(end, Direction::Receive);
    if !(by_message || half.load(half::PINNED) != 0)
        || !half.has_ring()
        || state.receives.has_error()
    {
        return false;
    }
    // A receive through the library arms the half.
    let wanted = state.receives.wanted_slot.load(Ordering::Relaxed);
    if wanted != 0 && wanted != half.load(half::POLLER_SLOT) {
        return false;
    }
    let sending = half_of(end, Direction::Send);
    if half.in_ring() || sending.in_ring() {
        return false;
    }
    pass::begin(&half, &sending)
}

/// Switches a direction to its ring before a receive that spins, under the receiver's lock: the
/// sender then needs no system call. Nothing of the direction may be in the kernel, or on its way.
pub fn switch_for_spin(half: &RingHalf, end: PairEnd) {
    let is_idle = || {
        half.load(half::ATTACHED) == 1
            && half.load(half::PINNED) == 0
            && half.load(half::SENDING) == 0
            && half.load(half::KERNEL) == half.load(half::KERNEL_TAKEN)
    };
    if !half.has_ring() || !is_idle() {
        return;
    }
    // A send raises `SENDING` under this lock, and counts its bytes before it lowers it.
    if let Some(_held) = lock::try_take(half.lock(half::SEND_LOCK))
        && is_idle()
    {
        switch_to_ring(half, end);
    }
}

/// Switches a direction to the ring, under both locks, unless a receive passes by a ring of the
/// connection at this moment; whether it switched.
pub fn switch_to_ring(half: &RingHalf, end: PairEnd) -> bool {
    let connection = [Direction::Send, Direction::Receive].map(|of| half_of(end, of));
    pass::switch_to_ring(half, connection.each_ref())
}
