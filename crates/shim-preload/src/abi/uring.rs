//! io_uring: it moves bytes past the hooks, so programs are told that there is none.
//!
//! A program that sets its rings up by bare system calls cannot be told so here.
//!
//! # Safety
//! All arguments go on to the C library or to liburing unchanged.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{c_int, c_uint, c_void};
use libc::size_t;
use m3ipc_shim::process::policy;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    if policy::refuses_uring() {
        errno::set(libc::ENOSYS);
        return -libc::ENOSYS;
    }
    // SAFETY: the program keeps the contract of io_uring_setup(2).
    unsafe { next::io_uring_setup(entries, parameters) }
}

macro_rules! queues {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            if policy::refuses_uring() {
                return -libc::ENOSYS;
            }
            // SAFETY: the program keeps the contract of the function.
            unsafe { next::$name($($argument),*) }
        }
    )*};
}

queues! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void);
    io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void,
        bytes: size_t
    );
}
