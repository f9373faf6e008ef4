//! Receiving: the ring first, then the kernel; a look, then sleep in the kernel.
//!
//! Outside of a call the rule holds: the ring has bytes if and only if a token lies in the kernel (or bytes do). So a call that leaves
//! the ring empty takes every token that was sent for what it took, and one that leaves bytes leaves a token.

use super::Outcome;
use super::copy::{PARTS_AT_ONCE, Place};
use super::lock::{self, Grip};
use super::raw::{self, Errno};
use super::send::{broken, interrupted};
use super::spin::Spin;
use super::way::{Nonsense, Way};
use super::words::way;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use libc::iovec;
use m3ipc_sockets::door;
use std::os::fd::RawFd;

/// Tokens that may lie in the kernel at once: more is nonsense.
const TOKENS_MAX: u64 = 1 << 22;
/// Tokens that may lie there while bytes do.
const SURPLUS: u64 = 32;
/// Looks at a word that a sender is about to change, then hand-overs of the CPU.
const LOOKS: u32 = 400;
const YIELDS: u32 = 200;
/// Looks of one call that found something, before it sleeps all the same.
const WATCHES: u32 = 64;
/// Sleeps of a call that end with nothing, before the same: others may take what woke us.
const SLEEPS: u32 = 10_000_000;
/// Rounds of a look that bring nothing, before the peer is taken for one that plays with us.
const ROUNDS: u32 = 4_000;

/// What a receiver knows of its end, beside the way.
pub(super) struct Receiver<'a> {
    pub fd: RawFd,
    pub spin: &'a Spin,
    pub spin_ns: u64,
    /// Not 0 where the descriptor was last found to sleep in its calls: it may look before it asks.
    pub sleeps: &'a AtomicU32,
    /// An error that the kernel told once, behind bytes that came before it.
    pub pending: &'a AtomicU64,
    /// The cover that the way is to have; 0 is none.
    pub wish: &'a AtomicU64,
}

/// What one look at everything brought.
enum Pulled {
    /// Bytes were copied, or the program's buffer is full.
    Some,
    Nothing,
    End,
    Error(Errno),
}

/// What one turn under the lock came to.
enum Step {
    Return(Outcome),
    /// Nothing, or not enough: sleep, where the call may.
    Wait,
}

/// Receives.
pub(super) fn receive(way: &Way, own: &Receiver<'_>, parts: &[iovec], flags: i32) -> Outcome {
    let mut place = Place::new(parts);
    let total = place.left();
    if total == 0 {
        return Outcome::Kernel;
    }
    let (mut rounds, mut left) = (0_u32, total);
    loop {
        match under_lock(way, own, &mut place, total, flags) {
            Step::Return(outcome) => return outcome,
            Step::Wait => {}
        }
        // Nobody looks for bytes while we sleep.
        if way.load(way::COVER) != 0 {
            own.wish.store(0, Ordering::SeqCst);
            let _held = lock::take(way.word(way::RECEIVE_LOCK));
            uncover(way);
            continue;
        }
        // Many small arrivals for one call are no fault.
        rounds = if place.left() == left { rounds + 1 } else { 0 };
        left = place.left();
        if rounds > SLEEPS {
            return broken(own.fd);
        }
        // The kernel knows of limits, signals, ends and errors.
        match raw::receive_waiting(own.fd, &[raw::part(&mut [0])], libc::MSG_PEEK) {
            Ok(_) => {}
            Err(errno @ (libc::EINTR | libc::EAGAIN)) => {
                return done_or(total - left, Outcome::Failed(errno));
            }
            Err(errno) => own.pending.store(u64::from(errno.unsigned_abs()), Ordering::Relaxed),
        }
    }
}

/// Takes what there is, and looks for more where that may pay; all under one hold of the lock, since what came
/// while we looked has no token.
fn under_lock(
    way: &Way,
    own: &Receiver<'_>,
    place: &mut Place<'_>,
    total: usize,
    flags: i32,
) -> Step {
    let held = match lock::take(way.word(way::RECEIVE_LOCK)) {
        Grip::Held(held) => held,
        Grip::Own => {
            return Step::Return(done_or(total - place.left(), interrupted(own.fd, flags)));
        }
        Grip::Stuck => return Step::Return(broken(own.fd)),
    };
    if held.recovered {
        // Who died may have said that he looks.
        way.word(way::DOOR).swap(0, Ordering::SeqCst);
    }
    cover(way, own.wish);
    let peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !peek;
    let may_wait = flags & libc::MSG_DONTWAIT == 0;
    let mut looks =
        own.spin_ns > 0 && may_wait && own.sleeps.load(Ordering::Relaxed) != 0 && own.spin.pays();
    for _ in 0..WATCHES {
        let pulled = match pull(way, own, place, flags, !looks) {
            Ok(pulled) => pulled,
            Err(Nonsense) => return Step::Return(broken(own.fd)),
        };
        let got = total - place.left();
        match pulled {
            Pulled::Some if !all || place.left() == 0 => return Step::Return(Outcome::Done(got)),
            Pulled::End => return Step::Return(Outcome::Done(got)),
            Pulled::Error(errno) if got > 0 => {
                own.pending.store(u64::from(errno.unsigned_abs()), Ordering::Relaxed);
                return Step::Return(Outcome::Done(got));
            }
            Pulled::Error(errno) => return Step::Return(Outcome::Failed(errno)),
            Pulled::Some | Pulled::Nothing => {}
        }
        let want = if peek { 0 } else { place.left() as u64 };
        if looks {
            // Where it brings nothing, the kernel is asked.
            looks = way.in_ring() && watch(way, own, want);
            continue;
        }
        if !may_wait || !sleeps(own) {
            return Step::Return(done_or(got, Outcome::Failed(libc::EAGAIN)));
        }
        return Step::Wait;
    }
    Step::Wait
}

/// Whether calls on the descriptor sleep, as far as the descriptor has a say.
fn sleeps(own: &Receiver<'_>) -> bool {
    let sleeps = !raw::is_nonblocking(own.fd);
    own.sleeps.store(u32::from(sleeps), Ordering::Relaxed);
    sleeps
}

fn done_or(got: usize, other: Outcome) -> Outcome {
    if got > 0 { Outcome::Done(got) } else { other }
}

/// Takes what there is; under the receiver's lock. Where the ring is empty the kernel is asked why, if `asks`.
fn pull(
    way: &Way,
    own: &Receiver<'_>,
    place: &mut Place<'_>,
    flags: i32,
    asks: bool,
) -> Result<Pulled, Nonsense> {
    let (peek, discard) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_TRUNC != 0);
    let before = place.left();
    for round in 0..ROUNDS {
        let turn = way.load(way::TURN);
        if way.has_ring() {
            let seen = way.look()?;
            let bytes = way.read(seen, place, discard);
            if bytes > 0 && !peek {
                // Release: the bytes were copied before the sender may write over them.
                way.store(way::HEAD, seen.head.wrapping_add(bytes as u64));
            }
            if bytes < seen.filled || (peek && bytes > 0) {
                if !peek {
                    owe_an_edge(way, own, flags);
                }
                return Ok(Pulled::Some);
            }
            match settle(way, own.fd)? {
                Settled::More => continue,
                Settled::Error(errno) => return Ok(Pulled::Error(errno)),
                Settled::Empty => {}
            }
        }
        if place.left() == 0 {
            return Ok(Pulled::Some);
        }
        if turn & 1 == 1 {
            if place.left() < before {
                return Ok(Pulled::Some);
            }
            if !asks {
                return Ok(Pulled::Nothing);
            }
            match ask(way, own, turn)? {
                Some(pulled) => return Ok(pulled),
                None => pause(round),
            }
            continue;
        }
        return Ok(from_kernel(way, own, place, flags, before));
    }
    Err(Nonsense)
}

fn pause(round: u32) {
    if round < LOOKS {
        m3ipc_sys::relax();
    } else {
        m3ipc_sys::yield_cpu();
    }
}

/// Asks the kernel where the ring is empty and no byte was taken: the end, an error, or nothing. None: look again.
fn ask(way: &Way, own: &Receiver<'_>, turn: u64) -> Result<Option<Pulled>, Nonsense> {
    let pending = own.pending.swap(0, Ordering::Relaxed);
    if pending != 0 {
        return Ok(Some(Pulled::Error(i32::try_from(pending).unwrap_or(libc::EIO))));
    }
    let answer = raw::receive_bytes(own.fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT);
    // Who ended may have published before, or turned.
    let moved = way.look()?.filled > 0 || way.load(way::TURN) != turn;
    Ok(match answer {
        Ok(0) if !moved => Some(Pulled::End),
        Err(libc::EAGAIN) if !moved => Some(Pulled::Nothing),
        Err(libc::EINTR | libc::EAGAIN) | Ok(_) => None,
        Err(errno) if moved => {
            own.pending.store(u64::from(errno.unsigned_abs()), Ordering::Relaxed);
            None
        }
        Err(errno) => Some(Pulled::Error(errno)),
    })
}

/// Takes bytes from the kernel, where everything before them was taken.
fn from_kernel(
    way: &Way,
    own: &Receiver<'_>,
    place: &mut Place<'_>,
    flags: i32,
    before: usize,
) -> Pulled {
    let got_some = |place: &Place<'_>| place.left() < before;
    let pending = own.pending.swap(0, Ordering::Relaxed);
    if pending != 0 {
        return Pulled::Error(i32::try_from(pending).unwrap_or(libc::EIO));
    }
    let mut room = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS_AT_ONCE];
    let kept = flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
    let now = place.clone();
    match raw::receive(own.fd, now.runs(&mut room), kept | libc::MSG_DONTWAIT) {
        Ok(0) if got_some(place) => Pulled::Some,
        Ok(0) => Pulled::End,
        Ok(bytes) => {
            place.skip(bytes);
            if kept & libc::MSG_PEEK == 0 {
                way.add(way::KERNEL_TAKEN, bytes as u64);
            }
            Pulled::Some
        }
        Err(libc::EAGAIN | libc::EINTR) if got_some(place) => Pulled::Some,
        Err(libc::EAGAIN | libc::EINTR) => Pulled::Nothing,
        Err(errno) => Pulled::Error(errno),
    }
}

/// What is left of tokens where the ring was found empty.
pub(super) enum Settled {
    /// Nothing: the ring is empty, and no token lies in the kernel.
    Empty,
    /// Bytes came meanwhile.
    More,
    Error(Errno),
}

/// Whoever publishes this moment may have made bytes visible whose token is not counted yet: that is a few instructions, without a
/// system call among them.
fn wait_for_publisher(way: &Way) {
    let step = way.load(way::PUBLISHING);
    let mut round = 0;
    while step & 1 == 1 && round < LOOKS + YIELDS && way.load(way::PUBLISHING) == step {
        pause(round);
        round += 1;
    }
}

/// Gives the way the cover that it is to have; under the receiver's lock.
pub(super) fn cover(way: &Way, wish: &AtomicU64) {
    let wish = wish.load(Ordering::SeqCst);
    if wish != 0 && way.load(way::COVER) != wish && way.in_ring() {
        way.word(way::COVER).store(wish, Ordering::SeqCst);
    }
}

/// Takes the cover away: whoever publishes after this sends tokens as the door has it; what was published before can be seen.
pub(super) fn uncover(way: &Way) {
    way.word(way::COVER).swap(0, Ordering::SeqCst);
    wait_for_publisher(way);
}

/// Where the ring was found empty: turns the door back, and takes the tokens of what was taken.
pub(super) fn settle(way: &Way, fd: RawFd) -> Result<Settled, Nonsense> {
    // First, so that the door is found rung for every token that was counted: one that is taken of a door that
    // stays rung would leave the next bytes without any.
    wait_for_publisher(way);
    door::answer(way.word(way::DOOR));
    // Read before the ring is looked at again: all that these were sent for was taken, if that is empty.
    let sent = way.word(way::TOKENS).load(Ordering::SeqCst);
    if way.look()?.filled > 0 {
        return Ok(Settled::More);
    }
    let owed = sent.wrapping_sub(way.load(way::TOKENS_TAKEN));
    if owed > TOKENS_MAX {
        return Err(Nonsense);
    }
    Ok(take_tokens(way, fd, owed).map_or_else(Settled::Error, |()| Settled::Empty))
}

/// Takes so many tokens of those that were counted.
fn take_tokens(way: &Way, fd: RawFd, mut owed: u64) -> Result<(), Errno> {
    let mut round = 0;
    while owed > 0 && round < LOOKS + YIELDS {
        let mut bytes = [0_u8; 256];
        let most = usize::try_from(owed).unwrap_or(0).min(bytes.len());
        match raw::receive_bytes(fd, bytes.get_mut(..most).unwrap_or(&mut []), libc::MSG_DONTWAIT) {
            Ok(0) => break,
            Ok(taken) => {
                way.add(way::TOKENS_TAKEN, taken as u64);
                owed = owed.saturating_sub(taken as u64);
            }
            Err(libc::EAGAIN | libc::EINTR) => {
                // Taken back by its sender, or between the two sockets.
                if way.load(way::TOKENS) == way.load(way::TOKENS_TAKEN) {
                    break;
                }
                pause(round);
                round += 1;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Bytes were left: whoever waits for edges is owed one at the next arrival. One token stays; where many lie there by now
/// the others are taken, so that the kernel's queue never fills with them.
fn owe_an_edge(way: &Way, own: &Receiver<'_>, flags: i32) {
    if flags & libc::MSG_DONTWAIT == 0 && !raw::is_nonblocking(own.fd) {
        return;
    }
    wait_for_publisher(way);
    door::answer(way.word(way::DOOR));
    let lying =
        way.word(way::TOKENS).load(Ordering::SeqCst).wrapping_sub(way.load(way::TOKENS_TAKEN));
    if (SURPLUS..TOKENS_MAX).contains(&lying)
        && let Err(errno) = take_tokens(way, own.fd, lying - 1)
    {
        own.pending.store(u64::from(errno.unsigned_abs()), Ordering::Relaxed);
    }
}

/// Looks at the ring for a while, telling the sender so: what comes now needs no token, up to what this call takes.
fn watch(way: &Way, own: &Receiver<'_>, want: u64) -> bool {
    let (head, turn) = (way.load(way::HEAD), way.load(way::TURN));
    let until = head.wrapping_add(want);
    if !door::watch(way.word(way::DOOR), until) {
        return true;
    }
    let here = u64::from(m3ipc_sys::current_cpu());
    let found = own.spin.look(
        own.spin_ns,
        || way.word(way::SENDER_CPU).load(Ordering::Relaxed) == here,
        || way.word(way::TAIL).load(Ordering::Acquire) != head || way.load(way::TURN) != turn,
    );
    door::rest(way.word(way::DOOR), until);
    // Pairs with the door's fence in `rest`.
    found || way.word(way::TAIL).load(Ordering::SeqCst) != head
}

/// Whether the ring has bytes for which no token lies in the kernel.
pub(super) fn has_untold(way: &Way) -> bool {
    way.has_ring()
        && way.load(way::TOKENS) == way.load(way::TOKENS_TAKEN)
        && way.look().is_ok_and(|seen| seen.filled > 0)
}

/// The same, where nobody publishes at this moment: his token is not counted yet.
pub(super) fn has_untold_now(way: &Way) -> Option<bool> {
    for _ in 0..4 {
        wait_for_publisher(way);
        let step = way.load(way::PUBLISHING);
        let untold = has_untold(way);
        if step & 1 == 0 && way.word(way::PUBLISHING).load(Ordering::SeqCst) == step {
            return Some(untold);
        }
    }
    None
}

/// Bytes in the kernel's queue that are no tokens, and those of the ring.
pub(super) fn waiting(way: &Way, fd: RawFd) -> Option<usize> {
    let ring = way.look().ok()?.filled;
    let owed = way.load(way::TOKENS).wrapping_sub(way.load(way::TOKENS_TAKEN));
    let kernel = usize::try_from(raw::ask(fd, libc::FIONREAD).ok()?).ok()?;
    Some(ring + kernel.saturating_sub(usize::try_from(owed).unwrap_or(0)))
}
