//! Directions at rest: how they return to the ring, and receives that pass by the ring meanwhile.
//!
//! A connection whose messages the kernel carries must cost what one without a ring costs. So a
//! receive is the program's own call, as given ([`pass`]). It passes by only where the whole
//! connection is out of its rings: the end of the stream has no other meaning then, and a later
//! send asks the kernel. A send of the direction at rest takes no lock. A call that never ends (the
//! thread was cancelled in it) keeps both directions in the kernel.

use super::idle_rings;
use super::pairs::PairEnd;
use super::ring_half::{Direction, RingHalf};
use super::socket_state::{SocketState, half_of};
use crate::kernel::ready;
use crate::memory::layout::half;
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
    pass::end_rest(half);
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

/// Begins a send of a direction at rest, without its lock; whether the program's own call is right.
/// The call that ends the rest, and every send of another direction, goes through the library.
#[inline]
pub fn begin_send(state: &SocketState, half: &RingHalf) -> bool {
    let begins =
        half.load(half::PINNED) == half::AT_REST && state.share.passes() && pass::begin_send(half);
    if begins {
        idle_rings::look_in_send();
    }
    begins
}
