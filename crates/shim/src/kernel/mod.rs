//! The kernel's own calls.
//!
//! In a process that loaded `libm3sock.so` the C library's `read`, `send` and `poll` are our hooks,
//! also for the code of this crate. This crate therefore makes system calls itself, here or through
//! `m3ipc-sys`, and never calls the C library's functions of those names. Nothing here allocates,
//! locks or changes `errno`.

pub mod apart;
mod call;
pub mod file;
pub mod memory;
pub mod process;
pub mod ready;
pub mod signal;
pub mod socket;
pub mod thread;

pub use call::{Errno, call};
