//! The answers to a lock of a connection that stays taken.
//!
//! A stopped or hostile thread may keep a lock, and a peer may write the number of any living
//! thread into its word. No call waits for ever:
//!
//! | the direction | answer |
//! |---|---|
//! | a send, while the kernel has the route | sealed: the kernel keeps the route, which needs no lock |
//! | a receive, before the first use of the ring | the same |
//! | any other, in a call that does not wait or has a limit | `EAGAIN` after that time |
//! | any other | the connection ends with `ECONNRESET`: no byte is lost unseen or out of order |

use super::ring_half::Direction;
use crate::counters::{self, Counter};
use crate::kernel::{file, socket};
use crate::memory::layout::half;
use crate::memory::lock::{LONG_NS, SHORT_NS};
use crate::outcome::Outcome;
use crate::pin::PinReason;
use crate::protocol::HalfView;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

/// Refusals that lie further apart belong to two locks.
const GAP_NS: u64 = 1_000_000_000;

/// The refusals of one direction of a socket.
#[derive(Debug)]
pub struct Refusals {
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Refusals {
    /// None.
    pub const fn new() -> Self {
        Self { first_ns: AtomicU64::new(0), last_ns: AtomicU64::new(0) }
    }

    /// Whether calls have been refused for so long that the connection must end.
    fn are_over(&self) -> bool {
        let now_ns = monotonic_ns();
        let last_ns = self.last_ns.swap(now_ns, Ordering::Relaxed);
        if now_ns.saturating_sub(last_ns) > GAP_NS {
            self.first_ns.store(now_ns, Ordering::Relaxed);
        }
        now_ns.saturating_sub(self.first_ns.load(Ordering::Relaxed)) > LONG_NS
    }
}

/// The time that a call may wait for a lock.
#[derive(Clone, Copy, Debug)]
pub struct CallLimit {
    fd: RawFd,
    flags: i32,
    direction: Direction,
}

impl CallLimit {
    /// The limit of a call with these flags.
    pub fn new(fd: RawFd, flags: i32, direction: Direction) -> Self {
        Self { fd, flags, direction }
    }

    /// The limit in nanoseconds.
    pub fn ns(self) -> u64 {
        if self.flags & libc::MSG_DONTWAIT != 0 || file::is_nonblocking(self.fd) {
            return SHORT_NS;
        }
        let option = match self.direction {
            Direction::Send => libc::SO_SNDTIMEO,
            Direction::Receive => libc::SO_RCVTIMEO,
        };
        match socket::time_option_ns(self.fd, option) {
            Ok(limit_ns @ 1..) => limit_ns.min(LONG_NS),
            _ => LONG_NS,
        }
    }

    /// The answer of a call that waited for so long, where the direction cannot be sealed.
    pub fn answer(self, refusals: &Refusals) -> Outcome {
        if self.ns() < LONG_NS && !refusals.are_over() {
            return Outcome::Failed(libc::EAGAIN);
        }
        disconnect(self.fd)
    }
}

/// Keeps a direction in the kernel for good, without its lock; whether that is possible. A sender
/// may seal any direction that is not in the ring, a receiver one whose ring was never used.
pub fn seal(half: &impl HalfView, direction: Direction) -> bool {
    let sealed = match direction {
        Direction::Send => half.seal(),
        Direction::Receive => half.seal_unused(),
    };
    if sealed && matches!(half.load(half::PINNED), 0 | half::AT_REST) {
        half.store(half::REASON, PinReason::Lock as u64);
        half.store(half::PINNED, 1);
        counters::count_pin(PinReason::Lock);
    }
    sealed
}

/// A signal handler found a lock of its own thread: the handler cannot wait for it.
pub fn interrupted(fd: RawFd, flags: i32) -> Outcome {
    let waits = flags & libc::MSG_DONTWAIT == 0 && !file::is_nonblocking(fd);
    Outcome::Failed(if waits { libc::EINTR } else { libc::EAGAIN })
}

/// Ends a connection whose memory is corrupt.
pub fn disconnect(fd: RawFd) -> Outcome {
    counters::add(Counter::Corrupt, 1);
    socket::shut_down(fd);
    Outcome::Failed(libc::ECONNRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_over_after_some_time_in_a_row() {
        let refusals = Refusals::new();
        assert!(!refusals.are_over());
        let start_ns = monotonic_ns().saturating_sub(LONG_NS + 1);
        refusals.first_ns.store(start_ns, Ordering::Relaxed);
        assert!(refusals.are_over());
        refusals.last_ns.store(start_ns, Ordering::Relaxed);
        assert!(!refusals.are_over(), "another lock");
    }
}
