//! The proxy of this node, and what it said of other nodes.

use crate::tables::MemberId;
use crate::token::Token;
use m3ipc_wire::OtherNode;
use std::collections::BTreeSet;

/// The proxy of this node. Without one, all is empty.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// The connection on which the proxy registered.
    pub(crate) proxy: Option<Token>,
    /// Its process.
    pub(crate) proxy_pid: i32,
    /// The other nodes.
    pub(crate) known: Vec<OtherNode>,
    /// The nodes that can be reached.
    pub(crate) reachable: BTreeSet<String>,
    /// Stand-ins whose endpoints have died.
    pub(crate) died: BTreeSet<MemberId>,
    /// Endpoints of whose wish to move the proxy has heard, and not decided.
    pub(crate) asked: BTreeSet<MemberId>,
    /// Endpoints that end because they move.
    pub(crate) moved: BTreeSet<MemberId>,
    /// The number of the latest wakeup of an endpoint of another node.
    pub(crate) last_wakeup: u64,
}
