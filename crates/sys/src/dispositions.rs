//! Dispositions of signals that a program inherits from its starter.
//!
//! # Safety
//! The kernel reads an action and a mask from constants and locals. No disposition here is a
//! handler.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null;

const SIGNAL_MAX: c_int = 64;
const SIGNAL_SET_BYTES: usize = 8;
/// The kernel's record: a handler, and flags, a restorer and a mask of zero.
type Action = [usize; 4];
const DEFAULT: Action = [libc::SIG_DFL, 0, 0, 0];
const IGNORE: Action = [libc::SIG_IGN, 0, 0, 0];

/// The call of the kernel, which takes no lock: a child that shares memory makes it.
fn set(signal: c_int, action: &Action) {
    // SAFETY: the kernel reads a live action without a handler. It refuses SIGKILL and SIGSTOP.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            null::<c_void>(),
            SIGNAL_SET_BYTES,
        );
    }
}

/// Gives all signals their default disposition, and lets them through.
pub(crate) fn default_signals() {
    (1..=SIGNAL_MAX).for_each(|signal| set(signal, &DEFAULT));
    let empty = 0_u64;
    // SAFETY: the kernel reads a live mask of 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const empty,
            null::<c_void>(),
            SIGNAL_SET_BYTES,
        );
    }
}

/// Lets this program see the ends of its children, also where its starter ignored SIGCHLD: the
/// kernel would reap them, and give their numbers to strangers.
///
/// # Source
/// sigaction(2), wait(2)
pub fn notice_children() {
    set(libc::SIGCHLD, &DEFAULT);
}

/// Lets the kernel reap the children of this program that end from now on. Programs that it starts
/// inherit this, until they [notice their children](notice_children).
///
/// # Source
/// sigaction(2), wait(2)
pub fn ignore_children() {
    set(libc::SIGCHLD, &IGNORE);
}

/// Makes a write beyond the limit of file sizes the error `FBIG` of that write, in place of the end
/// of this process.
///
/// # Source
/// getrlimit(2), RLIMIT_FSIZE
pub fn survive_file_limit() {
    set(libc::SIGXFSZ, &IGNORE);
}

/// Leaves a program that this process executes next nothing of it but the standard streams:
/// default dispositions, no blocked signal, no other descriptor.
pub fn prepare_exec() {
    default_signals();
    crate::descriptors::close_at_exec();
}
