//! Which signals have handlers: those alone are held back while a wait looks at rings.
//!
//! A signal that is held back stays pending even where the program ignores it, and would then end an epoll_wait that it ends
//! nowhere else. So what a program does with its signals is written down.

use crate::next;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::sighandler_t;

/// A bit for each signal that has a handler.
static CAUGHT: AtomicU64 = AtomicU64::new(0);
const SIGNALS: c_int = 64;
/// Those two cancel threads and change users of all threads: the C library's own.
const LIBRARY: u64 = 0b11 << 31;
/// As the kernel has it: the handler first, then flags, a way back, a mask.
const ACTION_WORDS: usize = 8;

/// The signals that have handlers.
pub fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed) & !LIBRARY
}

/// Asks the kernel for all of them, before the program starts.
pub unsafe fn look_up() {
    (1..=SIGNALS).for_each(|number| learn(number));
}

unsafe fn learn(number: c_int) {
    let mut action = [0_usize; ACTION_WORDS];
    let words = [number as usize, 0, action.as_mut_ptr() as usize, 8, 0, 0];
    if !(1..=SIGNALS).contains(&number) || crate::raw(libc::SYS_rt_sigaction, words).is_err() {
        return;
    }
    let bit = 1 << (number - 1);
    if matches!(action[0], libc::SIG_DFL | libc::SIG_IGN) {
        CAUGHT.fetch_and(!bit, Ordering::Relaxed);
    } else {
        CAUGHT.fetch_or(bit, Ordering::Relaxed);
    }
}

/// A change of one of them. The child of a vfork has signals of its own, but not this memory.
unsafe fn change<T>(number: c_int, call: impl FnOnce() -> T) -> T {
    if super::in_vfork() {
        return call();
    }
    // From before the first moment that it may be caught.
    if (1..=SIGNALS).contains(&number) {
        CAUGHT.fetch_or(1 << (number - 1), Ordering::Relaxed);
    }
    let result = call();
    learn(number);
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if new.is_null() {
        return next::sigaction(number, new, old);
    }
    change(number, || next::sigaction(number, new, old))
}

/// The same by number.
pub unsafe fn changed(number: c_int, words: [usize; 6]) -> core::ffi::c_long {
    let result = change(number, || crate::raw(libc::SYS_rt_sigaction, words));
    result.map_or_else(
        |code| {
            crate::set_errno(code);
            -1
        },
        |result| result as core::ffi::c_long,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    sigaction(number, new, old)
}

macro_rules! signal {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(number: c_int, handler: sighandler_t) -> sighandler_t {
            change(number, || next::$name(number, handler))
        })*
    };
}
signal!(signal bsd_signal ssignal sysv_signal __sysv_signal sigset);
