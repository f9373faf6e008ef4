//! The functions that C calls: one file for each header, each function thin.
//!
//! A function here wraps its pointers in the types of [`crate::memory`], converts its numbers, and
//! calls safe code behind a guard ([`crate::guard::call`], or for sockets
//! [`crate::sock::posix`]). The header documents the function for its callers.
//!
//! # Safety
//! The rule for all pointers: a pointer may have any value. If it names memory of the program, the
//! program lends that memory for the call: no other thread writes memory that the call reads, and
//! no other thread accesses memory that the call writes. Each `// SAFETY:` comment names the extent
//! of the loan where it is more than one value.

pub mod area;
pub mod copy;
pub mod endpoint;
pub mod ica;
pub mod ipc;
pub mod long;
pub mod node;
pub mod parts;
pub mod remote;
pub mod sock;
pub mod sock_bytes;
pub mod text;
