//! libm3ipc: the C API of m3ipc, as `include/m3ipc.h` declares it.
//!
//! ```text
//! a call of C ── abi ── guard ─ no panic crosses the ABI, a failure becomes a code
//!                 ├ memory ─── pointers of C, checked before each access
//!                 ├ current ── the endpoint of the calling thread ── m3ipc::Endpoint
//!                 └ node ───── a connection for one call          ── m3ipc::Node
//! ```
//!
//! | files | contents |
//! |---|---|
//! | `abi/` | one thin `extern "C"` function for each function of the headers |
//! | `ipc`, `payload`, `parts`, `block` | messages, long messages, blocks in messages |
//! | `pulse` | pulses and timers |
//! | `fast` | the front door: short messages on the fast path of [`m3ipc`] |
//! | `bind`, `names`, `info`, `privileges` | endpoints |
//! | `node`, `vm` | the node and its VMs |
//! | `copy`, `area` | copies, areas and AnT's calls |
//! | `sock/` | com-sockets |
//! | `member`, `received`, `current`, `memory`, `records`, `guard`, `failure` | below all of them |
//!
//! Only `abi`, `memory`, `current`, `guard` and the files with system calls use `unsafe`.
//!
//! The crate has no rules of its own. Codes and their order come from the node daemon and from
//! [`m3ipc`].
// A C library has no public Rust API. Its documentation is for its developers.
#![allow(rustdoc::private_intra_doc_links)]

pub mod abi;
mod area;
mod bind;
mod block;
mod copy;
mod cpus;
mod current;
mod failure;
mod fast;
mod guard;
mod info;
mod ipc;
mod member;
mod memory;
mod names;
mod node;
mod parameters;
mod parts;
mod payload;
mod privileges;
mod pulse;
mod reason;
mod received;
pub mod records;
mod sock;
mod vm;
mod vm_name;
mod watch;
mod why;
