//! What the daemon tells unasked.

use crate::area::AreaEvent;
use crate::info::PeerInfo;
use crate::trace::TraceEvent;
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonEvent {
    /// A peer has made a link; three descriptors: link, its status page, its hints.
    Contact(PeerInfo),
    /// The endpoint of this address has gone; its links are void.
    Died(i32),
    /// What was waited for is so.
    Ready {
        /// The ticket of the waiting.
        ticket: u64,
        /// The endpoint it is about.
        address: i32,
    },
    /// A wakeup: the desk's flag tells whether it still stands.
    Wakeup,
    /// Another has unbound this endpoint.
    Unbound,
    /// The VM has ended.
    Ended,
    /// What may be said over the link with this peer has changed.
    Allowed {
        /// The peer.
        address: i32,
        /// What one may do to it.
        may_send: u32,
        /// What it may do to one.
        may_receive: u32,
    },
    /// What this endpoint may do has changed: a bit per verb.
    Traps(u32),
    /// About areas.
    Area(AreaEvent),
    /// A peer wants to copy with this endpoint; a descriptor of the window, where it needs one.
    CopyGate {
        /// The peer.
        peer: i32,
        /// Whether a window came with this.
        bounce_buffer: bool,
    },
    /// A notification that came through the daemon: in another's name (src_notify), or
    /// given while this endpoint had not come (back) to this daemon yet.
    Notified {
        /// In whose name.
        source: i32,
        /// Its pending bits.
        bits: u64,
        /// Its process, user and group; none where nobody stands behind it.
        by: Option<(i32, u32, u32)>,
    },
    /// About tracing.
    Trace(TraceEvent),
}
