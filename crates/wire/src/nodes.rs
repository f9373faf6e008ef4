//! Frames between the daemon and the proxy of its node.

use serde::{Deserialize, Serialize};

/// The most ranges of one registration.
pub const FOREIGN_RANGES_MAX: usize = 512;

/// Slots of another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignRange {
    /// The VM.
    pub vm: i32,
    /// The first slot.
    pub first: i32,
    /// The last slot.
    pub last: i32,
    /// The name of the node.
    pub node: String,
}

/// The most other nodes that a daemon keeps.
pub const OTHER_NODES_MAX: usize = 512;
/// The longest name of another node, in bytes.
pub const NODE_NAME_MAX_BYTES: usize = 63;

/// Another node by its number and its name in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherNode {
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
}

/// Another node, as the daemon of this one knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherNodeInfo {
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Whether it can be reached.
    pub reachable: bool,
    /// The VMs, of those that run here and that the asker may see, in which it has slots.
    pub vms: Vec<i32>,
    /// Its endpoints in these VMs that can be called from here.
    pub endpoints: u32,
}

/// A request of a proxy. Root and the user of the daemon may be the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodesRequest {
    /// Makes this connection the proxy of the node; these are all slots of other nodes. Reply:
    /// `Done`, behind an event for each bound endpoint.
    Register(Vec<ForeignRange>),
    /// A node can be reached, or not. Reply: `Done`.
    Reachable {
        /// Its name.
        node: String,
        /// Whether it can be reached.
        reachable: bool,
    },
    /// Binds a stand-in for an endpoint of another node, on a connection of its own. Reply: as for
    /// [`Request::Bind`](crate::Request::Bind).
    StandIn {
        /// The VM.
        vm: i32,
        /// The address of the endpoint.
        address: i32,
    },
    /// The endpoint of this stand-in has died: its peers learn that, and not that its node is out
    /// of reach. Reply: `Done`.
    Died,
    /// A wakeup of an endpoint of another node has ended. Reply: `Done`.
    Woken {
        /// Its number in [`NodesEvent::Wakeup`].
        number: u64,
        /// 0 or a code.
        code: i32,
    },
    /// These are all other nodes. Reply: `Done`.
    Known(Vec<OtherNode>),
    /// What is known of other nodes, for any user. Reply: `OtherNodes`.
    List,
}

/// An event for a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodesEvent {
    /// An endpoint was bound.
    Bound {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
    },
    /// An endpoint has attached a name.
    Named {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
        /// The name.
        name: String,
    },
    /// A local endpoint wakes one of another node. The proxy says the end: [`NodesRequest::Woken`].
    Wakeup {
        /// The number of the wakeup.
        number: u64,
        /// Their VM.
        vm: i32,
        /// The address of the local one.
        from: i32,
        /// The address of the other one.
        address: i32,
    },
    /// An endpoint has ended. Its peers have their events already.
    Ended {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
    },
}
