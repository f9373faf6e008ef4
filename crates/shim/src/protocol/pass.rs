//! Receives past the rings: the program's own calls, while a connection is out of its rings.
//!
//! Such a call may sleep, and needs no lock. No sender may switch to the ring during the call,
//! which would take a wakeup byte for data. Each party writes first and reads then:
//!
//! | party | first | then |
//! |---|---|---|
//! | receiver | counts its call (`RECEIVING`) | reads the switches; in the ring: takes the count back |
//! | sender | switches to the ring | reads the count; with a call: switches back |

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

/// Whether nothing of the ring is left, neither a byte nor a wakeup byte.
fn is_drained(half: &impl HalfView) -> bool {
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
