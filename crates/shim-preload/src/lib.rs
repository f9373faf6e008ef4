//! `libm3sock.so`: the functions of the C library that stand in front of a program's sockets.
//!
//! ```text
//!   hook/*   the exported functions, by family; each asks the table, then the engine or the C library
//!   table    descriptor -> what is known of it, in one word each: no lock, no allocation
//!   look     the first use of a descriptor that is not known yet: is it a socket, may it become ours?
//!   watch    which sockets an epoll set of ours watches, to look at their rings before sleeping
//!   next     the C library's functions, looked up once, before the program starts
//!   policy   what the user allows, from the environment
//!   start    the constructor
//! ```
//!
//! The descriptor is always the kernel's own socket; what is not modelled exactly goes to the kernel and stays
//! there (is *pinned*). Nothing here allocates, takes a lock, or starts a thread: a signal handler or a forked child
//! may come in anywhere. `errno` changes only where a call fails.
//!
//! # Safety
//! Each exported function has the contract of the function of that name in the C library: pointers come from the
//! program and are its own business, as they would be there. That contract is the reason in every `unsafe` function
//! of this crate, which is why it is not repeated at each of them.
#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all of them, above")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "C's own types are turned into one another as the kernel does it"
)]

mod carry;
mod hook;
mod look;
mod next;
mod policy;
mod start;
mod table;
mod watch;

use libc::c_int;

/// What `errno` says.
fn errno() -> c_int {
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
fn set_errno(value: c_int) {
    unsafe { *libc::__errno_location() = value }
}

/// A system call past the C library; fails as its functions do, but leaves `errno` to the caller.
unsafe fn raw(number: libc::c_long, words: [usize; 6]) -> Result<usize, c_int> {
    let result = m3ipc_shim::real::call(number, words);
    if (-4095..0).contains(&result) { Err(-result as c_int) } else { Ok(result as usize) }
}
