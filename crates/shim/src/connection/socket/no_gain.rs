//! Connections that leave their rings for good, because the rings gain nothing.
//!
//! A direction at rest costs its ends some counts in shared memory for each message. Where it rests
//! for the second time in a row, and the spins of its sender's process found few messages meanwhile
//! ([`WakeupShare::is_fruitless`]), this end pins both directions and is LEFT: each further call is
//! the program's own. The other end follows at its next send.
//!
//! Only a connection leaves whose directions both are out of their rings, with nothing left there.
//! So no byte waits for this end, and none of its own needs this library.
//!
//! [`WakeupShare::is_fruitless`]: crate::connection::wakeup_share::WakeupShare::is_fruitless

use super::Socket;
use crate::connection::pairs::PairEnd;
use crate::connection::receive::ReceiveHalf;
use crate::connection::ring_half::{Direction, RingHalf};
use crate::connection::socket_state::half_of;
use crate::connection::upgrade;
use crate::counters;
use crate::kernel::socket;
use crate::memory::layout::half;
use crate::memory::lock::{self, Deadline};
use crate::pin::PinReason;
use crate::protocol::{HalfView, pass};

/// Whether the sender of a half left it for good, because the ring gains nothing.
#[inline]
fn was_left(half: &RingHalf) -> bool {
    half.load(half::PINNED) == 1 && half.load(half::REASON) == PinReason::NoGain as u64
}

impl Socket {
    /// Before a send: leaves the rings for good where they gain nothing, or where the other end has
    /// done so. Whether this socket is LEFT now.
    #[inline]
    pub(super) fn leaves_for_good(&self, end: PairEnd) -> bool {
        let is_wanted =
            self.state.share.is_fruitless() || was_left(&half_of(end, Direction::Receive));
        is_wanted && self.leave_for_good(end)
    }

    #[cold]
    fn leave_for_good(&self, end: PairEnd) -> bool {
        let [sending, receiving] =
            [Direction::Send, Direction::Receive].map(|direction| half_of(end, direction));
        let is_out = |half: &RingHalf| !half.in_ring() && pass::is_drained(half);
        let rests = |half: &RingHalf| half.load(half::PINNED) == half::AT_REST || was_left(half);
        let may_leave = |half: &RingHalf| rests(half) && is_out(half);
        if !may_leave(&sending) || !may_leave(&receiving) || !self.state.is_sole() {
            return false;
        }
        // No send waits for a lock to gain nothing.
        let is_free = [half::SEND_LOCK, half::RECEIVE_LOCK]
            .into_iter()
            .all(|word| lock::try_take(receiving.lock(word)).is_some());
        if !is_free {
            return false;
        }
        let Some(held) = lock::try_take(sending.lock(half::SEND_LOCK)) else { return false };
        if !may_leave(&sending) {
            return false;
        }
        sending.store(half::REASON, PinReason::NoGain as u64);
        sending.store(half::PINNED, 1);
        drop(held);
        self.disarm(Deadline::after(lock::SHORT_NS));
        let half = ReceiveHalf { half: receiving, fd: self.fd, end };
        // A wakeup byte that is still owed would be data to the program's own read.
        let is_out = upgrade::pin_receiving(half) && pass::is_drained(&receiving);
        if !is_out || !self.state.leave() {
            return false;
        }
        if sending.load(half::AT_ONCE) != 0 && sending.load(half::LATENCY[0]) == 0 {
            let _ = socket::set_option(self.fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
        }
        counters::count_pin(PinReason::NoGain);
        true
    }
}
