//! `errno`, and results in the form of C.
//!
//! # Safety
//! The location of `errno` is always valid for the calling thread.
#![allow(unsafe_code)]

use libc::{c_int, ssize_t};

/// The value of `errno`.
pub fn get() -> c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
pub fn set(value: c_int) {
    // SAFETY: always valid for the calling thread.
    unsafe { *libc::__errno_location() = value }
}

/// Sets `errno`; the result of a function that failed.
pub fn fail(value: c_int) -> c_int {
    set(value);
    -1
}

/// A number of bytes as a result.
pub fn bytes(count: usize) -> ssize_t {
    ssize_t::try_from(count).unwrap_or(ssize_t::MAX)
}

/// A small number as a result.
pub fn count(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// The result of a real call as Rust has it.
pub fn result(result: ssize_t) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_negative| get())
}
