//! `libm3sock.so`: the C library's functions in front of a program's sockets.
//!
//! ```text
//!   abi/*    the exported functions, by family: each converts its pointers and calls m3ipc-shim
//!   next     the C library's own functions, looked up before the program starts
//!   start    the constructor
//!   unwind   the unwinder, loaded at its first use
//! ```
//!
//! All code behind the pointers is in `m3ipc-shim`, without unsafe code and with unit tests. A call
//! that the library does not model exactly goes to the kernel and stays there: the socket is
//! *pinned*. No function here allocates, locks or starts a thread, because a signal handler or a
//! child by fork may call it at any moment. Two places allocate a `FILE` where bytes lie in a
//! ring: `fdopen`, which allocates without this library too, and the first dup, dup2, dup3 or fcntl
//! that puts such a socket in the place of descriptor 0. `errno` changes only where a call fails.

mod abi;
mod next;
mod start;
mod unwind;
