//! Bytes of this process that the receiver's kernel does not know: they have the bit of an armed
//! poller in place of a wakeup byte.
//!
//! An event loop reports the kernel's events before those of its bits. So before this process does
//! anything that another process learns from the kernel (a send past a ring, a wakeup byte, a
//! close), such bytes get a wakeup byte, unless the loop has reported them. The order of the kernel
//! is then the order in which the sends returned.

use super::ring_half::{Direction, RingHalf};
use super::socket_state::{SocketId, half_of};
use crate::kernel::{Errno, file, socket};
use crate::memory::layout::half;
use crate::memory::lock::{self, LockResult, SHORT_NS};
use crate::memory::window::PairMemory;
use crate::process::limits;
use crate::protocol::HalfView;
use crate::protocol::publish::UNASKED_MAX;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_link::Word64;
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

/// Sockets with such bytes at most; further ones get wakeup bytes at once.
const SOCKETS_MAX: usize = 256;

/// The numbers of the sockets, plus one; 0 is a free entry.
static SOCKETS: [AtomicU64; SOCKETS_MAX] = [const { AtomicU64::new(0) }; SOCKETS_MAX];
/// One more than the last entry that was ever used.
static TOP: AtomicU32 = AtomicU32::new(0);
/// Entries in use.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Notes that a socket is about to have such bytes; `false` where there is no room.
pub(super) fn note(id: SocketId, fd: RawFd) -> bool {
    id.state().sending_fd.store(fd, Ordering::Relaxed);
    let word = &id.state().unannounced;
    if word.load(Ordering::Relaxed) != 0 || word.swap(1, Ordering::SeqCst) != 0 {
        return true;
    }
    let entry = id.number() + 1;
    let free = SOCKETS
        .iter()
        .position(|at| at.compare_exchange(0, entry, Ordering::SeqCst, Ordering::Relaxed).is_ok());
    let Some(at) = free else {
        word.store(0, Ordering::SeqCst);
        return false;
    };
    TOP.fetch_max(u32::try_from(at + 1).unwrap_or(0), Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    true
}

/// Before anything that other processes learn from the kernel.
#[inline]
pub fn announce() {
    if COUNT.load(Ordering::SeqCst) > 0 {
        announce_others(None);
    }
}

/// Before a write to a file that was opened by its name: a FIFO or a terminal has readers.
pub fn announce_unless_regular(fd: RawFd) {
    let is_regular =
        || file::stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG);
    if COUNT.load(Ordering::SeqCst) > 0 && !limits::are_on() && !is_regular() {
        announce_others(None);
    }
}

/// Before a wakeup byte of this socket, whose sender's lock the caller holds.
#[inline]
pub(super) fn announce_before(id: SocketId) {
    if COUNT.load(Ordering::SeqCst) > 0 {
        announce_others(Some(id));
    }
}

#[cold]
fn announce_others(own: Option<SocketId>) {
    if limits::are_on() {
        return;
    }
    let top = TOP.load(Ordering::SeqCst) as usize;
    for entry in SOCKETS.iter().take(top) {
        let seen = entry.load(Ordering::SeqCst);
        let Some(id) = seen.checked_sub(1).and_then(SocketId::from_number) else { continue };
        if own != Some(id)
            && entry.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            COUNT.fetch_sub(1, Ordering::SeqCst);
            // A send of another thread notes the socket again, before it sets its bit.
            id.state().unannounced.store(0, Ordering::SeqCst);
            // The holder of one lock must not wait for another.
            if !announce_one(id, if own.is_some() { 0 } else { SHORT_NS }) {
                // The next caller that holds no lock finds it again, also behind a dead holder.
                note(id, id.state().sending_fd.load(Ordering::Relaxed));
            }
        }
    }
}

/// Sends the wakeup byte of a socket, unless its receiver needs none. `false` where the lock is
/// taken.
fn announce_one(id: SocketId, limit_ns: u64) -> bool {
    let state = id.state();
    let Some(end) = state.joined_end() else { return true };
    let half = half_of(end, Direction::Send);
    let send_lock = half.lock(half::SEND_LOCK);
    let held = match limit_ns {
        0 => lock::take_quietly(send_lock),
        _ => match lock::take(send_lock, || limit_ns) {
            LockResult::Held(held) => Some(held),
            LockResult::Own | LockResult::Busy => None,
        },
    };
    let Some(_held) = held else { return false };
    let slot = half.load(half::POLLER_SLOT);
    // A byte that lies in the kernel already is no edge for epoll.
    if slot == 0 || !half.in_ring() || half.wakeups_in_kernel() >= UNASKED_MAX {
        return true;
    }
    let fd = state.sending_fd.load(Ordering::Relaxed);
    // The program may have closed this descriptor of the socket, and reused its number.
    let is_own = socket::cookie(fd) == Ok(state.search.cookie.load(Ordering::Relaxed));
    if is_own {
        announce_held(id, (&half, end.memory), slot, fd);
    }
    true
}

/// Before a direction leaves its ring, under the sender's lock: no wakeup byte may follow the bytes
/// of the kernel. Whether the receiver learns of all bytes in the ring.
pub(super) fn announce_last(id: SocketId, half: (&RingHalf, PairMemory), fd: RawFd) -> bool {
    let slot = half.0.load(half::POLLER_SLOT);
    if slot == 0 || half.0.wakeups_in_kernel() >= UNASKED_MAX {
        return true;
    }
    announce_before(id);
    announce_held(id, half, slot, fd)
}

/// The same for a half whose lock the caller holds, by a descriptor of its socket. Whether the
/// receiver learns of the bytes.
fn announce_held(
    id: SocketId,
    (half, memory): (&RingHalf, PairMemory),
    slot: u64,
    fd: RawFd,
) -> bool {
    let state = id.state();
    if state.peer_poller.is_delivered(memory, slot) {
        return true;
    }
    let sent = signal_after(half, fd, || state.peer_poller.withdraw(memory, slot));
    let is_lost = sent.is_some_and(|sent| sent.is_err_and(loses_event));
    if is_lost && note(id, fd) {
        let stamp = || half.store(half::STAMP, monotonic_ns());
        // Where a thread of the receiver sleeps now, its wakeup is the next send's.
        state.peer_poller.offer(memory, slot, stamp);
    }
    !is_lost
}

/// Sends a wakeup byte for the bytes in the ring, under the sender's lock; `None` where there are
/// none.
pub(super) fn signal(half: &RingHalf, fd: RawFd) -> Option<Result<(), Errno>> {
    signal_after(half, fd, || ())
}

/// The same; `prepare` comes before the wakeup byte can be seen.
fn signal_after(half: &RingHalf, fd: RawFd, prepare: impl FnOnce()) -> Option<Result<(), Errno>> {
    let wakeups = half.word(half::WAKEUPS);
    wakeups.fetch_add(1, Ordering::SeqCst);
    wakeups.fence_after_update(); // pairs with `settle`, which rearms suppression in between
    // A receiver that has taken all bytes leaves no wakeup byte: it saw the count, or is seen here.
    let has_bytes = half.ring().is_ok_and(|ring| ring.filled > 0);
    let sent = has_bytes.then(|| {
        prepare();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        socket::send_bytes(fd, &[0], flags).map(drop)
    });
    if sent != Some(Ok(())) {
        wakeups.fetch_sub(1, Ordering::SeqCst);
    }
    sent
}

/// Whether the receiver learns of its bytes from no event of its kernel where a wakeup byte failed
/// so. A full socket is readable; a broken one reports its end.
fn loses_event(errno: Errno) -> bool {
    !matches!(errno, libc::EAGAIN | libc::EPIPE | libc::ECONNRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_whose_wakeup_byte_finds_no_memory_are_offered_again() {
        assert!([libc::ENOBUFS, libc::ENOMEM].into_iter().all(loses_event));
        assert!(![libc::EAGAIN, libc::EPIPE, libc::ECONNRESET].into_iter().any(loses_event));
    }
}
