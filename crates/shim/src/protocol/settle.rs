//! The receiver's steps where the ring was found empty: rearm suppression and take wakeup bytes.

use super::{Corrupt, HalfView};
use crate::kernel::Errno;
use crate::memory::layout::half;
use core::sync::atomic::Ordering;
use m3ipc_link::Word64;
use m3ipc_link::notification::NotificationSuppression;

/// Wakeup bytes in the kernel at most: more is garbage.
pub const WAKEUPS_MAX: u64 = 1 << 22;
/// Pauses of a receiver that waits for the sender's next instructions.
pub const PAUSES: u32 = 600;
/// Bytes of one receive of wakeup bytes.
const WAKEUPS_AT_ONCE: u64 = 256;

/// A receiver's access to the wakeup bytes of one direction.
pub trait WakeupPort: HalfView {
    /// Takes at most so many bytes out of the kernel's socket, without waiting.
    ///
    /// # Errors
    /// Of recv(2).
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno>;

    /// Lets some time pass; `round` counts the pauses of one wait.
    fn pause(&self, round: u32);
}

/// The outcome of [`settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The ring is empty, and no wakeup byte lies in the kernel.
    Empty,
    /// Bytes arrived meanwhile.
    More,
    /// The kernel reports an error.
    Error(Errno),
}

/// Waits while a sender publishes. It may have made bytes visible whose wakeup byte is not counted
/// yet; only a few instructions without a system call lie in between.
pub fn wait_for_publisher(port: &impl WakeupPort) {
    let step = port.load(half::PUBLISHING);
    let mut round = 0;
    while step & 1 == 1 && round < PAUSES && port.load(half::PUBLISHING) == step {
        port.pause(round);
        round += 1;
    }
}

/// Rearms suppression, and takes the wakeup bytes of the bytes that were taken.
///
/// # Errors
/// [`Corrupt`] where the counts are impossible.
pub fn settle(port: &impl WakeupPort) -> Result<Settled, Corrupt> {
    // The wait comes first: suppression is then SENT for every wakeup byte that was counted. A byte
    // that is taken while suppression stays SENT would leave the next bytes without a wakeup byte.
    wait_for_publisher(port);
    NotificationSuppression::new(port.word(half::SUPPRESSION)).rearm();
    // Read before the ring is read again: if the ring is empty then, all bytes that these wakeup
    // bytes stand for were taken.
    let sent = port.word(half::WAKEUPS).load(Ordering::SeqCst);
    if port.ring()?.filled > 0 {
        return Ok(Settled::More);
    }
    let owed = sent.wrapping_sub(port.load(half::WAKEUPS_TAKEN));
    if owed > WAKEUPS_MAX {
        return Err(Corrupt);
    }
    Ok(take_counted(port, owed).map_or_else(Settled::Error, |()| Settled::Empty))
}

/// Takes some of the wakeup bytes that were counted.
///
/// # Errors
/// Of recv(2).
pub fn take_counted(port: &impl WakeupPort, mut owed: u64) -> Result<(), Errno> {
    let mut round = 0;
    while owed > 0 && round < PAUSES {
        let most = usize::try_from(owed.min(WAKEUPS_AT_ONCE)).unwrap_or(0);
        match port.take_wakeups(most) {
            Ok(0) => break,
            Ok(taken) => {
                port.add(half::WAKEUPS_TAKEN, taken as u64);
                owed = owed.saturating_sub(taken as u64);
            }
            Err(libc::EAGAIN | libc::EINTR) => {
                // The sender took its count back, or the byte is between the two sockets.
                if port.wakeups_in_kernel() == 0 {
                    break;
                }
                port.pause(round);
                round += 1;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Arms the half with a slot word, under the receiver's lock; 0 changes nothing.
pub fn arm(port: &impl HalfView, slot: u64) {
    if slot != 0 && port.load(half::POLLER_SLOT) != slot && port.has_ring() {
        port.word(half::POLLER_SLOT).store(slot, Ordering::SeqCst);
    }
}

/// Disarms the half. A sender that publishes afterwards follows suppression; bytes that were
/// published before are visible to the caller.
pub fn disarm(port: &impl WakeupPort) {
    disarm_at_once(port);
    wait_for_publisher(port);
}

/// The same without the wait for a sender that publishes at this moment: its bytes have a wakeup
/// byte, or the caller finds them.
pub fn disarm_at_once(port: &impl HalfView) {
    let slot = port.word(half::POLLER_SLOT);
    slot.swap(0, Ordering::SeqCst);
    slot.fence_after_update(); // pairs with `publish::publish`
}

/// Whether the ring holds bytes without a wakeup byte; `None` while a sender publishes, because its
/// wakeup byte is not counted yet.
pub fn has_unsignalled_now(port: &impl WakeupPort) -> Option<bool> {
    (0..4).find_map(|_try| {
        wait_for_publisher(port);
        has_unsignalled_at_once(port)
    })
}

/// The same without waiting for the sender.
pub fn has_unsignalled_at_once(port: &impl HalfView) -> Option<bool> {
    let step = port.load(half::PUBLISHING);
    let unsignalled = port.has_unsignalled();
    let is_settled = step & 1 == 0 && port.word(half::PUBLISHING).load(Ordering::SeqCst) == step;
    is_settled.then_some(unsignalled)
}
