//! Microkernel-style IPC for Linux, in user space, on a stock kernel.
//!
//! Processes of a VM exchange messages by [`send`](Endpoint::send),
//! [`receive`](Endpoint::receive), [`sendrec`](Endpoint::sendrec), [`reply`](Endpoint::reply) and
//! [`notify`](Endpoint::notify). Nothing is queued between sender and receiver. A call ends with an
//! answer or with an error; the death of a peer is an error too.
//!
//! ```
//! # let test = m3ipc::test::node();
//! # let (directory, limit) = (test.directory(), std::time::Duration::from_millis(10));
//! use m3ipc::{Node, ReceiveError, Source, VmConfig};
//!
//! let mut node = Node::attach_at(directory)?; // `Node::attach()` finds the directory itself
//! let vm = node.vm_init(&VmConfig::new("shop"))?;
//! let mut server = vm.bind(1)?;
//! match server.receive_bytes(Source::Any, limit) {
//!     Ok((request, bytes)) => {
//!         // A client that has given up is no error.
//!         server.reply_bytes(request.message.source, 0, &bytes)?;
//!     }
//!     Err(ReceiveError::TimedOut(_)) => println!("no client yet"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | call a server with bytes of any length | [`Endpoint::call`], [`Endpoint::serve`] |
//! | send bytes or records | [`Endpoint::sendrec_bytes`], [`Endpoint::sendrec_record`] |
//! | hand over large data without a copy | [`Area`], [`Block`], [`Endpoint::send_block`] |
//! | let a server copy the caller's memory | [`Lease`], [`Grant`], [`Endpoint::copy_from`] |
//! | wait in an event loop | [`Endpoint::fd`], [`Endpoint::begin_request`], [`Endpoint::begin_send`] |
//! | use tokio (feature `tokio`) | `asynchronous::AsyncEndpoint` |
//! | see where the time goes | [`trace`] |
//! | write tests | [`mod@test`] |
#![forbid(unsafe_code)]

mod area;
#[cfg(feature = "tokio")]
pub mod asynchronous;
mod background;
mod control;
mod daemon;
mod endpoint;
mod error;
mod info;
mod node;
#[doc(hidden)]
pub mod nodes;
mod observe;
mod octets;
mod parameters;
pub mod runtime;
mod spawn;
mod system_log;
pub mod test;
mod timeout;
pub mod trace;
mod vm;

pub use area::{Area, AreaConfig, Block, Items, Pages, Plain, SealedBlock, Unsent};
#[doc(hidden)]
pub use endpoint::Buffer;
pub use endpoint::{
    Audience, Call, Delivered, Endpoint, GivenBlock, Grant, Hold, Inheritance, Lease, Location,
    NAME_KEY, PendingRequest, PendingSend, Pulse, Received, ReceivedKind, Rights, Source, TimerId,
    UnfinishedReceive, UnfinishedRequest, UnfinishedSend, Withdrawal,
};
pub use error::{
    AreaError, BindError, CopyError, ErrorNumber, GrantError, NameError, NodeError, NotifyError,
    PriorityError, PulseError, ReceiveError, Refusal, ReplyError, ReplyReceiveError, SendError,
    SendRecError, TimerError, UnbindError, WaitError, WakeupError, WatchError,
};
pub use info::{
    AreaAudience, AreaInfo, EndpointInfo, Identity, NodeInfo, NodeParams, OtherNodeInfo,
    OtherNodes, Privileges, QuotaUse, UserUse, VmInfo, VmLife, WaitInfo,
};
pub use m3ipc_abi::{
    ANY, Address, CLOCK, Code, HARDWARE, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message, NAME_MAX_BYTES,
    NONE, PAYLOAD_BYTES, PULSE_MESSAGE, RECEIVE_LIMIT_BYTES, SELF, SYSTEM, Slot, WaitState,
};
pub use m3ipc_area::BlockLifetime;
pub use m3ipc_link::ends::Delivery;
pub use m3ipc_link::{PRIORITY_MAX, PULSES_MAX, WaitStrategy};
pub use m3ipc_shm::{PeerMemory, PeerMemoryMut};
pub use m3ipc_sys::{CopySource, CopyTarget};
pub use node::Node;
pub use parameters::{Parameters, ParametersError};
pub use timeout::Timeout;
pub use vm::{ForeignVm, Vm, VmConfig};
