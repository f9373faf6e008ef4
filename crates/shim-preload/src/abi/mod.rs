//! The exported functions, by family.
//!
//! Each function checks and converts the program's pointers, calls safe code of `m3ipc-shim`, and
//! passes the result back. The program keeps the contract of the C library's function of that name:
//! its pointers are valid for that call. A `SAFETY` comment that names a manual page means this
//! contract.

mod epoll;
pub mod errno;
pub mod exec;
mod exec_list;
mod files;
mod lifecycle;
mod limits;
mod many;
mod message;
mod option;
mod process;
mod ready;
mod ready_by_number;
mod signal;
mod spawn;
pub mod stdio;
mod stream;
mod syscall;
mod uring;
