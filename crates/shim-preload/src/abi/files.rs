//! Functions that make descriptors of other kinds: the number stands for no socket from then on.
//!
//! # Safety
//! All arguments go on to the C library unchanged.
#![allow(unsafe_code)]

use crate::next;
use core::ffi::{c_char, c_int, c_uint};
use libc::{FILE, mode_t, sigset_t};
use m3ipc_shim::lifecycle::{opened_file, opened_plain};

macro_rules! makers {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program keeps the contract of the function.
            let fd = unsafe { next::$name($($argument),*) };
            opened_plain(fd);
            fd
        }
    )*};
}

macro_rules! openers {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program keeps the contract of the function.
            let fd = unsafe { next::$name($($argument),*) };
            opened_file(fd);
            fd
        }
    )*};
}

// In C the mode of `open` may be missing. The C library ignores the register then.
openers! {
    open(path: *const c_char, flags: c_int, mode: mode_t);
    open64(path: *const c_char, flags: c_int, mode: mode_t);
    openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    creat(path: *const c_char, mode: mode_t);
    creat64(path: *const c_char, mode: mode_t);
}

makers! {
    eventfd(first: c_uint, flags: c_int);
    timerfd_create(clock: c_int, flags: c_int);
    signalfd(fd: c_int, mask: *const sigset_t, flags: c_int);
    inotify_init();
    inotify_init1(flags: c_int);
    memfd_create(name: *const c_char, flags: c_uint);
}

macro_rules! files {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> *mut FILE {
            // SAFETY: the program keeps the contract of the function.
            let file = unsafe { next::$name($($argument),*) };
            if !file.is_null() {
                // SAFETY: the C library has just returned this file.
                opened_plain(unsafe { libc::fileno(file) });
            }
            file
        }
    )*};
}

files! {
    fopen(path: *const c_char, mode: *const c_char);
    fopen64(path: *const c_char, mode: *const c_char);
    freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE);
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pipe(pair: *mut c_int) -> c_int {
    // SAFETY: the program keeps the contract of pipe(2).
    unsafe { opened_both(pair, next::pipe(pair)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program keeps the contract of pipe2(2).
    unsafe { opened_both(pair, next::pipe2(pair, flags)) }
}

/// # Safety
/// Where `result` is 0, `pair` points to two descriptors.
unsafe fn opened_both(pair: *const c_int, result: c_int) -> c_int {
    if result == 0 {
        // SAFETY: the caller promises two descriptors.
        unsafe { [*pair, *pair.add(1)] }.into_iter().for_each(opened_plain);
    }
    result
}
