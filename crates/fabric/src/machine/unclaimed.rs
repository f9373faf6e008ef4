//! Places that this node has got by moves, until they are claimed (`moves`).

use std::collections::BTreeMap;

use m3ipc_abi::Slot;

use crate::ids::VmId;

/// The time in which an endpoint has to be bound in the place of one that has moved.
pub const CLAIM_NS: u64 = 2_000_000_000;

/// Places that this node has got by moves and that nobody has claimed, with the end of the time.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<(VmId, Slot), u64>);

impl Moves {
    /// This node has got a place, until this time. Returns the time that it had before.
    pub(super) fn begin(&mut self, slot: (VmId, Slot), end_ns: u64) -> Option<u64> {
        self.0.insert(slot, end_ns)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a place is one of them.
    pub(super) fn has(&self, slot: (VmId, Slot)) -> bool {
        // Nothing to search almost always.
        !self.0.is_empty() && self.0.contains_key(&slot)
    }

    /// A local endpoint has claimed the place, or it is free no longer.
    pub(super) fn end(&mut self, slot: (VmId, Slot)) {
        if !self.0.is_empty() {
            self.0.remove(&slot);
        }
    }

    /// Ends the time of a place that nobody has claimed. Whether it was over.
    pub(super) fn expire(&mut self, slot: (VmId, Slot), now_ns: u64) -> bool {
        let is_over = self.0.get(&slot).is_some_and(|end_ns| *end_ns <= now_ns);
        if is_over {
            self.0.remove(&slot);
        }
        is_over
    }
}
