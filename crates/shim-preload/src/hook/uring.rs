//! io_uring: a program that moves a socket's bytes through it is not seen at all, so it is told that there is none.
//!
//! A program that makes its rings with bare system calls cannot be told so here.

use crate::{next, policy, set_errno};
use core::ffi::{c_int, c_uint, c_void};
use libc::size_t;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
    if policy::refuses_uring() {
        set_errno(libc::ENOSYS);
        return -libc::ENOSYS;
    }
    next::io_uring_setup(entries, parameters)
}

macro_rules! queues {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            if policy::refuses_uring() {
                return -libc::ENOSYS;
            }
            next::$name($($argument),*)
        }
    )*};
}

queues! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t);
}
