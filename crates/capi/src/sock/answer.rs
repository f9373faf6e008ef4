//! Answers as POSIX has them: a number, or -1 and errno.
//!
//! # Safety
//! `errno` is the calling thread's own, for as long as the thread lives.
#![allow(unsafe_code)]

use crate::guard::Refused;
use core::ffi::c_int;
use m3ipc_sockets::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A number, or why not.
pub(super) type Answer<T = c_int> = Result<T, Errno>;

fn run<T>(failed: T, body: impl FnOnce() -> Answer<T>) -> T {
    // A panic is a mistake of ours; what came of the call is not known.
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::IO)) {
        Ok(number) => number,
        Err(errno) => {
            // SAFETY: the address of the calling thread's errno is always valid; nobody else accesses it.
            unsafe { *libc::__errno_location() = errno.raw_os_error() };
            failed
        }
    }
}

/// Runs the body of a call that returns an int.
pub(super) fn posix(body: impl FnOnce() -> Answer) -> c_int {
    run(-1, body)
}

/// Runs the body of a call that returns a length.
pub(super) fn long(body: impl FnOnce() -> Answer<usize>) -> isize {
    run(-1, || body().map(usize::cast_signed))
}

/// The number of an error of the standard library's.
pub(super) fn errno_of(cause: &std::io::Error) -> Errno {
    Errno::from_io_error(cause).unwrap_or(Errno::IO)
}

/// A pointer that leads nowhere.
pub(super) fn fault(_refused: Refused) -> Errno {
    Errno::FAULT
}

/// The last error of a call of the C library's.
pub(super) fn last() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}
