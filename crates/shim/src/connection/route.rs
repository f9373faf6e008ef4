//! The switch of a direction to its ring, under both of its locks.

use super::pairs::PairEnd;
use super::ring_half::RingHalf;
use crate::memory::layout::half;
use crate::memory::lock;
use crate::protocol::{HalfView, pass};
use core::sync::atomic::Ordering;

/// Switches a direction to its ring before a receive that spins, under the receiver's lock: the
/// sender then needs no system call. Nothing of the direction may be in the kernel, or on its way.
pub fn switch_for_spin(half: &RingHalf, end: PairEnd) {
    let is_idle = || {
        half.load(half::ATTACHED) == 1
            // SeqCst: pairs with `pass::begin_send`, which counts before it reads the mark.
            && half.word(half::PINNED).load(Ordering::SeqCst) == 0
            && half.word(half::SENDING).load(Ordering::SeqCst) == 0
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
    let connection = [0, 1].map(|side| RingHalf::new(end.memory, side));
    pass::switch_to_ring(half, connection.each_ref())
}
