//! What the library keeps of a socket in place of the kernel: options, and errors for the next
//! call.

use super::Socket;
use crate::connection::ring_half::{Direction, RingHalf};
use crate::connection::socket_state::half_of;
use crate::kernel::{Errno, socket};
use crate::memory::layout::half;
use crate::pin::PinReason;
use crate::protocol::HalfView;
use core::sync::atomic::Ordering;

impl Socket {
    /// Keeps an error of the kernel for the next receive: this one returns bytes.
    pub fn keep_error(&self, errno: i32) {
        if !matches!(errno, libc::EAGAIN | libc::EINTR) {
            self.state.receives.keep_error(errno);
        }
    }

    /// Takes an error that was kept, for `SO_ERROR`.
    #[must_use]
    pub fn take_error(&self) -> Option<Errno> {
        self.state.receives.take_error()
    }

    /// Keeps a value of `SO_RCVLOWAT` until the bytes of the ring are taken. `false` for a Unix
    /// socket, whose readiness does not depend on it.
    pub fn set_low_mark_later(&self, mark: i32) -> bool {
        // A negative value stands for the largest one.
        let mark = u32::try_from(mark).unwrap_or(i32::MAX.unsigned_abs());
        let is_kept = !self.is_unix() && self.has_bytes();
        if is_kept {
            self.state.receives.low_mark.store(mark, Ordering::Relaxed);
        }
        is_kept
    }

    /// The value of `SO_RCVLOWAT` that is kept.
    #[must_use]
    pub fn low_mark(&self) -> Option<i32> {
        let mark = self.state.receives.low_mark.load(Ordering::Relaxed);
        i32::try_from(mark).ok().filter(|mark| *mark != 0)
    }

    /// After a receive: sets the value that is kept, once the ring is empty.
    #[inline]
    pub(super) fn set_low_mark(&self, half: &RingHalf) {
        let mark = &self.state.receives.low_mark;
        if mark.load(Ordering::Relaxed) != 0
            && half.ring().is_ok_and(|ring| ring.filled == 0)
            && let Ok(mark @ 1..) = i32::try_from(mark.swap(0, Ordering::Relaxed))
        {
            let _ = socket::set_option(self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark);
        }
    }

    /// Bytes that lie in the ring of a Unix socket: its peer has not received them, as `TIOCOUTQ`
    /// tells of a Unix socket.
    #[must_use]
    pub fn unread_bytes(&self) -> Option<usize> {
        let end = self.state.joined_end().filter(|_end| self.is_unix())?;
        let half = half_of(end, Direction::Send);
        half.has_ring().then(|| half.ring().map_or(0, |ring| ring.filled))
    }

    /// `TCP_NODELAY` or `TCP_CORK` of a socket with a ring: stores `set`, and returns the value for
    /// the program. `None` where the kernel must be asked.
    pub fn latency_option(&self, option: i32, set: Option<i32>) -> Option<i32> {
        let word = match option {
            libc::TCP_NODELAY => half::LATENCY[0],
            libc::TCP_CORK => half::LATENCY[1],
            _ => return None,
        };
        let end = self.state.joined_end()?;
        if self.state.is_unix() {
            return None;
        }
        let half = half_of(end, Direction::Send);
        let is_kept = if option == libc::TCP_NODELAY {
            half.load(half::AT_ONCE) != 0
        } else {
            half.has_ring()
        };
        // One direction alone left its ring; the other may use its own.
        let is_alone = [PinReason::Bulk, PinReason::Wakeups]
            .iter()
            .any(|reason| half.load(half::REASON) == *reason as u64);
        if !is_kept || (half.load(half::PINNED) != 0 && !is_alone) {
            return None;
        }
        if let Some(value) = set {
            half.store(word, u64::from(value != 0));
        }
        Some(i32::from(half.load(word) != 0))
    }
}
