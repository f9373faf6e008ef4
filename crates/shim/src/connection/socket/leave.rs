//! The ways of a socket out of its ring: pin it to the kernel, shut it down, close it.

use super::Socket;
use crate::buffers::{Buffers, IovCursor};
use crate::connection::receive::ReceiveHalf;
use crate::connection::ring_half::Direction;
use crate::connection::socket_state::{half_of, phase};
use crate::connection::{ended, pairs, upgrade};
use crate::counters;
use crate::kernel::{Errno, file, socket};
use crate::memory::layout::half;
use crate::memory::lock::{self, Deadline};
use crate::outcome::Outcome;
use crate::pin::PinReason;
use crate::protocol::HalfView;
use crate::protocol::settle::{WakeupPort, settle};
use core::sync::atomic::AtomicU64;

/// Wakeup bytes that a close takes at most. No sender of this library leaves more.
const WAKEUPS_AT_CLOSE: u64 = 1024;

/// A half that is received on, during a close: its pauses leave the CPU to no other thread, which
/// could keep it.
struct ClosingHalf(ReceiveHalf);

impl HalfView for ClosingHalf {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.0.word(offset)
    }
}

impl WakeupPort for ClosingHalf {
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno> {
        self.0.take_wakeups(most)
    }

    fn pause(&self, _round: u32) {
        m3ipc_sys::relax();
    }
}

impl Socket {
    /// Pins the socket to the kernel. `false` where bytes lie in the ring: this process can still
    /// receive them, a program without this library cannot.
    pub fn pin(&self, reason: PinReason) -> bool {
        if self.state.phase() == phase::UNSEEN && self.pin_unseen(reason) {
            return true;
        }
        match self.state.phase() {
            phase::JOINED => {}
            // After an exec the socket may have a pair already.
            phase::FRESH if upgrade::join_known(self.state, self.fd) => {}
            phase::FRESH => {
                let is_unix = self.state.is_unix();
                let is_unpaired = !reason.concerns_others()
                    || upgrade::mark_unpaired(self.state, self.fd, is_unix);
                if is_unpaired || !upgrade::join_known(self.state, self.fd) {
                    self.state.stay_in_kernel();
                    counters::count_pin(reason);
                    return true;
                }
            }
            _ => return true,
        }
        let Some(end) = self.state.end() else { return true };
        self.disarm(Deadline::after(lock::LONG_NS));
        counters::count_pin(reason);
        let sending = half_of(end, Direction::Send);
        if !upgrade::pin_sending(&sending, reason) {
            socket::shut_down(self.fd);
        }
        if sending.load(half::AT_ONCE) != 0 && sending.load(half::LATENCY[0]) == 0 {
            let _ = socket::set_option(self.fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
        }
        let half = half_of(end, Direction::Receive);
        upgrade::pin_receiving(ReceiveHalf { half, fd: self.fd, end })
    }

    /// Pins a socket of which the kernel was asked for nothing; whether it stays in the kernel now.
    /// Where other processes have the socket, or must keep it in the kernel, too, the kernel is
    /// asked.
    fn pin_unseen(&self, reason: PinReason) -> bool {
        if reason.concerns_others() || !self.state.is_sole() {
            match Self::kind_of(self.fd) {
                Some(is_unix) => {
                    self.state.reveal(is_unix);
                    return false;
                }
                None => {
                    self.state.stay_in_kernel();
                    return true;
                }
            }
        }
        if self.state.stay_in_kernel() {
            counters::count_pin(reason);
        }
        true
    }

    /// Before a message takes a socket that this process never used to another process. That one
    /// may be without this library. This process makes no pair for the socket from now on. It joins
    /// one that the other process uses.
    pub fn pass_on(&self) {
        self.state.pass_on();
        self.join_known();
        if !matches!(self.state.phase(), phase::UNSEEN | phase::FRESH) {
            self.pin(PinReason::Passed);
        }
    }

    /// Marks a socket that this process keeps in the kernel: a program that inherits it must do the
    /// same. `false` for another socket.
    pub fn mark(&self) -> bool {
        let is_in_kernel = self.state.phase() == phase::KERNEL;
        if is_in_kernel {
            // An UNSEEN socket may have been pinned.
            let is_unix = self.state.is_unix() || Self::kind_of(self.fd) == Some(true);
            let _ = upgrade::mark_unpaired(self.state, self.fd, is_unix);
        }
        is_in_kernel
    }

    /// Whether two states stand for the same socket of the kernel.
    pub fn has_cookie_of(&self, other: &Self) -> bool {
        let cookie = |socket: &Self| upgrade::own_cookie(socket.state, socket.fd);
        cookie(self) == cookie(other)
    }

    /// Frees the state of a socket that no descriptor stands for in the table.
    pub fn discard(&self) {
        self.state.free();
    }

    /// Pins the socket, and shuts the connection down where bytes of the ring would be lost: no
    /// program may read wakeup bytes as data.
    pub fn pin_or_shut_down(&self, reason: PinReason) {
        if !self.pin(reason) {
            socket::shut_down(self.fd);
        }
    }

    /// Whether the next program, with the rights of this moment, finds the pair of the socket.
    #[must_use]
    pub fn may_be_found_again(&self) -> bool {
        self.state.may_be_found_again()
    }

    /// Prepares a shutdown of sending: later sends must fail as the kernel's would.
    pub fn end_sending(&self) {
        if let Some(end) = self.state.joined_end() {
            // Where this fails, the kernel refuses the wakeup bytes of later sends.
            let _ = upgrade::pin_sending(&half_of(end, Direction::Send), PinReason::Ended);
        }
    }

    /// Prepares a shutdown of receiving: the kernel refuses later sends of a Unix peer, which must
    /// reach it. TCP takes them.
    pub fn end_receiving(&self) {
        if self.is_unix()
            && let Some(half) = self.receive_half()
        {
            self.disarm(Deadline::after(lock::SHORT_NS));
            upgrade::pin_receiving(half);
        }
    }

    /// Receives bytes that lie in the ring of a pinned socket, in a process that has limited its
    /// system calls: the last of them take their wakeup bytes along, by read(2). `EAGAIN` where
    /// another thread has the lock: to wait for it takes system calls.
    pub(super) fn receive_left(&self, buffers: &Buffers<'_>, flags: i32) -> Outcome {
        let Some(half) = self.receive_half() else { return Outcome::Kernel };
        let Some(_held) = lock::take_quietly(half.half.lock(half::RECEIVE_LOCK)) else {
            return Outcome::Failed(libc::EAGAIN);
        };
        let Ok(ring) = half.ring() else { return Outcome::Failed(libc::ECONNRESET) };
        if ring.filled == 0 {
            return Outcome::Kernel;
        }
        let discard = flags & libc::MSG_TRUNC != 0 && !self.is_unix();
        // The pin took the memory, see `prepare_limited`: no call may take more.
        if !discard && !self.state.receives.reservation.has(&half.half, ring.size) {
            return Outcome::Failed(libc::ECONNRESET);
        }
        let bytes = half.half.read(ring, &mut IovCursor::new(buffers), discard);
        if flags & libc::MSG_PEEK == 0 {
            half.store(half::HEAD, ring.head.wrapping_add(bytes as u64));
            if bytes == ring.filled {
                self.take_last_wakeups(&half);
            }
        }
        Outcome::Done(bytes)
    }

    /// Before this process limits its system calls: takes the memory of the ring that holds bytes,
    /// for `receive_left`, and forgets that of the ring that it sends on.
    pub fn prepare_limited(&self) {
        if let Some(half) = self.receive_half()
            && let Ok(ring) = half.ring()
        {
            let _ = self.state.receives.reservation.reserve(&half.half, ring.size);
        }
        self.state.extent.forget();
    }

    fn take_last_wakeups(&self, half: &ReceiveHalf) {
        let mut room = [0_u8; 256];
        while let wakeups @ 1.. = half.wakeups_in_kernel() {
            let most = usize::try_from(wakeups).map_or(room.len(), |most| most.min(room.len()));
            match file::read(self.fd, &mut room[..most]) {
                Ok(taken @ 1..) => half.add(half::WAKEUPS_TAKEN, taken as u64),
                _ => return,
            }
        }
    }

    /// Frees the state, before this process closes its last descriptor of the socket. `is_open`
    /// says whether the descriptor is still open. A hostile peer delays no close: each step waits
    /// for nothing that a peer can write.
    pub fn forget(&self, is_open: bool) {
        if let Some(end) = self.state.paired_end() {
            // An armed socket belongs to this process alone.
            let is_alone = self.disarm(Deadline::PASSED);
            let fd = if is_open { self.fd } else { -1 };
            let half = ReceiveHalf { half: half_of(end, Direction::Receive), fd, end };
            let half = ClosingHalf(half);
            // Wakeup bytes that stay unread would turn an orderly end into a reset.
            if half.has_ring()
                && half.wakeups_in_kernel() <= WAKEUPS_AT_CLOSE
                && let Some(_held) = lock::try_take(half.0.half.lock(half::RECEIVE_LOCK))
                && half.ring().is_ok_and(|ring| ring.filled == 0)
            {
                let _ = settle(&half);
            } else if is_alone && is_open && !self.is_unix() && half.has_unsignalled() {
                // The kernel resets a connection with unread bytes. It does not know of these.
                socket::reset_on_close(self.fd);
            }
            pairs::note_close(end);
            ended::note(end, fd, upgrade::own_cookie(self.state, fd));
        }
        self.state.free();
    }
}
