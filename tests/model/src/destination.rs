//! The oracle's own check of a destination, independent of the daemon's.

use m3ipc_abi::{ANY, Address, Code, NONE, SELF, SYSTEM_SLOTS, Slot, VmLimits};

/// Whether a VM with these limits has this slot.
#[must_use]
pub fn has_slot(limits: &VmLimits, slot: Slot) -> bool {
    let reserved = [ANY, NONE, SELF].iter().any(|reserved| reserved.0 == slot);
    -limits.tasks <= slot && slot < limits.procs && !reserved
}

/// Checks a destination: slot range -34 (also ANY, NONE and SELF); the caller itself -306; another
/// generation -306; a free slot `died`.
///
/// `living` is the endpoint in the destination's slot, `latest` the last one that was in it. A
/// system slot has one possible address only, which also names a slot that was never bound.
///
/// # Errors
/// The code of the contract.
pub fn check(
    limits: &VmLimits,
    caller: Address,
    destination: Address,
    (living, latest): (Option<Address>, Option<Address>),
    died: Code,
) -> Result<(), Code> {
    let slot = destination.slot();
    if destination.is_reserved() || !has_slot(limits, slot) {
        return Err(Code::Range);
    }
    let only_address = (slot < SYSTEM_SLOTS).then_some(Address(slot));
    if destination == caller {
        Err(Code::Endpoint)
    } else if living == Some(destination) {
        Ok(())
    } else if living.is_none() && latest.or(only_address) == Some(destination) {
        Err(died)
    } else {
        Err(Code::Endpoint)
    }
}
