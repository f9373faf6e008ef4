//! Com-sockets: Berkeley sockets over shared memory, between processes of a VM.
//!
//! A process [joins a domain](Domain::join) of the VM. Domain *d* has the address
//! 192.168.0.(*d* + 2). The calls are those of sockets: [`listen`](Domain::listen),
//! [`connect`](Domain::connect), read, write, poll.
//!
//! ```no_run
//! // Not run here: it needs a node daemon and a listener in another process.
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
//!   Domain ─── Listener ─── Stream                     the public types
//!      │          │        ┌───┴────────┐
//!      └─ member ─┴── pair │ SendHalf   │ ReceiveHalf  this process; memory of two members; halves
//!            │         │   └ SendRing   └ ReceiveRing  bytes in blocks
//!         control    pool                              the daemon; free blocks
//! ```
#![forbid(unsafe_code)]

mod arrival_queue;
#[cfg(feature = "tokio")]
mod asynchronous;
mod control;
mod copy_route;
mod datagram;
mod domain;
mod error;
#[cfg(feature = "tonic")]
mod grpc;
mod listener;
mod member;
mod pair;
mod polled;
mod poller;
mod pool;
mod prepared;
mod receive_ring;
mod record;
mod send_ring;
mod stream;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncListener, AsyncPoller, AsyncStream};
pub use datagram::{DATAGRAM_MAX_BYTES, DatagramSocket, ReceivedDatagram};
pub use domain::{Domain, sockets};
pub use error::SockError;
#[cfg(feature = "tonic")]
pub use grpc::ClientInfo;
pub use listener::Listener;
pub use m3ipc_sys::{Direction, Errno, Interest, Mode};
pub use m3ipc_wire::{SockInfo, SockKind};
pub use polled::PollEvent;
pub use poller::Poller;
#[doc(hidden)]
pub use stream::ArrivedBlock;
pub use stream::{ReceiveOptions, Stream, WakeupCounts};
