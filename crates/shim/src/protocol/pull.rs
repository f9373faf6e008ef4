//! The receiver's steps: the ring first, then the kernel.
//!
//! A call that leaves the ring empty takes each wakeup byte of the bytes that it took. A call that
//! leaves bytes leaves a wakeup byte.

use super::settle::{Settled, WAKEUPS_MAX, WakeupPort, settle, take_counted, wait_for_publisher};
use super::{Corrupt, RingState};
use crate::kernel::Errno;
use crate::memory::layout::half;
use core::sync::atomic::Ordering;
use m3ipc_link::Word64;
use m3ipc_link::notification::NotificationSuppression;

/// Wakeup bytes that may lie in the kernel while bytes lie in the ring.
const SURPLUS_MAX: u64 = 32;
/// Rounds of one pull that bring nothing, before the peer counts as hostile.
const ROUNDS_MAX: u32 = 4_000;
/// Polls of one call that found something, before the call sleeps all the same.
const POLLS_MAX: u32 = 64;

/// A receiver's side of one direction, for one call.
pub trait ReceivePort: WakeupPort {
    /// Bytes that the call still wants.
    fn left(&self) -> usize;
    /// Copies bytes of the ring to the program, or discards them; their number.
    ///
    /// # Errors
    /// [`Corrupt`] where the ring has no memory.
    fn copy_out(&mut self, ring: RingState) -> Result<usize, Corrupt>;
    /// Receives bytes of the kernel for the program, without waiting; their number.
    ///
    /// # Errors
    /// Of recvmsg(2).
    fn receive_from_kernel(&mut self) -> Result<usize, Errno>;
    /// Asks the kernel's socket for one byte, without taking it or waiting for it.
    ///
    /// # Errors
    /// Of recv(2).
    fn peek_kernel(&self) -> Result<usize, Errno>;
    /// Copies bytes of the kernel that lie behind so many wakeup bytes, without taking any.
    ///
    /// # Errors
    /// Of recvmsg(2).
    fn peek_behind_wakeups(&mut self, wakeups: usize) -> Result<usize, Errno>;

    /// Keeps an error for the next call.
    fn keep_error(&self, errno: Errno);
    /// Takes a kept error.
    fn take_error(&self) -> Option<Errno>;
    /// Whether the call leaves the bytes where they are (`MSG_PEEK`).
    fn is_peek(&self) -> bool;
    /// Whether the call wants all its bytes (`MSG_WAITALL`).
    fn wants_all(&self) -> bool;
    /// Whether the flags of the call let it wait.
    fn may_wait(&self) -> bool;
    /// Whether the descriptor does not block.
    fn is_nonblocking(&self) -> bool;
    /// Keeps for the next call whether calls on the descriptor sleep.
    fn note_sleeps(&self, sleeps: bool);
    /// Spins until `arrived`, or for as long as that pays; whether it arrived.
    fn spin(&self, arrived: &dyn Fn() -> bool) -> bool;
}

/// The outcome of one [`pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// Bytes were copied, or the program's memory is full.
    Some,
    /// There is nothing at present.
    Nothing,
    /// The stream has ended.
    End,
    /// The kernel reports an error.
    Error(Errno),
}

/// The outcome of one [`attempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The call returns so many bytes.
    Done(usize),
    /// The call fails.
    Failed(Errno),
    /// There is too little: the call sleeps.
    Sleep,
}

/// Takes bytes, and polls for more where `polls` says that this may pay; under the receiver's lock,
/// since bytes that arrive during the poll have no wakeup byte. `total` is what the call wants.
///
/// # Errors
/// [`Corrupt`].
pub fn attempt(
    port: &mut impl ReceivePort,
    total: usize,
    mut polls: bool,
) -> Result<Attempt, Corrupt> {
    for _ in 0..POLLS_MAX {
        let pulled = pull(port, !polls)?;
        let got = total - port.left();
        match pulled {
            Pulled::Some if !port.wants_all() || port.left() == 0 => return Ok(Attempt::Done(got)),
            Pulled::End => return Ok(Attempt::Done(got)),
            // The program's memory, and not the socket, has this fault.
            Pulled::Error(libc::EFAULT) if got > 0 => return Ok(Attempt::Done(got)),
            Pulled::Error(errno) if got > 0 => {
                port.keep_error(errno);
                return Ok(Attempt::Done(got));
            }
            Pulled::Error(errno) => return Ok(Attempt::Failed(errno)),
            Pulled::Some | Pulled::Nothing => {}
        }
        if polls {
            // Where the poll finds nothing, the next pull asks the kernel.
            polls = port.in_ring() && poll(port);
            continue;
        }
        if port.may_wait() {
            let sleeps = !port.is_nonblocking();
            port.note_sleeps(sleeps);
            if sleeps {
                return Ok(Attempt::Sleep);
            }
        }
        return Ok(if got > 0 { Attempt::Done(got) } else { Attempt::Failed(libc::EAGAIN) });
    }
    Ok(Attempt::Sleep)
}

/// Polls the ring for a while. The sender sends no wakeup byte meanwhile, for as many bytes as this
/// call will take.
fn poll(port: &impl ReceivePort) -> bool {
    let want = if port.is_peek() { 0 } else { port.left() as u64 };
    let (head, switches) = (port.load(half::HEAD), port.load(half::SWITCHES));
    let until = head.wrapping_add(want);
    let suppression = NotificationSuppression::new(port.word(half::SUPPRESSION));
    if !suppression.begin_polling(until) {
        return true;
    }
    let arrived = port.spin(&|| {
        port.word(half::TAIL).load(Ordering::Acquire) != head
            || port.load(half::SWITCHES) != switches
    });
    suppression.end_polling(until);
    // SeqCst: pairs with the fence of
    // `m3ipc_link::notification::NotificationSuppression::end_polling`.
    arrived || port.word(half::TAIL).load(Ordering::SeqCst) != head
}

/// Takes the bytes that are there, under the receiver's lock. Where the ring is empty, `asks` says
/// whether the kernel is asked for the cause.
///
/// # Errors
/// [`Corrupt`].
pub fn pull(port: &mut impl ReceivePort, asks: bool) -> Result<Pulled, Corrupt> {
    let before = port.left();
    for round in 0..ROUNDS_MAX {
        let switches = port.load(half::SWITCHES);
        if port.has_ring() {
            let ring = port.ring()?;
            let bytes = port.copy_out(ring)?;
            if bytes > 0 && !port.is_peek() {
                // Release: the copy is complete before the sender may overwrite the bytes.
                port.store(half::HEAD, ring.head.wrapping_add(bytes as u64));
            }
            if port.is_peek() && bytes > 0 {
                if bytes == ring.filled && port.left() > 0 && switches & 1 == 0 {
                    peek_behind(port);
                }
                return Ok(Pulled::Some);
            }
            if bytes < ring.filled {
                if !port.is_peek() {
                    owe_edge(port);
                }
                return Ok(Pulled::Some);
            }
            match settle(port)? {
                Settled::More => continue,
                Settled::Error(errno) => return Ok(Pulled::Error(errno)),
                Settled::Empty => {}
            }
        }
        if port.left() == 0 {
            return Ok(Pulled::Some);
        }
        if switches & 1 == 0 {
            return Ok(from_kernel(port, before));
        }
        if port.left() < before {
            return Ok(Pulled::Some);
        }
        if !asks {
            return Ok(Pulled::Nothing);
        }
        match ask_kernel(port, switches)? {
            Some(pulled) => return Ok(pulled),
            None => port.pause(round),
        }
    }
    Err(Corrupt)
}

/// Peeks at the bytes of the kernel behind those of the ring, in a direction that left the ring.
/// All wakeup bytes lie before them. A switch back to the ring needs the receiver's lock.
fn peek_behind(port: &mut impl ReceivePort) {
    wait_for_publisher(port);
    // The next call reports an error.
    let wakeups = port.word(half::WAKEUPS).load(Ordering::SeqCst);
    let lying = wakeups.wrapping_sub(port.load(half::WAKEUPS_TAKEN));
    if let Ok(lying) = usize::try_from(lying) {
        let _ = port.peek_behind_wakeups(lying);
    }
}

/// Asks the kernel where the ring is empty and no byte was taken; `None`: pull again.
fn ask_kernel(port: &impl ReceivePort, switches: u64) -> Result<Option<Pulled>, Corrupt> {
    if let Some(errno) = port.take_error() {
        return Ok(Some(Pulled::Error(errno)));
    }
    let answer = port.peek_kernel();
    // A sender that ended may have published or switched before.
    let moved = port.ring()?.filled > 0 || port.load(half::SWITCHES) != switches;
    Ok(match answer {
        Ok(0) if !moved => Some(Pulled::End),
        Err(libc::EAGAIN) if !moved => Some(Pulled::Nothing),
        Err(libc::EINTR | libc::EAGAIN) | Ok(_) => None,
        Err(errno) if moved => {
            port.keep_error(errno);
            None
        }
        Err(errno) => Some(Pulled::Error(errno)),
    })
}

/// Takes bytes of the kernel, after all bytes of the ring before them.
fn from_kernel(port: &mut impl ReceivePort, before: usize) -> Pulled {
    let got_some = port.left() < before;
    if let Some(errno) = port.take_error() {
        return Pulled::Error(errno);
    }
    match port.receive_from_kernel() {
        Ok(0) if got_some => Pulled::Some,
        Ok(0) => Pulled::End,
        Ok(bytes) => {
            if !port.is_peek() {
                port.add(half::KERNEL_TAKEN, bytes as u64);
            }
            Pulled::Some
        }
        Err(libc::EAGAIN | libc::EINTR) if got_some => Pulled::Some,
        Err(libc::EAGAIN | libc::EINTR) => Pulled::Nothing,
        Err(errno) => Pulled::Error(errno),
    }
}

/// The call left bytes, and does not sleep: the next arrival must be an edge for epoll. One wakeup
/// byte stays. Where many lie in the kernel, the others are taken, so that its queue never fills.
fn owe_edge(port: &impl ReceivePort) {
    if port.may_wait() && !port.is_nonblocking() {
        return;
    }
    wait_for_publisher(port);
    NotificationSuppression::new(port.word(half::SUPPRESSION)).rearm();
    let sent = port.word(half::WAKEUPS).load(Ordering::SeqCst);
    let lying = sent.wrapping_sub(port.load(half::WAKEUPS_TAKEN));
    if (SURPLUS_MAX..WAKEUPS_MAX).contains(&lying)
        && let Err(errno) = take_counted(port, lying - 1)
    {
        port.keep_error(errno);
    }
}
