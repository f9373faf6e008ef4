//! Who talks to whom: nodes, incarnations, endpoints of a VM.

use m3ipc_abi::{Address, Slot};
use serde::{Deserialize, Serialize};

/// A node of the cluster, as the registry numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u16);

/// The number of a life of a node's proxy. It rises at each start and never repeats.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

/// The id of a VM. It is the same on all nodes that the VM spans.
pub type VmId = u16;

/// An endpoint of a VM, unique across nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    /// The VM.
    pub vm: VmId,
    /// The address in it.
    pub address: Address,
}

impl EndpointId {
    /// An endpoint of a VM.
    #[must_use]
    pub const fn new(vm: VmId, address: Address) -> Self {
        Self { vm, address }
    }

    /// An endpoint of the slot, where the generation does not matter.
    pub(crate) const fn any_of((vm, slot): (VmId, Slot)) -> Self {
        Self { vm, address: Address::new(0, slot) }
    }

    pub(crate) const fn of(vm: VmId, address: i32) -> Self {
        Self { vm, address: Address(address) }
    }
}

/// A call of a local endpoint. The machine numbers calls; no number repeats within an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// A message of a remote endpoint that the machine gave to the local side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// A transport connection to a node. The driver numbers connections and repeats no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);
