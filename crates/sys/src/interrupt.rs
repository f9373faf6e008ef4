//! The signals that ask a program to end, or to read its files again, as a descriptor.
//!
//! # Safety
//! The signal sets are locals, and sigemptyset fills them before their first use.
#![allow(unsafe_code)]

use crate::errno::last_error;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Blocks SIGINT and SIGTERM, and returns a descriptor that becomes readable when one arrives. Call
/// it before the program starts threads, because threads inherit the mask.
///
/// # Errors
/// Those of pthread_sigmask(3) and signalfd(2).
pub fn interrupt_signals() -> Result<OwnedFd, Errno> {
    descriptor_of([libc::SIGINT, libc::SIGTERM])
}

/// The same for SIGHUP, which asks a service to read its files again.
///
/// # Errors
/// As [`interrupt_signals`].
pub fn hangup_signal() -> Result<OwnedFd, Errno> {
    descriptor_of([libc::SIGHUP])
}

fn descriptor_of<const COUNT: usize>(signals: [i32; COUNT]) -> Result<OwnedFd, Errno> {
    // SAFETY: a set consists of integers, for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is a live local; both callers name signals that exist.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    // SAFETY: the call reads the live `set`; the null pointer asks for no former set.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) };
    if failed != 0 {
        return Err(Errno::from_raw_os_error(failed));
    }
    // SAFETY: the call reads the live `set`; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor; the caller is its only owner.
    crate::above_standard(unsafe { OwnedFd::from_raw_fd(fd) })
}
