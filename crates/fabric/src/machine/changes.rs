//! Changes of the holders of slots with a backup: not too many, and those that are due.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::Slot;

use crate::ids::VmId;

/// The least time between two changes of the holder of a slot.
pub const PAUSE_NS: u64 = 1_000_000_000;

/// Changes of holders. It has slots with a backup alone.
#[derive(Debug, Default)]
pub(super) struct Changes {
    latest_ns: BTreeMap<(VmId, Slot), u64>,
    /// Slots whose place was here in this life, and was to go back.
    gone_back: BTreeSet<(VmId, Slot)>,
    /// Slots that their backup has left.
    left: BTreeSet<(VmId, Slot)>,
}

impl Changes {
    /// Begins a change.
    ///
    /// # Errors
    /// The time from which on the slot may change again.
    pub(super) fn begin(&mut self, slot: (VmId, Slot), now_ns: u64) -> Result<(), u64> {
        let latest_ns = self.latest_ns.get(&slot);
        match latest_ns.map(|at_ns| at_ns.saturating_add(PAUSE_NS)) {
            Some(next_ns) if now_ns < next_ns => Err(next_ns),
            _ => {
                self.latest_ns.insert(slot, now_ns);
                Ok(())
            }
        }
    }

    /// Whether the slot has changed its holder in this life.
    pub(super) fn has_changed(&self, slot: (VmId, Slot)) -> bool {
        self.latest_ns.contains_key(&slot) || self.gone_back.contains(&slot)
    }

    /// The place goes back to its home. That needs no pause: the next change from there does.
    pub(super) fn goes_back(&mut self, slot: (VmId, Slot)) {
        self.gone_back.insert(slot);
    }

    /// The endpoint of the slot has moved away from here: a late bind counts for nothing.
    pub(super) fn moves_away(&mut self, slot: (VmId, Slot)) {
        self.stays(slot);
        self.gone_back.insert(slot);
    }

    /// The holder of the slot has an endpoint there.
    pub(super) fn stays(&mut self, slot: (VmId, Slot)) {
        if !self.left.is_empty() {
            self.left.remove(&slot);
        }
    }

    /// The backup that has the slot has no endpoint there any more.
    pub(super) fn leaves(&mut self, slot: (VmId, Slot)) {
        self.left.insert(slot);
    }

    /// Whether the backup has left.
    pub(super) fn has_left(&self, slot: (VmId, Slot)) -> bool {
        self.left.contains(&slot)
    }
}
