//! Slots of other nodes, as the proxy of this node has registered them.
//!
//! No journal has them: after a takeover the proxy registers again.

use m3ipc_abi::{FIRST_USER_SLOT, Slot};
use m3ipc_wire::ForeignRange;

use super::vm::Vm;

/// The slots of other nodes.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    pub(super) ranges: Vec<ForeignRange>,
}

impl Foreign {
    /// The range of another node that has this slot.
    #[must_use]
    pub fn find(&self, vm: i32, slot: Slot) -> Option<&ForeignRange> {
        self.ranges.iter().find(|it| it.vm == vm && (it.first..=it.last).contains(&slot))
    }

    /// The lowest free user slot from this one on that belongs to this node.
    pub(super) fn lowest_own_slot(&self, vm: &Vm, from: Slot) -> Option<Slot> {
        let mut slot = from.max(FIRST_USER_SLOT);
        while slot < vm.spec.limits.procs {
            match self.find(vm.id(), slot) {
                Some(range) => slot = range.last.saturating_add(1),
                None if vm.slots.contains_key(&slot) => slot += 1,
                None => return Some(slot),
            }
        }
        None
    }
}
