//! Control frames between members and the node daemon, and their codec.
//!
//! A packet carries one frame. The first frame of a connection is [`Request::Hello`] with the
//! [`VERSION`]. A frame that cannot be decoded ends the connection. Frames are flat: a sender
//! cannot nest them, and the size of the packet bounds every length.
#![forbid(unsafe_code)]

mod area;
mod codec;
mod event;
mod info;
mod nodes;
mod reply;
mod request;
pub mod sock;
mod trace;

pub use area::{AreaAudience, AreaEvent, AreaInfo, AreaParams, AreaReply, AreaRequest};
pub use codec::{Malformed, decode, decode_first, encode};
pub use event::DaemonEvent;
pub use info::{
    DoorbellInfo, EndpointInfo, NodeInfo, NodeParams, PeerInfo, Privileges, QuotaUse, RecalledPeer,
    UserUse, VM_DOMAINS_MAX, VmInfo, VmLife, VmParams, WaitInfo,
};
pub use nodes::{
    BACKED_SLOTS_MAX, BackedSlot, FOREIGN_RANGES_MAX, ForeignRange, NODE_NAME_MAX_BYTES,
    NodesEvent, NodesRequest, OTHER_NODES_MAX, OtherNode, OtherNodeInfo, OtherSlots, SlotPlace,
};
pub use reply::{FromDaemon, Refusal, Reply};
pub use request::{AwaitedEvent, BindKind, Request};
pub use sock::{SockArrival, SockConnection, SockInfo, SockKind, SockReply, SockRequest};
pub use trace::{TraceEvent, TraceRequest};

/// Version of the frames and of the link pages. Daemon and library must have the same version; the
/// daemon refuses the greeting of another version and names both.
///
/// | version | change |
/// |---|---|
/// | 2 | [`BindKind::Additional`] |
/// | 3 | [`Request::Usage`], `VmParams::domain_users` |
/// | 4 | [`Request::VmOpen`], [`VmLife`], `VmInfo::creator_pid` |
/// | 5 | names and copy limits of nodes, `Request::NotifyFor` with a VM and an argument |
/// | 6 | links count notifications |
/// | 7 | control regions of pairs have bitmaps of pollers |
/// | 8 | [`NodesRequest`], [`DaemonEvent::Lost`], held messages |
/// | 9 | the nonce of [`Request::Bind`] |
/// | 10 | [`Request::MappedNoReply`], [`NodesRequest::Woken`], [`NodesRequest::Known`] |
/// | 11 | the notice `MappedNoReply` on demand, a request in the packet of the greeting |
/// | 12 | [`OtherSlots`], [`NodesRequest::Place`], [`AwaitedEvent::Place`] |
/// | 13 | [`Request::Move`], [`SlotPlace::Moved`], [`DaemonEvent::Moved`] |
/// | 14 | additional endpoints in [`AwaitedEvent::Place`] |
/// | 15 | [`Request::NameReserve`], the key of [`Request::NameAttach`], `low` of a new area |
/// | 16 | what an endpoint does is a [`WaitState`](m3ipc_abi::WaitState) in [`WaitInfo`] |
/// | 17 | [`PeerInfo::life`], [`RecalledPeer`] |
pub const VERSION: u32 = 17;
/// The longest frame of a member, in bytes.
pub const REQUEST_MAX_BYTES: usize = 16 * 1024;
/// The longest frame of the daemon, in bytes.
pub const REPLY_MAX_BYTES: usize = 64 * 1024;
/// File name of the daemon's socket in its runtime directory.
pub const SOCKET_NAME: &str = "m3d.sock";
