//! libm3ipc: the C API of m3ipc, as `include/m3ipc.h` declares it.
//!
//! ```text
//! a call of C ── guard ─ no panic leaves, no bad pointer is followed
//!                  ├ current ─ the calling thread's endpoint ── m3ipc::Endpoint
//!                  └ node    ─ a connection for one call     ── m3ipc::Node
//! ```
//!
//! A file for each section of the header. All of `unsafe` is where memory of C
//! is read or written ([`memory`]) and where the endpoint of the process is
//! kept ([`current`]); what a function does is safe code of [`m3ipc`].
//!
//! What it does not do: it has no rules of its own. Codes and their order are
//! those of the node daemon and of [`m3ipc`], and only told here.
// A C library has no public Rust API: its documentation is for who works on it.
#![allow(rustdoc::private_intra_doc_links)]

pub mod area;
pub mod bind;
pub mod block;
pub mod copy;
mod current;
mod guard;
pub mod ica;
pub mod info;
pub mod later;
pub mod long;
mod memory;
pub mod message;
pub mod names;
pub mod node;
pub mod privileges;
pub mod records;
pub mod sock;
pub mod vm;
pub mod waits;
