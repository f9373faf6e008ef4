//! Control frames between members and the node daemon, and their codec.
//!
//! One frame a packet. The first frame of a connection is [`Request::Hello`]
//! with the [`VERSION`]; whatever cannot be decoded ends the connection. The
//! frames are flat: no nesting that a stranger could deepen, no length that is
//! not bounded by the packet.

mod area;
mod codec;
mod event;
mod info;
mod reply;
mod request;
pub mod sock;
mod trace;

pub use area::{AreaAudience, AreaEvent, AreaExtent, AreaInfo, AreaParams, AreaReply, AreaRequest};
pub use codec::{Malformed, decode, encode};
pub use event::DaemonEvent;
pub use info::{
    DoorbellInfo, EndpointInfo, NodeInfo, NodeParams, PeerInfo, Privileges, VM_DOMAINS_MAX, VmInfo,
    VmParams, WaitInfo,
};
pub use reply::{FromDaemon, Refusal, Reply};
pub use request::{AwaitedEvent, BindKind, Request};
pub use sock::{SockArrival, SockConnection, SockInfo, SockKind, SockReply, SockRequest};
pub use trace::{TraceEvent, TraceRequest};

/// Version of the frames; daemon and library must have the same.
pub const VERSION: u32 = 1;
/// The longest frame a member may send, in bytes.
pub const REQUEST_MAX_BYTES: usize = 16 * 1024;
/// The longest frame a daemon sends, in bytes.
pub const REPLY_MAX_BYTES: usize = 64 * 1024;
/// File name of the daemon's socket in its runtime directory.
pub const SOCKET_NAME: &str = "m3d.sock";
