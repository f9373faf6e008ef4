//! Sending: a copy into the ring and a token where the door asks for one; into the kernel where the ring is full, or not ours.

use super::Outcome;
use super::arena::Arena;
use super::copy::{PARTS_AT_ONCE, Place};
use super::lock::{self, Grip};
use super::lookout;
use super::raw::{self, Errno};
use super::spin::Spin;
use super::way::{Nonsense, Seen, Way};
use super::words::way;
use crate::count::{self, Count};
use core::sync::atomic::{AtomicU64, Ordering};
use libc::iovec;
use m3ipc_sockets::door;
use std::os::fd::RawFd;

/// Bytes that are published at once, so that the receiver copies while we do.
const CHUNK_BYTES: usize = 16 * 1024;
/// Sends that found the receiver where it was, before the kernel is asked whether it lives.
const STALE: u64 = 8;

/// Tokens that lie there, at which one that the door does not ask for is not sent.
const UNASKED: u64 = 16;

/// In place of a count: the peer was seen to end something, so that the kernel is asked at each send.
pub(super) const SUSPECT: u64 = u64::MAX;

/// What a sender knows of its end, beside the way.
pub(super) struct Sender<'a> {
    pub fd: RawFd,
    pub arena: &'static Arena,
    pub spin: &'a Spin,
    pub spin_ns: u64,
    pub always_token: bool,
    /// A Unix socket: its first send after the peer's end fails.
    pub is_unix: bool,
    /// The head as the last send saw it, and how many sends saw the same.
    pub last: &'a [AtomicU64; 2],
}

/// What a send in the ring came to.
enum Put {
    /// All of it.
    All,
    /// The ring is full.
    Full,
    /// The kernel refuses a token.
    Refused(Errno),
}

/// Sends; `turn` tries to turn to the ring where the way is the kernel's.
pub(super) fn send(
    way: &Way,
    own: &Sender<'_>,
    parts: &[iovec],
    flags: i32,
    turn: impl FnOnce(&Way) -> bool,
) -> Outcome {
    let mut place = Place::new(parts);
    if place.left() == 0 {
        return Outcome::Kernel;
    }
    let held = match lock::take(way.word(way::SEND_LOCK)) {
        Grip::Held(held) => held,
        Grip::Own => return interrupted(own.fd, flags),
        Grip::Stuck => return broken(own.fd),
    };
    if held.recovered && way.load(way::PUBLISHING) & 1 == 1 {
        way.add(way::PUBLISHING, 1);
    }
    let total = place.left();
    if !way.in_ring() && !turn(way) {
        way.add(way::SENDING, 1);
        drop(held);
        return through_kernel(way, own.fd, &place, flags, 0);
    }
    if way.load(way::ATTACHED) != 1 {
        // Who receives there does so without us from now on; what lies in the ring he still takes.
        to_kernel(way);
        count::add(Count::Downgrades, 1);
        way.add(way::SENDING, 1);
        drop(held);
        return through_kernel(way, own.fd, &place, flags, 0);
    }
    let force = match peer_state(way, own) {
        Peer::Lives => own.always_token,
        Peer::Quiet => true,
        Peer::Gone => return Outcome::Kernel,
    };
    let put = put(way, own, &mut place, flags, force);
    let sent = total - place.left();
    count::add(Count::RingBytes, sent as u64);
    match put {
        Err(Nonsense) => broken(own.fd),
        Ok(Put::All) => Outcome::Done(total),
        Ok(Put::Refused(_)) if sent > CHUNK_BYTES => Outcome::Done(sent - CHUNK_BYTES),
        // The kernel tells it once more, with its signal.
        Ok(Put::Refused(libc::EPIPE)) => Outcome::Kernel,
        Ok(Put::Refused(errno)) => Outcome::Failed(errno),
        Ok(Put::Full) => {
            to_kernel(way);
            count::add(Count::Overflows, 1);
            way.add(way::OVERFLOWS, 1);
            way.add(way::SENDING, 1);
            drop(held);
            through_kernel(way, own.fd, &place, flags, sent)
        }
    }
}

/// Turns to the kernel; under the sender's lock.
pub(super) fn to_kernel(way: &Way) {
    let turn = way.load(way::TURN);
    if turn & 1 == 1 {
        way.word(way::TURN).store(turn.wrapping_add(1), Ordering::SeqCst);
    }
}

/// A signal handler came upon a lock of its own thread: it cannot wait for itself.
pub(super) fn interrupted(fd: RawFd, flags: i32) -> Outcome {
    let waits = flags & libc::MSG_DONTWAIT == 0 && !raw::is_nonblocking(fd);
    Outcome::Failed(if waits { libc::EINTR } else { libc::EAGAIN })
}

/// The connection ends here, and here alone.
pub(super) fn broken(fd: RawFd) -> Outcome {
    count::add(Count::Nonsense, 1);
    raw::end(fd);
    Outcome::Failed(libc::ECONNRESET)
}

enum Peer {
    Lives,
    /// It has ended its own way, or everything: a token finds out.
    Quiet,
    Gone,
}

/// Whether the receiver still lives, asked of the kernel where it has not moved for a while.
#[inline]
fn peer_state(way: &Way, own: &Sender<'_>) -> Peer {
    let head = way.load(way::HEAD);
    let [last, stale] = own.last;
    if last.swap(head, Ordering::Relaxed) != head && stale.load(Ordering::Relaxed) != SUSPECT {
        stale.store(0, Ordering::Relaxed);
        return Peer::Lives;
    }
    let seen = stale.load(Ordering::Relaxed);
    if seen != SUSPECT {
        stale.store(seen + 1, Ordering::Relaxed);
        if !own.is_unix && !seen.is_multiple_of(STALE) {
            return Peer::Lives;
        }
    }
    let events = raw::poll_now(own.fd, libc::POLLRDHUP);
    if events & (libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP) != 0 {
        stale.store(SUSPECT, Ordering::Relaxed);
    }
    if events & (libc::POLLHUP | libc::POLLERR) != 0 {
        Peer::Gone
    } else if events & libc::POLLRDHUP != 0 {
        Peer::Quiet
    } else {
        Peer::Lives
    }
}

fn put(
    way: &Way,
    own: &Sender<'_>,
    place: &mut Place<'_>,
    flags: i32,
    force: bool,
) -> Result<Put, Nonsense> {
    let mut waited = flags & libc::MSG_DONTWAIT != 0;
    way.word(way::SENDER_CPU).store(u64::from(m3ipc_sys::current_cpu()), Ordering::Relaxed);
    loop {
        let seen = way.look()?;
        let bytes = way.write(seen, place, CHUNK_BYTES);
        if bytes > 0 {
            if let Err(errno) = publish(way, own, seen, bytes, force) {
                return Ok(Put::Refused(errno));
            }
            if place.left() == 0 {
                return Ok(Put::All);
            }
            continue;
        }
        if waited || own.spin_ns == 0 || raw::is_nonblocking(own.fd) {
            return Ok(Put::Full);
        }
        if !wait_for_room(way, own, seen) {
            waited = true;
        }
    }
}

/// Publishes bytes behind the tail, and sends a token where one is needed.
#[inline]
fn publish(
    way: &Way,
    own: &Sender<'_>,
    seen: Seen,
    bytes: usize,
    force: bool,
) -> Result<(), Errno> {
    let tail = seen.tail.wrapping_add(bytes as u64);
    let step = way.load(way::PUBLISHING) | 1;
    way.store(way::PUBLISHING, step);
    door::announce(way.word(way::TAIL), tail);
    let cover = way.word(way::COVER).load(Ordering::SeqCst);
    if cover != 0 && !own.always_token && lookout::comes(own.arena, cover) {
        way.word(way::PUBLISHING).swap(step.wrapping_add(1), Ordering::SeqCst);
        // Who took the cover away meanwhile, and did not wait for us, gets a token.
        if way.word(way::COVER).load(Ordering::SeqCst) == cover {
            spared(way);
            return Ok(());
        }
        way.word(way::PUBLISHING).swap(step, Ordering::SeqCst);
    }
    let asked = door::call(way.word(way::DOOR), tail);
    let lying = way.load(way::TOKENS).wrapping_sub(way.load(way::TOKENS_TAKEN));
    let rings = asked || ((force || way.load(way::EDGES) != 0) && lying < UNASKED);
    if rings {
        // Counted before it can be seen, and before the receiver stops waiting for us.
        way.add(way::TOKENS, 1);
    }
    way.store(way::PUBLISHING, step.wrapping_add(1));
    if rings {
        return token(way, own.fd);
    }
    spared(way);
    Ok(())
}

fn spared(way: &Way) {
    way.add(way::SPARED, 1);
    count::add(Count::TokensSpared, 1);
}

/// Sends a token that was counted.
fn token(way: &Way, fd: RawFd) -> Result<(), Errno> {
    loop {
        match raw::send_bytes(fd, &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Err(libc::EINTR) => {}
            Ok(_) => {
                count::add(Count::Tokens, 1);
                return Ok(());
            }
            Err(errno) => {
                way.word(way::TOKENS).fetch_sub(1, Ordering::AcqRel);
                // Full of tokens that nobody took: it is readable, then.
                return if errno == libc::EAGAIN { Ok(()) } else { Err(errno) };
            }
        }
    }
}

/// Waits for room in the ring, for no longer than a sleep would cost.
fn wait_for_room(way: &Way, own: &Sender<'_>, seen: Seen) -> bool {
    let enough = (seen.size / 4).max(1) as u64;
    own.spin.look(own.spin_ns, || false, || way.load(way::HEAD).wrapping_sub(seen.head) >= enough)
}

/// Sends through the kernel what is left, behind `sent` bytes that are on their way; `SENDING` was raised for it.
fn through_kernel(way: &Way, fd: RawFd, place: &Place<'_>, flags: i32, sent: usize) -> Outcome {
    let (mut place, mut sent) = (place.clone(), sent);
    let first = sent;
    let outcome = loop {
        let mut room = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS_AT_ONCE];
        let now = place.clone();
        let runs = now.runs(&mut room);
        let asked = Place::new(runs).left();
        let quiet = if sent > 0 { libc::MSG_NOSIGNAL } else { 0 };
        match raw::send_waiting(fd, runs, flags | quiet) {
            Ok(bytes) => {
                place.skip(bytes);
                sent += bytes;
                if bytes < asked || place.left() == 0 {
                    break Outcome::Done(sent);
                }
            }
            Err(_) if sent > 0 => break Outcome::Done(sent),
            Err(errno) => break Outcome::Failed(errno),
        }
    };
    let bytes = (sent - first) as u64;
    way.add(way::KERNEL, bytes);
    count::add(Count::KernelBytes, bytes);
    way.word(way::SENDING).fetch_sub(1, Ordering::AcqRel);
    outcome
}
