//! Signals that ask a program to end, as something to wait for beside others.
//!
//! # Safety
//! The signal sets are locals of our own, filled by sigemptyset before anything reads them.
#![allow(unsafe_code)]

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// A descriptor that becomes readable where SIGINT or SIGTERM comes, which no longer end this thread: to be
/// called before others are started, which inherit that.
///
/// # Errors
/// Of pthread_sigmask(3) and signalfd(2).
pub fn interrupt_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: a set is plain integers, for which zeros are valid; it is emptied right below.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is a valid place for a set; both signals exist.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
    }
    // SAFETY: reads the set; no former one is asked for.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) };
    if failed != 0 {
        return Err(Errno::from_raw_os_error(failed));
    }
    // SAFETY: a new descriptor for the set, which is read.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: new, open, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
