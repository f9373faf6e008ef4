//! Signal handlers: the library follows the program's changes.
//!
//! # Safety
//! All arguments go on to the C library or the kernel unchanged.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{c_int, c_long, c_void};
use libc::sighandler_t;
use m3ipc_shim::memory::lock::note_jump;
use m3ipc_shim::{kernel, signals};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program keeps the contract of sigaction(2).
    let real = || unsafe { next::sigaction(number, new, old) };
    if new.is_null() { real() } else { signals::change(number, real) }
}

/// `rt_sigaction` by number.
///
/// # Safety
/// The words are valid as for rt_sigaction(2).
pub unsafe fn change_by_number(number: c_int, words: [usize; 6]) -> c_long {
    // SAFETY: the caller promises the words.
    let real = || unsafe { kernel::call(libc::SYS_rt_sigaction, words) };
    signals::change(number, real).map_or_else(|code| errno::fail(code).into(), |_zero| 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the same function.
    unsafe { sigaction(number, new, old) }
}

macro_rules! signal {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            number: c_int,
            handler: sighandler_t,
        ) -> sighandler_t {
            // SAFETY: the program keeps the contract of signal(2).
            signals::change(number, || unsafe { next::$name(number, handler) })
        }
    )*};
}
signal!(signal bsd_signal ssignal sysv_signal __sysv_signal sigset);

macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(place: *mut c_void, value: c_int) {
            note_jump();
            // SAFETY: the program keeps the contract of longjmp(3). The call does not return.
            unsafe { next::$name(place, value) }
        }
    )*};
}
jumps!(longjmp _longjmp siglongjmp __longjmp_chk);
