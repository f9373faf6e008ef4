//! Functions that make descriptors of other kinds: the number stands for no socket from then on.
//!
//! # Safety
//! All arguments go on to the C library unchanged.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{CStr, c_char, c_int, c_uint};
use libc::{FILE, mode_t, sigset_t};
use m3ipc_shim::lifecycle::{opened_file, opened_plain};
use m3ipc_shim::process::library_files;

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
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            mode: *const c_char,
        ) -> *mut FILE {
            // SAFETY: the program keeps the contract of fopen(3).
            let file = unsafe { next::$name(path, mode) };
            // SAFETY: the C library has just returned this file; the program's mode is a string.
            unsafe { opened_over(file, mode) };
            file
        }
    )*};
}
files!(fopen fopen64);

/// Notes the descriptor of a file that the C library has opened.
///
/// # Safety
/// `file` is null or a live file, `mode` a string.
unsafe fn opened_over(file: *mut FILE, mode: *const c_char) {
    if !file.is_null() && !mode.is_null() {
        // SAFETY: the caller promises both.
        let (fd, mode) = unsafe { (libc::fileno(file), CStr::from_ptr(mode)) };
        opened_plain(fd);
        library_files::note(fd, mode.to_bytes());
    }
}

/// Before the C library closes a file: its descriptor has none from then on.
///
/// # Safety
/// `file` is null or a live file.
unsafe fn closing(file: *mut FILE) {
    if !file.is_null() {
        let errno_before = errno::get();
        // A file without a descriptor has -1.
        // SAFETY: the caller promises the file.
        library_files::forget(unsafe { libc::fileno(file) });
        errno::set(errno_before);
    }
}

macro_rules! reopeners {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            mode: *const c_char,
            stream: *mut FILE,
        ) -> *mut FILE {
            // SAFETY: the program keeps the contract of freopen(3).
            unsafe {
                closing(stream);
                let file = next::$name(path, mode, stream);
                opened_over(file, mode);
                file
            }
        }
    )*};
}
reopeners!(freopen freopen64);

macro_rules! temporary {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() -> *mut FILE {
            // SAFETY: tmpfile(3) takes nothing.
            let file = unsafe { next::$name() };
            // SAFETY: the C library has just returned this file.
            unsafe { opened_over(file, c"w+".as_ptr()) };
            file
        }
    )*};
}
temporary!(tmpfile tmpfile64);

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(file: *mut FILE) -> c_int {
    // SAFETY: the program keeps the contract of fclose(3).
    unsafe {
        closing(file);
        next::fclose(file)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pclose(file: *mut FILE) -> c_int {
    // SAFETY: the program keeps the contract of pclose(3).
    unsafe {
        closing(file);
        next::pclose(file)
    }
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
