//! What the endpoints of another node may have at receivers of this node: long payloads and blocks
//! that were delivered and are not free again.
//!
//! The count of a node only rises, until it reaches the limit. Then the stand-ins of that node look
//! which blocks came back.

use m3ipc_fabric::NodeId;
use std::collections::BTreeMap;

/// The bytes of other nodes here.
#[derive(Debug)]
pub(super) struct Budget {
    /// The limit of each node.
    limit_bytes: u64,
    /// At most so many bytes of a node are here.
    delivered: BTreeMap<NodeId, u64>,
}

impl Budget {
    pub fn of(limit_bytes: u64) -> Self {
        Self { limit_bytes, delivered: BTreeMap::new() }
    }

    /// Whether a node may have so many more bytes here. Counts them. `here` looks what it has.
    pub fn admits(&mut self, node: NodeId, bytes: u64, here: impl FnOnce() -> u64) -> bool {
        let before = self.delivered.get(&node).copied().unwrap_or_default();
        let mut all = before.saturating_add(bytes);
        if all > self.limit_bytes {
            all = here().saturating_add(bytes);
        }
        let fits = all <= self.limit_bytes;
        if fits {
            self.delivered.insert(node, all);
        }
        fits
    }
}
