//! Microkernel-style IPC for Linux, in user space, on a stock kernel.
//!
//! Processes of a VM talk by [`send`](Endpoint::send), [`receive`](Endpoint::receive),
//! [`sendrec`](Endpoint::sendrec), [`reply`](Endpoint::reply) and
//! [`notify`](Endpoint::notify). Nothing is queued in between; a call ends with an
//! answer or an error, within a millisecond of the peer's death.
//!
//! ```no_run
//! use m3ipc::{Message, Node, Source, VmConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut node = Node::attach()?; // starts the node daemon where none runs
//! let vm = node.vm_init(&VmConfig::new("shop"))?;
//! let mut server = vm.bind(1)?;
//! let request = server.receive(Source::Any)?;
//! server.reply(request.source, &Message::new(0))?;
//! # Ok(())
//! # }
//! ```

mod area;
#[cfg(feature = "tokio")]
pub mod asynchronous;
mod control;
mod daemon;
mod endpoint;
mod error;
mod node;
pub mod runtime;
mod spawn;
mod timeout;
pub mod trace;

pub use area::{Area, AreaConfig, AreaError, Block, Pages, Plain, Unsent};
pub use endpoint::{
    Audience, Endpoint, Given, Grant, Hold, Identity, Loan, Location, Long, PendingRequest, Rights,
    Source,
};
pub use error::{
    BindError, CallError, CopyError, GrantError, NodeError, NotifyError, ReceiveError, ReplyError,
    SendError, SendRecError,
};
pub use m3ipc_abi::{
    ANY, Address, CLOCK, Code, HARDWARE, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message, NONE, SELF,
    SYSTEM, Slot,
};
pub use m3ipc_area::BlockLifetime;
pub use m3ipc_link::WaitStrategy;
pub use m3ipc_sys::{CopySource, CopyTarget};
pub use m3ipc_wire::{
    AreaAudience, AreaInfo, EndpointInfo, NodeInfo, NodeParams, Privileges, VmInfo, WaitInfo,
};
pub use node::{Node, Vm, VmConfig};
pub use timeout::Timeout;
