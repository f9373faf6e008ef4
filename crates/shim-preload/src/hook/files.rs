//! Functions that make descriptors of other kinds: whatever a number stood for before, it is that no longer.

use crate::next;
use crate::table::{self, Entry};
use core::ffi::{c_char, c_int, c_uint};
use libc::{FILE, mode_t, sigset_t};

fn plain(fd: c_int) -> c_int {
    if fd >= 0 {
        table::set(fd, Entry::Plain);
    }
    fd
}

unsafe fn plain_file(file: *mut FILE) -> *mut FILE {
    if !file.is_null() {
        plain(libc::fileno(file));
    }
    file
}

macro_rules! makers {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            plain(next::$name($($argument),*))
        }
    )*};
}

// C has the mode of `open` as an argument that may be missing; what the register then holds is ignored.
makers! {
    open(path: *const c_char, flags: c_int, mode: mode_t);
    open64(path: *const c_char, flags: c_int, mode: mode_t);
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    creat(path: *const c_char, mode: mode_t);
    creat64(path: *const c_char, mode: mode_t);
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
            plain_file(next::$name($($argument),*))
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
    both(pair, next::pipe(pair))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    both(pair, next::pipe2(pair, flags))
}

unsafe fn both(pair: *const c_int, result: c_int) -> c_int {
    if result == 0 {
        plain(*pair);
        plain(*pair.add(1));
    }
    result
}
