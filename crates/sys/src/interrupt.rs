//! The signals that ask a program to end, or to read its files again, as a descriptor.
//!
//! # Safety
//! The signal sets are locals, and sigemptyset fills them before their first use.
#![allow(unsafe_code)]

use crate::errno::last_error;
use core::ptr::null_mut;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::os::unix::process::CommandExt;
use std::process::Command;

const INTERRUPTS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// Blocks SIGINT and SIGTERM, and returns a descriptor that becomes readable when one arrives. Call
/// it before the program starts threads, because threads inherit the mask. A program that this one
/// starts inherits it too: see [`unblock_interrupts`].
///
/// # Errors
/// Those of pthread_sigmask(3) and signalfd(2).
pub fn interrupt_signals() -> Result<OwnedFd, Errno> {
    descriptor_of(&INTERRUPTS)
}

/// The same for SIGHUP, which asks a service to read its files again.
///
/// # Errors
/// As [`interrupt_signals`].
pub fn hangup_signal() -> Result<OwnedFd, Errno> {
    descriptor_of(&[libc::SIGHUP])
}

/// Lets SIGINT and SIGTERM through in the process of a command.
pub fn unblock_interrupts(command: &mut Command) {
    let set = set_of(&INTERRUPTS);
    let unblock = move || set_mask(libc::SIG_UNBLOCK, &set).map_err(std::io::Error::from);
    // SAFETY: the child makes one system call and takes no memory; an error holds only its number.
    unsafe { command.pre_exec(unblock) };
}

fn descriptor_of(signals: &[i32]) -> Result<OwnedFd, Errno> {
    let set = set_of(signals);
    set_mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: the call reads the live `set`; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor; the caller is its only owner.
    crate::above_standard(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a set consists of integers, for which zeros are valid.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is a live local; all callers name signals that exist.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
    }
    set
}

fn set_mask(how: i32, set: &libc::sigset_t) -> Result<(), Errno> {
    // SAFETY: the call reads the live `set`; the null pointer asks for no former set.
    match unsafe { libc::pthread_sigmask(how, set, null_mut()) } {
        0 => Ok(()),
        failed => Err(Errno::from_raw_os_error(failed)),
    }
}
