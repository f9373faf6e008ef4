//! Ends of connections that this process closed last: their memory is removed after the close.
//!
//! | the last user of a pair | the memory is removed |
//! |---|---|
//! | closes its end | after that close |
//! | exits without a close | by the library's destructor |
//! | is killed with its end | by a later maker of pairs, or the next `m3 sock run` |
//!
//! Of two ends that are closed at the same moment, the later one finds both gone. An end counts as
//! gone when the kernel knows no socket of its cookie that a process has.

use super::armed_poller;
use super::pairs::{self, PairEnd};
use super::ring_half::Direction;
use super::socket_state::{SocketState, any_paired, half_of};
use super::sweep;
use crate::kernel;
use crate::kernel::apart;
use crate::kernel::ready::poll_now;
use crate::memory::user_directory::{Name, UserDirectory};
use crate::process::descriptors::{self, Entry};
use crate::process::limits;
use crate::protocol::HalfView;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::RawFd;

/// Cookies of ends that are being closed; 0 is a free entry. Where there is none, a sweep does the
/// work.
static ENDED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
/// Whether there may be any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the other end may be gone: a process noted its close, or the kernel shows its end.
fn peer_may_be_gone(end: PairEnd, fd: RawFd) -> bool {
    const ENDED: i16 = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
    pairs::peer_noted_close(end) || (fd >= 0 && poll_now(fd, libc::POLLRDHUP) & ENDED != 0)
}

/// Before this process closes an end; the descriptor is -1 where it is closed already.
pub(super) fn note(end: PairEnd, fd: RawFd, cookie: u64) {
    if !peer_may_be_gone(end, fd) {
        return;
    }
    let is_free = |entry: &&AtomicU64| {
        entry.compare_exchange(0, cookie, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    if ENDED.iter().find(is_free).is_some() {
        ANY.store(true, Ordering::Release);
    }
}

/// After a close: removes the memory of pairs whose both ends are gone.
#[inline]
pub fn remove() {
    if ANY.load(Ordering::Acquire) {
        remove_ended();
    }
}

#[cold]
fn remove_ended() {
    if limits::are_on() || !ANY.swap(false, Ordering::AcqRel) {
        return;
    }
    let Some(directory) = UserDirectory::current() else { return };
    for entry in &ENDED {
        let cookie = entry.swap(0, Ordering::AcqRel);
        if cookie != 0 {
            apart::run(|| sweep::remove_dead(directory, Name::Pair(cookie)));
        }
    }
}

/// The process ends, with whatever call: no sender relies on its event loops any more, and the
/// kernel resets the connections with unread bytes that it does not know.
pub fn exit_at_once() {
    // A limited process makes no other call than its own; its sockets are in the kernel.
    if limits::are_on() || !any_paired() || !armed_poller::end_all() {
        return;
    }
    for socket in descriptors::sockets().filter(|socket| !socket.is_unix()) {
        if socket.is_armed() && socket.has_unsignalled_at_once() == Some(true) {
            kernel::socket::reset_on_close(socket.fd());
        }
    }
}

/// The process exits: removes the memory of its pairs whose peer is gone.
///
/// Another process may have the end, too. It maps the pair, or it executes a program that finds an
/// end of the stream in the kernel and no ring: a pair with anything to receive stays.
pub fn exit() {
    exit_at_once();
    if limits::are_on() || !any_paired() {
        return;
    }
    let Some(directory) = UserDirectory::current() else { return };
    for fd in 0..descriptors::top() {
        if let Entry::Socket(id) = descriptors::get(fd) {
            remove_at_exit(directory, id.state(), fd);
        }
    }
}

fn remove_at_exit(directory: &UserDirectory, state: &SocketState, fd: RawFd) {
    let Some(end) = state.paired_end() else { return };
    let half = half_of(end, Direction::Receive);
    let is_empty = !half.has_ring()
        || (half.ring().is_ok_and(|ring| ring.filled == 0) && half.wakeups_in_kernel() == 0);
    if is_empty && peer_may_be_gone(end, fd) {
        let cookie = state.search.cookie.load(Ordering::Relaxed);
        apart::run(|| sweep::remove_of_peer(directory, Name::Pair(cookie), 1 - end.side));
    }
}
