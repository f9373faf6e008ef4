//! Calls by which a program limits its own system calls, or by which a thread gets descriptors of
//! its own: the library turns itself off before both.
//!
//! # Safety
//! All arguments go on to the C library or the kernel unchanged.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{c_int, c_long};
use m3ipc_shim::process::apart;
use m3ipc_shim::process::limits::is_single_threaded;
use m3ipc_shim::{kernel, sandbox};

/// `SECCOMP_SET_MODE_STRICT` and `SECCOMP_SET_MODE_FILTER`
const SET_MODES: [usize; 2] = [0, 1];

/// Makes a call that limits the system calls of this process.
fn limiting<T>(call: impl FnOnce() -> T, failed: impl Fn(&T) -> bool) -> T {
    let begun = sandbox::begin();
    let result = call();
    sandbox::end(begun, failed(&result));
    result
}

/// Whether `prctl` with these arguments limits system calls. Without a filter the call fails:
/// programs ask so whether there are filters.
fn limits(option: c_int, mode: usize, filter: usize) -> bool {
    option == libc::PR_SET_SECCOMP && (mode == libc::SECCOMP_MODE_STRICT as usize || filter != 0)
}

// In C the last arguments may be missing. The kernel ignores the registers then.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    // SAFETY: the program keeps the contract of prctl(2).
    let real = || unsafe { next::prctl(option, a, b, c, d) };
    if limits(option, a, b) { limiting(real, |result| *result != 0) } else { real() }
}

/// Makes a call that gives the calling thread descriptors of its own: one number then stands for
/// two sockets. With one thread alone it changes nothing. The sockets of all threads return to the
/// kernel; the bytes of rings are left to the other threads.
pub fn parting<T>(parts: bool, call: impl FnOnce() -> T, failed: impl Fn(&T) -> bool) -> T {
    if !parts || is_single_threaded() {
        return call();
    }
    limiting(
        || {
            let result = call();
            if !failed(&result) {
                apart::note();
            }
            result
        },
        &failed,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    // SAFETY: unshare(2) takes an integer.
    let real = || unsafe { next::unshare(flags) };
    parting(flags & libc::CLONE_FILES != 0, real, |result| *result != 0)
}

/// `prctl` or `seccomp` by number.
///
/// # Safety
/// The words are valid as for the call of this number.
pub unsafe fn limit_by_number(number: c_long, words: [usize; 6]) -> c_long {
    // SAFETY: the caller promises the words.
    let real = || unsafe { kernel::call(number, words) };
    let option = c_int::try_from(words[0]).unwrap_or(-1);
    let is_limit = match number {
        libc::SYS_prctl => limits(option, words[1], words[2]),
        _ => SET_MODES.contains(&words[0]) && (words[0] == 0 || words[2] != 0),
    };
    let result = if is_limit { limiting(real, Result::is_err) } else { real() };
    result.map_or_else(
        |code| errno::fail(code).into(),
        |result| c_long::try_from(result.cast_signed()).unwrap_or(-1),
    )
}
