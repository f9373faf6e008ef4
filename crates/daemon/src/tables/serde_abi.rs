//! The serialised form of types of `m3ipc-abi`. That crate does not depend on serde.

use m3ipc_abi::{NodeLimits, VmLimits};
use serde::{Deserialize, Serialize};

/// An address, as its number.
pub(super) mod address {
    use m3ipc_abi::Address;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::tables) fn serialize<S: Serializer>(
        address: &Address,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        address.0.serialize(to)
    }

    pub(in crate::tables) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Address, D::Error> {
        i32::deserialize(from).map(Address)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "NodeLimits")]
pub(super) struct NodeLimitsForm {
    vms: i32,
    nodes: i32,
    procs: i32,
    tasks: i32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VmLimits")]
pub(super) struct VmLimitsForm {
    procs: i32,
    tasks: i32,
}
