//! Frames between the daemon and the proxy of its node.

use serde::{Deserialize, Serialize};

/// The most ranges of one registration.
pub use m3ipc_abi::FOREIGN_RANGES_MAX;

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

/// The most slots with a backup of one registration.
pub const BACKED_SLOTS_MAX: usize = 1024;

/// A slot that is at this node at times: it has a backup, and this node is its home or the node of
/// the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BackedSlot {
    /// The VM.
    pub vm: i32,
    /// The slot.
    pub slot: i32,
}

/// What the registry says of slots, as far as the daemon of a node needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherSlots {
    /// The slots of other nodes.
    pub foreign: Vec<ForeignRange>,
    /// The slots that are at this node at times.
    pub backed: Vec<BackedSlot>,
}

impl From<Vec<ForeignRange>> for OtherSlots {
    fn from(foreign: Vec<ForeignRange>) -> Self {
        Self { foreign, backed: Vec::new() }
    }
}

/// Where a slot with a backup is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotPlace {
    /// At this node. The next endpoint there gets this address, if there is one.
    Here(Option<i32>),
    /// At the node of this name. A local endpoint there has been replaced, and ends.
    There(String),
    /// The same, unless a local endpoint is there: -337.
    Back(String),
    /// At the node of this name, to which the local endpoint of this address moves. Unless that is
    /// there: -310.
    Moved {
        /// The address.
        address: i32,
        /// The name of the node.
        node: String,
    },
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
    /// Makes this connection the proxy of the node. Reply: `Done`, behind an event for each bound
    /// endpoint.
    Register(OtherSlots),
    /// A slot with a backup is at another node than before. Reply: `Done`.
    Place {
        /// The slot.
        slot: BackedSlot,
        /// Where it is.
        place: SlotPlace,
    },
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
    /// A local endpoint does not move. Reply: `Done`.
    NotMoved {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
        /// The code.
        code: i32,
        /// The reason.
        why: String,
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
    /// A local endpoint wants to move. The proxy answers with [`SlotPlace::Moved`] or
    /// [`NodesRequest::NotMoved`].
    Move {
        /// Its VM.
        vm: i32,
        /// Its address.
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
