//! Com-sockets as POSIX calls: the logic behind `m3ipc/sock.h`.
//!
//! ```text
//! abi/sock ── posix ─ a result becomes a number, or -1 and errno
//!                ├ table ──── a descriptor number stands for a socket entry
//!                ├ numbers ── the files behind the numbers, also for children by fork
//!                ├ domain ─── the domain of this process
//!                ├ transfer ─ bytes, sent and received
//!                ├ event_loop pollers, as epoll
//!                ├ block ──── blocks of areas through streams
//!                ├ options ── options and flags
//!                └ address ── struct sockaddr_in
//! kernel: the system calls of all of them
//! ```

pub(crate) mod address;
pub(crate) mod block;
pub(crate) mod connection;
pub(crate) mod domain;
pub(crate) mod event_loop;
mod kernel;
mod numbers;
pub(crate) mod options;
pub(crate) mod posix;
pub(crate) mod table;
pub(crate) mod transfer;
