//! Signals as a descriptor, for event loops.
//!
//! # Safety
//! The signal sets are locals, and sigemptyset fills them before their first use.
#![allow(unsafe_code)]

use crate::descriptors::above_standard;
use crate::errno::last_error;
use crate::process::Signal;
use core::ptr::null_mut;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// The size of a record of signalfd(2). Its first word is the number of the signal.
const RECORD_BYTES: usize = 128;

/// Signals that this process takes from a descriptor, in place of handlers.
///
/// # Source
/// signalfd(2)
#[derive(Debug)]
pub struct SignalSet(OwnedFd);

impl SignalSet {
    /// Blocks these signals, and makes the descriptor. Call it before the program starts threads,
    /// because threads inherit the mask. A program that this one executes inherits it too: see
    /// [`prepare_exec`](crate::prepare_exec).
    ///
    /// # Errors
    /// Those of pthread_sigmask(3) and signalfd(2).
    pub fn block(signals: &[Signal]) -> Result<Self, Errno> {
        let mut set = empty_set();
        for signal in signals {
            // SAFETY: `set` is a live local, which sigemptyset has filled.
            unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
        }
        set_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: the call reads the live `set`; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the kernel has just made this descriptor; the caller is its only owner.
        above_standard(unsafe { OwnedFd::from_raw_fd(fd) }).map(Self)
    }

    /// The number of a signal that has arrived; `None` if there is none.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn take(&self) -> Result<Option<i32>, Errno> {
        let mut record = [0; RECORD_BYTES];
        match rustix::io::read(&self.0, &mut record) {
            Ok(RECORD_BYTES) => {
                let number = [record[0], record[1], record[2], record[3]];
                Ok(Some(i32::from_ne_bytes(number)))
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for SignalSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: a set consists of integers, for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is a live local.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

fn set_mask(how: libc::c_int, set: &libc::sigset_t) -> Result<(), Errno> {
    // SAFETY: the call reads the live `set`; the null pointer asks for no former set.
    match unsafe { libc::pthread_sigmask(how, set, null_mut()) } {
        0 => Ok(()),
        failed => Err(Errno::from_raw_os_error(failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_taken_from_the_descriptor_once() {
        // A thread of its own: the mask is that of the thread.
        std::thread::spawn(|| {
            let set = SignalSet::block(&[Signal::WINCH]).unwrap();
            assert_eq!(set.take(), Ok(None));
            // SAFETY: the call takes integers only.
            unsafe { libc::raise(libc::SIGWINCH) };
            assert_eq!(set.take(), Ok(Some(libc::SIGWINCH)));
            assert_eq!(set.take(), Ok(None));
            set_mask(libc::SIG_SETMASK, &empty_set()).unwrap();
        })
        .join()
        .unwrap();
    }
}
