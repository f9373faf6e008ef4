//! The program's own calls, while a connection is out of its rings: receives past the rings, and
//! sends of a direction at rest.
//!
//! Such a call may sleep, and needs no lock. No sender may switch to the ring during the call,
//! which would take a wakeup byte for data. Each party writes first and reads then:
//!
//! | party | first | then |
//! |---|---|---|
//! | receiver | counts its call (`RECEIVING`) | reads the switches; in the ring: takes the count back |
//! | sender | switches to the ring | reads the count; with a call: switches back |
//!
//! A send of a direction at rest needs no lock, either. A sender that ends the rest, under the
//! lock, switches to the ring only if it finds no send in the kernel:
//!
//! | party | first | then |
//! |---|---|---|
//! | a send at rest | counts its call (`SENDING`) | reads the mark of the rest; without it: takes the count back |
//! | the end of the rest | removes the mark | reads the count; with a call: stays in the kernel |

use super::{CountingWord, HalfView};
use crate::memory::layout::half;
use core::sync::atomic::Ordering;
use m3ipc_link::Word64;

/// Begins a receive past the rings, where the program's own call is right: the count of
/// `receiving` is one higher then.
pub fn begin<H: HalfView>(receiving: &H, sending: &H) -> bool {
    let count = receiving.word(half::RECEIVING);
    count.fetch_add(1, Ordering::SeqCst);
    count.fence_after_update(); // pairs with `switch_to_ring`
    let is_out = |half: &H| half.word(half::SWITCHES).load(Ordering::SeqCst) & 1 == 0;
    let passes = is_out(receiving) && is_out(sending) && is_drained(receiving) && is_read(sending);
    if !passes {
        end(receiving);
    }
    passes
}

/// Ends a receive past the rings.
pub fn end(receiving: &impl HalfView) {
    receiving.word(half::RECEIVING).subtract(1);
}

/// Begins a send of a direction at rest, without its lock; whether the program's own call is right:
/// the count of `SENDING` is one higher then.
#[inline]
pub fn begin_send(sending: &impl HalfView) -> bool {
    let count = sending.word(half::SENDING);
    count.fetch_add(1, Ordering::SeqCst);
    count.fence_after_update(); // pairs with `end_rest`
    let rests = sending.word(half::PINNED).load(Ordering::SeqCst) == half::AT_REST;
    // A direction that begins its rest leaves its ring after the mark.
    let passes = rests && !sending.in_ring();
    if !passes {
        count.subtract(1);
    }
    passes
}

/// Ends a rest, under the sender's lock: no send begins without the lock from now on. The caller
/// reads the count of `SENDING` afterwards.
pub fn end_rest(sending: &impl HalfView) {
    let mark = sending.word(half::PINNED);
    mark.swap(0, Ordering::SeqCst);
    mark.fence_after_update(); // pairs with `begin_send`
}

/// Whether nothing of the ring is left, neither a byte nor a wakeup byte.
pub fn is_drained(half: &impl HalfView) -> bool {
    half.load(half::PUBLISHING) & 1 == 0 && half.wakeups_in_kernel() == 0 && is_read(half)
}

fn is_read(half: &impl HalfView) -> bool {
    !half.has_ring() || half.ring().is_ok_and(|ring| ring.filled == 0)
}

/// Switches a direction to the ring, under both of its locks, unless a receive passes by a ring of
/// the connection at this moment; whether it switched.
pub fn switch_to_ring<H: HalfView>(half: &H, connection: [&H; 2]) -> bool {
    let passes =
        || connection.iter().any(|half| half.word(half::RECEIVING).load(Ordering::SeqCst) != 0);
    if passes() || !half.switch_to_ring() {
        return false;
    }
    half.word(half::SWITCHES).fence_after_update(); // pairs with `begin`
    if passes() {
        half.switch_to_kernel();
        return false;
    }
    true
}
