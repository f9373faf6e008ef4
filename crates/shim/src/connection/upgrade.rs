//! Upgrades and pins: how a socket joins its pair, and how a direction switches between kernel and
//! ring.

use super::address::{SocketAddress, SocketName};
use super::blocked::seal;
use super::mark;
use super::pairs::{self, NoPair, PairEnd};
use super::receive::ReceiveHalf;
use super::rest;
use super::ring_half::{Direction, RingHalf};
use super::route;
use super::sock_diag;
use super::socket_state::SocketState;
use super::sweep;
use crate::counters::{self, Counter};
use crate::kernel::apart;
use crate::kernel::socket::{self, NameOf};
use crate::memory::layout::{RING_BYTES_FIRST, half};
use crate::memory::lock::{self, LONG_NS, LockResult};
use crate::memory::user_directory::UserDirectory;
use crate::pin::PinReason;
use crate::protocol::HalfView;
use crate::protocol::settle::{Settled, settle};
use crate::settings::Settings;
use core::sync::atomic::Ordering;
use std::os::fd::RawFd;

/// Searches for a peer that is not there.
const SEARCHES_MAX: u32 = 8;
/// Data calls of a process that passed the socket on, which each look for a pair of the process
/// that got it.
const PASSED_CALLS_MAX: u32 = 64;

/// A data call of a FRESH socket: whether the socket has a pair now.
///
/// A pair that other processes know (the peer, or a process that shares this end) is joined at
/// once, because bytes may go through its rings already.
pub fn try_join(state: &SocketState, fd: RawFd) -> bool {
    let calls = state.search.calls.fetch_add(1, Ordering::Relaxed);
    let is_early = calls < state.search.next.load(Ordering::Relaxed);
    // Most connections end before a pair pays.
    if is_early && state.is_sole() {
        return false;
    }
    let Some(directory) = UserDirectory::current() else {
        state.stay_in_kernel();
        return false;
    };
    state.joining(|| join_or_make(state, fd, directory, calls)).unwrap_or(false)
}

fn join_or_make(state: &SocketState, fd: RawFd, directory: &UserDirectory, calls: u32) -> bool {
    let search = &state.search;
    let is_early = calls < search.next.load(Ordering::Relaxed);
    let cookie = own_cookie(state, fd);
    let found = apart::run(|| {
        let end = find(state, directory, cookie);
        (end, end.is_none() && mark::is_marked(directory, cookie))
    });
    match found {
        Some((Some(end), _)) => {
            state.join(directory, end);
            return true;
        }
        Some((None, true)) => {
            state.stay_in_kernel();
            return false;
        }
        _ if search.is_passed_on() && calls >= PASSED_CALLS_MAX => {
            // The process that got the socket is without this library, or uses it no more. Where
            // there is no room for a mark, a pair has its name.
            let is_marked = mark_unpaired(state, fd, state.is_unix());
            if is_marked || calls >= 2 * PASSED_CALLS_MAX {
                state.stay_in_kernel();
            }
            return false;
        }
        _ if is_early => return false,
        _ => {}
    }
    match find_peer(state, fd, directory, cookie) {
        Ok(end) => {
            state.join(directory, end);
            return true;
        }
        Err(NoPair::OtherUser) => {
            state.stay_in_kernel();
        }
        Err(cause) => {
            let searches = search.searches.fetch_add(1, Ordering::Relaxed);
            let next = calls.saturating_add(1 << searches.min(16));
            search.next.store(next, Ordering::Relaxed);
            // The kernel knows either end of TCP before the other end can use it.
            let is_final = cause == NoPair::NoPeer && !state.is_unix();
            if searches >= if is_final { 1 } else { SEARCHES_MAX } {
                state.stay_in_kernel();
            }
        }
    }
    false
}

/// Joins the pair with this end, where other processes have the end and know a pair; whether they
/// do.
pub fn join_known(state: &SocketState, fd: RawFd) -> bool {
    if state.is_sole() {
        return false;
    }
    let Some(directory) = UserDirectory::current() else { return false };
    state.joining(|| find_known(state, fd, directory)).unwrap_or(false)
}

/// Marks a socket that has no pair: whichever process uses it, it stays in the kernel. `false`
/// where there is a pair by now.
pub fn mark_unpaired(state: &SocketState, fd: RawFd, is_unix: bool) -> bool {
    let Some(directory) = UserDirectory::current() else { return true };
    let cookie = own_cookie(state, fd);
    let family = if is_unix { libc::AF_UNIX } else { libc::AF_INET };
    // A socket that is not connected has no bytes to lose.
    if SocketName::ask(fd, NameOf::Peer).is_none() {
        return true;
    }
    let Ok(address) = SocketAddress::of(fd, family) else { return true };
    let marked = apart::run(|| {
        // Nobody makes a pair with a peer on another machine.
        if !is_unix && sock_diag::peer(&address).is_err() {
            return true;
        }
        let is_marked = mark::make(directory, cookie, &address);
        sweep::now_and_then(directory);
        is_marked
    });
    marked.unwrap_or(true)
}

/// The cookie of a socket; 0 where the kernel gives none.
pub fn own_cookie(state: &SocketState, fd: RawFd) -> u64 {
    let cookie = match state.search.cookie.load(Ordering::Relaxed) {
        0 => socket::cookie(fd).unwrap_or(0),
        known => known,
    };
    state.search.cookie.store(cookie, Ordering::Relaxed);
    cookie
}

/// The end of a socket in a pair that other processes know.
fn find(state: &SocketState, directory: &UserDirectory, cookie: u64) -> Option<PairEnd> {
    let end = pairs::find(directory, cookie, &state.window)?;
    if state.search.is_passed_on() && !pairs::is_joined(end) {
        // The peer alone uses the pair: the process that got this end may be without the library.
        state.window.clear();
        return None;
    }
    Some(end)
}

fn find_known(state: &SocketState, fd: RawFd, directory: &UserDirectory) -> bool {
    let cookie = own_cookie(state, fd);
    let end = apart::run(|| find(state, directory, cookie)).flatten();
    if let Some(end) = end {
        state.join(directory, end);
    }
    end.is_some()
}

#[cold]
fn find_peer(
    state: &SocketState,
    fd: RawFd,
    directory: &UserDirectory,
    cookie: u64,
) -> Result<PairEnd, NoPair> {
    let family = if state.is_unix() { libc::AF_UNIX } else { libc::AF_INET };
    // This fails where the socket is not connected yet.
    let address = SocketAddress::of(fd, family).map_err(|_| NoPair::NoRoom)?;
    let joined = apart::run(|| pairs::join(directory, cookie, &address, &state.window));
    joined.unwrap_or(Err(NoPair::NoRoom))
}

/// Announces that every receive of this end goes through this library. Not while a receive of this
/// process is in the kernel.
#[inline]
pub fn attach(state: &SocketState, end: PairEnd, half: &RingHalf) {
    let generation = m3ipc_sys::fork_generation();
    let is_announced = state.announced_in.load(Ordering::Relaxed) == generation
        && generation != 0
        && half.load(half::ATTACHED) != 0;
    if is_announced || state.has_calls_in_kernel(Direction::Receive) {
        return;
    }
    pairs::note_process(end);
    // Release: pairs with the sender's check in `switch_to_ring`.
    let attached = half.word(half::ATTACHED);
    let _ = attached.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
    state.announced_in.store(generation, Ordering::Relaxed);
}

/// Tries to switch a direction to the ring, under the sender's lock.
pub fn switch_to_ring(
    state: &SocketState,
    fd: RawFd,
    end: PairEnd,
    half: &RingHalf,
    settings: &Settings,
) -> bool {
    if half.load(half::PINNED) == half::AT_REST && !rest::is_over(state, fd, half) {
        return false;
    }
    let is_idle = half.load(half::ATTACHED) == 1
        // SeqCst: pairs with `pass::begin_send`, which counts before it reads the mark.
        && half.word(half::PINNED).load(Ordering::SeqCst) == 0
        && half.word(half::SENDING).load(Ordering::SeqCst) == 0
        && !state.is_suspect()
        && !state.has_calls_in_kernel(Direction::Send);
    if !is_idle || !(settings.same_process || pairs::peer_is_other_process(end)) {
        return false;
    }
    if half.has_ring() {
        let is_drained = || half.load(half::KERNEL) == half.load(half::KERNEL_TAKEN);
        if !is_drained() {
            return false;
        }
        let Some(_held) = lock::try_take(half.lock(half::RECEIVE_LOCK)) else { return false };
        return is_drained() && route::switch_to_ring(half, end);
    }
    state.first_switch.is_due() && first_switch(state, fd, end, half, settings)
}

#[cold]
fn first_switch(
    state: &SocketState,
    fd: RawFd,
    end: PairEnd,
    half: &RingHalf,
    settings: &Settings,
) -> bool {
    // The other socket has received all bytes that were sent, and its program has read them.
    if socket::ioctl_number(fd, libc::TIOCOUTQ) != Ok(0) {
        return false;
    }
    if !state.is_unix() {
        let peer = SocketAddress::of(fd, libc::AF_INET).and_then(|own| {
            let looked_up = apart::run(|| sock_diag::look_up(&own.swapped()));
            looked_up.unwrap_or(Err(libc::EAGAIN))
        });
        if peer.map(|info| info.unread_bytes) != Ok(0) || !send_at_once(fd, half) {
            return false;
        }
    }
    let Some(_held) = lock::try_take(half.lock(half::RECEIVE_LOCK)) else { return false };
    // Most connections need a page.
    let first = (settings.ring_bytes as usize).min(RING_BYTES_FIRST);
    if !state.extent.reserve(half, first) {
        half.store(half::REASON, PinReason::Room as u64);
        half.store(half::PINNED, 1);
        return false;
    }
    // One side alone, or neither, counted the calls of before. All bytes have been read, so both
    // counts are equal here.
    half.store(half::KERNEL_TAKEN, half.load(half::KERNEL));
    half.store(half::RING_BYTES, first as u64);
    if !route::switch_to_ring(half, end) {
        half.store(half::RING_BYTES, 0);
        return false;
    }
    counters::add(Counter::Upgrades, 1);
    true
}

/// Makes TCP send at once: wakeup bytes, and answers to a peer that sends through its ring, so that
/// TCP carries no acknowledgement. Stores the program's own setting. `false` for a corked socket.
pub fn send_at_once(fd: RawFd, half: &RingHalf) -> bool {
    if socket::option(fd, libc::IPPROTO_TCP, libc::TCP_CORK) != Ok(0) {
        return false;
    }
    if half.load(half::AT_ONCE) != 0 {
        return true;
    }
    let Ok(nodelay) = socket::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) else {
        return false;
    };
    half.store(half::LATENCY[0], u64::from(nodelay != 0));
    half.store(half::LATENCY[1], 0);
    let is_set =
        nodelay != 0 || socket::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).is_ok();
    half.store(half::AT_ONCE, u64::from(is_set));
    is_set
}

/// Returns the half that is sent on to the kernel for good. `false` where another thread keeps the
/// lock, and bytes go through the ring: the connection must end.
pub fn pin_sending(half: &RingHalf, reason: PinReason) -> bool {
    let _held = match lock::take(half.word(half::SEND_LOCK), || LONG_NS) {
        LockResult::Held(held) => held,
        // A signal interrupted a send of this thread, which goes on afterwards.
        LockResult::Own => return true,
        LockResult::Busy => return seal(half, Direction::Send),
    };
    half.store(half::REASON, reason as u64);
    half.store(half::PINNED, 1);
    if half.switch_to_kernel() {
        counters::add(Counter::Downgrades, 1);
    }
    true
}

/// Returns the half that is received on to the kernel for good. `false` where bytes lie in the
/// ring, which only a receiver with this library can take.
pub fn pin_receiving(half: ReceiveHalf) -> bool {
    half.store(half::ATTACHED, 2);
    if !half.has_ring() {
        return true;
    }
    let send_lock = half.word(half::SEND_LOCK);
    let LockResult::Held(_send) = lock::take(send_lock, || LONG_NS) else { return false };
    let receive_lock = half.half.lock(half::RECEIVE_LOCK);
    let LockResult::Held(_receive) = lock::take(receive_lock, || LONG_NS) else { return false };
    if half.switch_to_kernel() {
        counters::add(Counter::Downgrades, 1);
    }
    half.ring().is_ok_and(|ring| ring.filled == 0) && settle(&half) == Ok(Settled::Empty)
}
