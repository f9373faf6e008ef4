//! Com-sockets: Berkeley sockets over shared memory, for processes of a VM.
//!
//! A process [joins a domain](Domain::join) of the VM; domain *d* has the address 192.168.0.(*d* + 2). From there on it is as
//! with sockets: [`listen`](Domain::listen), [`connect`](Domain::connect), read and write, poll.
//!
//! ```no_run
//! use m3ipc_sockets::Domain;
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut node = m3ipc::Node::attach()?;
//! let vm = node.vm_named("shop")?;
//! let domain = Domain::join(node.directory(), &vm)?;
//! let mut stream = domain.connect("192.168.0.2:80".parse()?)?;
//! stream.write_all(b"hello\n")?;
//! let mut answer = [0; 64];
//! let length = stream.read(&mut answer)?;
//! # let _ = length;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   Domain ── Listener ── Stream            what programs use
//!      │         │       ┌──┴───────┐
//!      └── party ┴─ pair │ send     │ receive   who we are; memory of two parties; one direction each
//!             │      │   └ outgoing └ incoming  bytes in blocks
//!          control  pool    └── door ──┘        blocks; who must be called
//! ```

#[cfg(feature = "tokio")]
mod asynchronous;
mod control;
mod datagram;
mod domain;
mod error;
mod incoming;
mod listener;
mod outgoing;
mod pair;
mod party;
mod pool;
mod record;
mod spare;
mod stream;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncListener, AsyncStream};
pub use datagram::{DATAGRAM_MAX_BYTES, Datagrams, Received};
pub use domain::{Domain, sockets};
pub use error::SockError;
pub use listener::Listener;
pub use m3ipc_sys::{Direction, Errno};
pub use m3ipc_wire::{SockInfo, SockKind};
pub use stream::{Bells, How, Stream};
