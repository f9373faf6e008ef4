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
//! Each server may be killed at any time. A write that was acknowledged is on the disk. The chapter
//! `docs/files.md` has the reasons and the limits.
#![forbid(unsafe_code)]

pub mod cache;
pub mod client;
pub mod journal;
pub mod names;
pub mod peers;
pub mod protocol;
pub mod storage;
pub mod store;
