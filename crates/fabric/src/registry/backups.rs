//! The backups of slots in a registry (ADR 63).

use m3ipc_abi::{Address, Slot};
use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, NodeId, VmId};
use crate::owners::{Backup, EndSign, Owners};

/// What is wrong with a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// No `[[node]]` entry has the name.
    #[error("no [[node]] entry has this name; add one, or name another node")]
    UnknownNode,
    /// No node has the slot.
    #[error("no node has the slot; a backup is for a slot in a range of another node")]
    NoHome,
    /// The node has the slot itself.
    #[error("the node has the slot itself; name another node")]
    Home,
    /// The node has no range of the VM.
    #[error("the node has no slots of this VM; give it a range first")]
    NoMember,
    /// The slot has a backup already.
    #[error("the slot has a backup already; name one")]
    Twice,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBackup {
    pub slot: Slot,
    pub node: String,
    #[serde(default)]
    pub after: EndSign,
}

/// Reads a backup of a VM: its slot, its node if the registry has one of the name, and the weakest
/// sign that counts.
pub(super) fn read_backup(
    (vm, slot): (VmId, Slot),
    (node, after): (Option<NodeId>, EndSign),
    owners: &mut Owners,
) -> Result<(), BackupError> {
    let node = node.ok_or(BackupError::UnknownNode)?;
    let home = owners.home(EndpointId::new(vm, Address::new(0, slot)));
    match home {
        None => return Err(BackupError::NoHome),
        Some(home) if home == node => return Err(BackupError::Home),
        Some(_) => {}
    }
    if !owners.of_node(node).any(|(of, _)| of == vm) {
        return Err(BackupError::NoMember);
    }
    let added = owners.add_backup(vm, slot, Backup { node, after });
    added.map_err(|_all_else_was_checked| BackupError::Twice)
}
