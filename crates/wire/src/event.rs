//! Daemon events: frames that the daemon sends unasked.

use crate::area::AreaEvent;
use crate::info::PeerInfo;
use crate::nodes::NodesEvent;
use crate::trace::TraceEvent;
use serde::{Deserialize, Serialize};

/// A daemon event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonEvent {
    /// A peer made a link. Three descriptors: link, the peer's status page, its ready bitmap.
    Contact(PeerInfo),
    /// The endpoint of this address has gone. Its links are void.
    Died(i32),
    /// An awaited event happened.
    Ready {
        /// The ticket of the request.
        ticket: u64,
        /// The endpoint of the event.
        address: i32,
    },
    /// A wakeup. The flag of the control page says whether it is still pending.
    Wakeup,
    /// Another process unbound this endpoint.
    Unbound,
    /// The VM has ended.
    Ended,
    /// The allowed messages on the link with this peer have changed.
    Allowed {
        /// The peer.
        address: i32,
        /// The allowed kinds of message to the peer.
        may_send: u32,
        /// The allowed kinds of message from the peer.
        may_receive: u32,
    },
    /// The allowed calls of this endpoint have changed: a bit per verb.
    Traps(u32),
    /// An event of an area.
    Area(AreaEvent),
    /// A peer wants to copy with this endpoint. A descriptor of the bounce buffer, if needed.
    CopyGate {
        /// The peer.
        peer: i32,
        /// Whether a bounce buffer came with this event.
        bounce_buffer: bool,
    },
    /// A notification through the daemon. Its sender used src_notify, or sent it before this
    /// endpoint had reattached to this daemon.
    Notified {
        /// The source of the notification.
        source: i32,
        /// Its pending bits.
        bits: u64,
        /// Process, user and group of the source; `None` if it has no process.
        by: Option<(i32, u32, u32)>,
        /// When the daemon got it, or the first of several that coalesced, by the monotonic clock.
        at_ns: u64,
    },
    /// An event of tracing.
    Trace(TraceEvent),
    /// An event for the proxy of the node.
    Nodes(NodesEvent),
    /// The node of the endpoint of this address cannot be reached any more. Its links are void.
    Lost(i32),
    /// The endpoint of this address moves to another node. Its links are void.
    Moved(i32),
}
