//! The one rule that leads from an address to an endpoint, or tells why not.

use m3ipc_abi::{ANY, Address, NONE, SELF, Slot, VmLimits};

use super::error::LookupError;

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This endpoint lives there.
    Living(Address),
    /// This endpoint was the last to live there.
    Last(Address),
    /// Nobody ever lived there.
    Never,
}

/// Whether the VM has this slot: within its limits, and not a number of ANY, NONE or SELF.
#[must_use]
pub fn slot_in_range(limits: &VmLimits, slot: Slot) -> bool {
    (-limits.tasks..limits.procs).contains(&slot) && ![ANY.0, NONE.0, SELF.0].contains(&slot)
}

/// Judges `address` as a peer of `caller` (`None`: of nobody in particular).
///
/// Of a free slot the last holder's address is [`LookupError::Dead`], any other
/// is of another generation. A system slot that nobody ever held counts as
/// held by its only possible address.
///
/// # Errors
/// In the contract's order: range (ANY, NONE and SELF too), self, generation, dead.
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
        Holder::Never if slot < m3ipc_abi::SYSTEM_SLOTS && address.generation() == 0 => {
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

    fn judge(address: Address, holder: Holder) -> Result<(), LookupError> {
        check_destination(&LIMITS, Some(ME), address, |_| holder)
    }

    #[test]
    fn range_comes_before_self_and_generation() {
        for address in [ANY, NONE, SELF, Address::new(3, ANY.0), Address(-36)] {
            assert!(matches!(judge(address, Holder::Never), Err(LookupError::Range(_))));
        }
        let small = VmLimits { procs: 4, tasks: 0 };
        let outside = check_destination(&small, Some(ME), ME, |_| Holder::Never);
        assert_eq!(outside, Err(LookupError::Range(5)));
    }

    #[test]
    fn oneself_is_no_peer() {
        assert_eq!(judge(ME, Holder::Living(ME)), Err(LookupError::Myself(ME)));
    }

    #[test]
    fn only_the_last_holder_of_a_free_slot_is_dead() {
        let [first, second] = [Address::new(1, 40), Address::new(2, 40)];
        assert_eq!(judge(first, Holder::Living(first)), Ok(()));
        assert_eq!(judge(first, Holder::Living(second)), Err(LookupError::Generation(first)));
        assert_eq!(judge(second, Holder::Last(second)), Err(LookupError::Dead(second)));
        assert_eq!(judge(first, Holder::Last(second)), Err(LookupError::Generation(first)));
        assert_eq!(judge(first, Holder::Never), Err(LookupError::Generation(first)));
        assert_eq!(judge(Address(1), Holder::Never), Err(LookupError::Dead(Address(1))));
    }
}
