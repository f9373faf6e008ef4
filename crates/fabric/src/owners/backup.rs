//! Backups of slots, and the slots that they hold: what `places` changes.

use std::collections::BTreeMap;

use m3ipc_abi::Slot;
use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, NodeId, VmId};

/// A sign that a node has ended, the surest first. As a word of a registry: the weakest sign that
/// counts for a slot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum EndSign {
    /// The node itself said so, over its own connection: its proxy was told to end, or its daemon
    /// has ended.
    #[default]
    Left,
    /// Its last connection is closed, and its address refuses the next one. A firewall or a host in
    /// between can do the same.
    Refused,
    /// Nothing was heard of it for the time of silence.
    Silence,
}

impl EndSign {
    /// All signs, with their words.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Left, "left"), (Self::Refused, "refused"), (Self::Silence, "silence")];

    /// Its word in a registry.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(sign, _)| *sign == self).map_or("", |(_, word)| word)
    }
}

/// The backup of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its node.
    pub node: NodeId,
    /// The weakest sign that counts as the end of the home, and of the backup.
    pub after: EndSign,
}

/// Backups, and the slots that they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) backups: BTreeMap<(VmId, Slot), Backup>,
    /// Slots that the node of their backup has.
    pub(super) held: BTreeMap<(VmId, Slot), NodeId>,
}

impl Places {
    /// The node that holds the slot in place of its home.
    pub(super) fn holder(&self, endpoint: EndpointId) -> Option<NodeId> {
        // Nothing to search in almost all clusters.
        if self.held.is_empty() || endpoint.address.is_reserved() {
            return None;
        }
        self.held.get(&(endpoint.vm, endpoint.address.slot())).copied()
    }

    /// Whether the backups are the same.
    pub(super) fn has_backups_of(&self, earlier: &Self) -> bool {
        self.backups == earlier.backups
    }
}
