//! A small fault-tolerant file service, in the manner of Minix: three servers that a supervisor
//! restarts.
//!
//! ```text
//! client ── put, get, list ──> names     the name server: which name has which blocks
//!    │                           │ its log
//!    └── blocks ──────────────> cache    blocks that were used lately, in memory
//!                                │
//!                             storage    the driver: blocks in a journal on the disk
//! ```
//!
//! Each server may be killed at any time. A write that was acknowledged is on the disk:
//! - The storage driver answers after fdatasync(2), and cuts an incomplete tail off at its start.
//! - Cache and name server have nothing that they could lose: they read it again.
//! - Each change has a number of its client. Every party repeats a request after any error, and
//!   the storage makes each change once.
//! - A file is replaced in one step: its blocks are new, and then its name gets them.
//!
//! # Limits
//!
//! A client that dies between its blocks and the name leaves blocks that no name has. The log of
//! the names grows with each change.
#![forbid(unsafe_code)]

pub mod cache;
pub mod client;
pub mod journal;
pub mod names;
pub mod peers;
pub mod protocol;
pub mod storage;
pub mod store;
