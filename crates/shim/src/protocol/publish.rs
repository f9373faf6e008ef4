//! The sender's steps: publish bytes of the ring, and send a wakeup byte where one is needed.

use super::{CountingWord, HalfView};
use crate::kernel::Errno;
use crate::memory::layout::half;
use core::sync::atomic::Ordering;
use m3ipc_link::Word64;
use m3ipc_link::notification::{NotificationSuppression, publish_tail};

/// Wakeup bytes in the kernel, at which the sender sends none that suppression does not ask for.
pub const UNASKED_MAX: u64 = 256;

/// A sender's side of one direction.
pub trait SendPort: HalfView {
    /// Sends one wakeup byte without waiting.
    ///
    /// # Errors
    /// Of send(2).
    fn send_wakeup(&self) -> Result<(), Errno>;

    /// Offers the published bytes to the armed poller of this slot word; `true` where its program
    /// polls by itself.
    fn offer(&self, slot: u64) -> bool;

    /// Whether the sender sends a wakeup byte for each publish.
    fn always_wakes(&self) -> bool;
}

/// The outcome of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// A wakeup byte was sent.
    Signalled,
    /// No wakeup byte was needed.
    Spared,
    /// An armed poller has the bit of the bytes in place of a wakeup byte.
    Offered,
    /// The socket is full of wakeup bytes, and thereby readable.
    Full,
}

/// Publishes bytes up to `tail`, under the sender's lock. `force` asks for a wakeup byte that finds
/// out whether the peer lives.
///
/// # Errors
/// The error of the wakeup byte.
#[inline]
pub fn publish(port: &impl SendPort, tail: u64, force: bool) -> Result<Published, Errno> {
    let step = port.load(half::PUBLISHING) | 1;
    port.store(half::PUBLISHING, step);
    publish_tail(port.word(half::TAIL), tail);
    let slot = port.word(half::POLLER_SLOT).load(Ordering::SeqCst);
    if slot != 0 && !port.always_wakes() && port.offer(slot) {
        let publishing = port.word(half::PUBLISHING);
        publishing.swap(step.wrapping_add(1), Ordering::SeqCst);
        publishing.fence_after_update(); // pairs with `settle::disarm`
        // A receiver that disarmed meanwhile, without waiting for us, gets a wakeup byte.
        if port.word(half::POLLER_SLOT).load(Ordering::SeqCst) == slot {
            port.add(half::SPARED, 1);
            return Ok(Published::Offered);
        }
        port.word(half::PUBLISHING).swap(step, Ordering::SeqCst);
    }
    let asked = NotificationSuppression::new(port.word(half::SUPPRESSION)).request(tail);
    let wakes =
        asked || ((force || port.load(half::EDGES) != 0) && port.wakeups_in_kernel() < UNASKED_MAX);
    if wakes {
        // Counted before the byte can be seen, and before the receiver stops waiting for us.
        port.add(half::WAKEUPS, 1);
    }
    port.store(half::PUBLISHING, step.wrapping_add(1));
    if wakes {
        return wake(port);
    }
    port.add(half::SPARED, 1);
    Ok(Published::Spared)
}

/// Sends a wakeup byte that was counted.
fn wake(port: &impl SendPort) -> Result<Published, Errno> {
    loop {
        match port.send_wakeup() {
            Err(libc::EINTR) => {}
            Ok(()) => return Ok(Published::Signalled),
            Err(errno) => {
                port.word(half::WAKEUPS).subtract(1);
                return if errno == libc::EAGAIN { Ok(Published::Full) } else { Err(errno) };
            }
        }
    }
}
