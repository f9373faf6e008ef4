//! The rule that leads from an address to an endpoint, or names the error.

use m3ipc_abi::{ANY, Address, NONE, SELF, SYSTEM_SLOTS, Slot, VmLimits};

use super::error::LookupError;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This endpoint lives in the slot.
    Living(Address),
    /// The slot is free; this endpoint was the last one in it.
    Last(Address),
    /// The slot never had an endpoint.
    Never,
}

/// Whether the VM has this slot: within its limits, and not the number of ANY, NONE or SELF.
#[must_use]
pub fn slot_in_range(limits: &VmLimits, slot: Slot) -> bool {
    (-limits.tasks..limits.procs).contains(&slot) && ![ANY.0, NONE.0, SELF.0].contains(&slot)
}

/// Checks `address` as a destination of `caller` (`None`: without the check for the caller itself).
///
/// In a free slot, the address of the last holder gives [`LookupError::Dead`]. Any other address
/// is of another generation. A system slot that never had a holder counts as held by its only
/// possible address.
///
/// # Errors
/// In the order of the contract: range (also ANY, NONE and SELF), self, generation, dead.
pub fn check_destination(
    limits: &VmLimits,
    caller: Option<Address>,
    address: Address,
    holder: impl FnOnce(Slot) -> Holder,
) -> Result<(), LookupError> {
    let slot = address.slot();
    if address.is_reserved() || !slot_in_range(limits, slot) {
        return Err(LookupError::Range(slot));
    }
    if caller == Some(address) {
        return Err(LookupError::Myself(address));
    }
    match holder(slot) {
        Holder::Living(living) if living == address => Ok(()),
        Holder::Last(last) if last == address => Err(LookupError::Dead(address)),
        Holder::Never if slot < SYSTEM_SLOTS && address.generation() == 0 => {
            Err(LookupError::Dead(address))
        }
        _ => Err(LookupError::Generation(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: VmLimits = VmLimits { procs: 35_534, tasks: 35 };
    const ME: Address = Address(5);

    fn check(address: Address, holder: Holder) -> Result<(), LookupError> {
        check_destination(&LIMITS, Some(ME), address, |_| holder)
    }

    #[test]
    fn range_comes_before_self_and_generation() {
        for address in [ANY, NONE, SELF, Address::new(3, ANY.0), Address(-36)] {
            assert!(matches!(check(address, Holder::Never), Err(LookupError::Range(_))));
        }
        let small = VmLimits { procs: 4, tasks: 0 };
        let outside = check_destination(&small, Some(ME), ME, |_| Holder::Never);
        assert_eq!(outside, Err(LookupError::Range(5)));
    }

    #[test]
    fn the_caller_is_no_destination_of_its_own() {
        assert_eq!(check(ME, Holder::Living(ME)), Err(LookupError::Myself(ME)));
    }

    #[test]
    fn only_the_last_holder_of_a_free_slot_is_dead() {
        let [first, second] = [Address::new(1, 40), Address::new(2, 40)];
        assert_eq!(check(first, Holder::Living(first)), Ok(()));
        assert_eq!(check(first, Holder::Living(second)), Err(LookupError::Generation(first)));
        assert_eq!(check(second, Holder::Last(second)), Err(LookupError::Dead(second)));
        assert_eq!(check(first, Holder::Last(second)), Err(LookupError::Generation(first)));
        assert_eq!(check(first, Holder::Never), Err(LookupError::Generation(first)));
        assert_eq!(check(Address(1), Holder::Never), Err(LookupError::Dead(Address(1))));
    }
}
