//! Results as POSIX has them: a number, or -1 and errno.
//!
//! # Safety
//! `errno` belongs to the calling thread for as long as the thread lives.
#![allow(unsafe_code)]

use crate::failure::CallFailure;
use crate::guard::uncancelled;
use core::ffi::c_int;
use m3ipc_sockets::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a socket call: a number, or an errno.
pub(crate) type PosixResult<T = c_int> = Result<T, Errno>;

/// Runs the body of a call that returns an int.
pub(crate) fn int_call(body: impl FnOnce() -> PosixResult) -> c_int {
    run(body).unwrap_or(-1)
}

/// Runs the body of a call that returns a length in bytes.
pub(crate) fn length_call(body: impl FnOnce() -> PosixResult<usize>) -> isize {
    run(body).map_or(-1, usize::cast_signed)
}

/// Sets errno on failure. A panic, which is a defect of this library, is EIO.
fn run<T>(body: impl FnOnce() -> PosixResult<T>) -> Option<T> {
    let result = uncancelled(|| catch_unwind(AssertUnwindSafe(body))).unwrap_or(Err(Errno::IO));
    if let Err(errno) = result {
        // SAFETY: __errno_location has no preconditions, and no other thread accesses this errno.
        unsafe { libc::__errno_location().write(errno.raw_os_error()) };
    }
    result.ok()
}

/// The errno of an error of the standard library.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The errno of a pointer that cannot be read or written.
pub(crate) fn fault(_failure: CallFailure) -> Errno {
    Errno::FAULT
}
