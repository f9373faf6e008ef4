//! Endpoint numbers: slot and generation in one integer, as in Minix.
//!
//! `address = generation * G + slot` with `G = NR_TASKS + 35535`. Task slots are negative, so an
//! address below zero is no error. A number below -300 is a code (see [`crate::Code`]).

use crate::limits::{GENERATION_MAX, GENERATION_SIZE, NodeLimits, SYSTEM_SLOTS};

/// Number of tasks that the numbering assumes.
const TASKS: i32 = NodeLimits::DEFAULT.tasks;

/// An endpoint's address in its VM: slot and generation. Any `i32` is a valid value. Only the node
/// daemon knows whether the endpoint exists.
///
/// ```
/// use m3ipc_abi::{ANY, Address};
///
/// let address = Address::new(2, 5);
/// assert_eq!((address.generation(), address.slot()), (2, 5));
/// assert!(ANY.is_reserved() && !address.is_reserved());
/// let successor = Address::next_life(address.slot(), Some(address));
/// assert!(successor.slot() == 5 && successor != address);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Address(pub i32);

/// A slot number of a VM: `-tasks ..= -1` for tasks, `0 ..` for processes.
pub type Slot = i32;

/// In receive: a message from any source.
pub const ANY: Address = Address(31_438);
/// No endpoint.
pub const NONE: Address = Address(27_342);
/// The caller itself (`vcopy` only).
pub const SELF: Address = Address(35_534);
/// The source of hardware notifications; their argument is the set of pending interrupts.
pub const HARDWARE: Address = Address(-1);
/// The source of system notifications; their argument is the set of pending signals.
pub const SYSTEM: Address = Address(-2);
/// The clock task.
pub const CLOCK: Address = Address(-35);

impl Address {
    /// The address of `slot` in its `generation`. The example is at [`Address`].
    #[must_use]
    pub const fn new(generation: i32, slot: Slot) -> Self {
        Self(generation.wrapping_mul(GENERATION_SIZE).wrapping_add(slot))
    }

    /// The slot: `((address + NR_TASKS) mod G) - NR_TASKS`. The example is at [`Address`].
    #[must_use]
    pub const fn slot(self) -> Slot {
        self.0.wrapping_add(TASKS).rem_euclid(GENERATION_SIZE) - TASKS
    }

    /// The generation: `(address + NR_TASKS) / G`. The example is at [`Address`].
    #[must_use]
    pub const fn generation(self) -> i32 {
        self.0.wrapping_add(TASKS).div_euclid(GENERATION_SIZE)
    }

    /// Whether this is ANY, NONE or SELF. No slot ever has one of these addresses. The example is
    /// at [`Address`].
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        self.0 == ANY.0 || self.0 == NONE.0 || self.0 == SELF.0
    }

    /// The address that the next endpoint in this slot gets. System slots keep their address. The
    /// generation of a user slot rises from 1 and wraps to 1 after the highest. The example is at
    /// [`Address`].
    #[must_use]
    pub const fn next_life(slot: Slot, last: Option<Self>) -> Self {
        if slot < SYSTEM_SLOTS {
            return Self(slot);
        }
        let generation = match last {
            Some(last) if last.generation() < GENERATION_MAX => last.generation() + 1,
            _ => 1,
        };
        Self::new(generation, slot)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            ANY => f.write_str("ANY"),
            NONE => f.write_str("NONE"),
            SELF => f.write_str("SELF"),
            Self(number) => number.fmt(f),
        }
    }
}

impl core::fmt::Debug for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_reserved() {
            return core::fmt::Display::fmt(self, f);
        }
        write!(f, "{}(slot {}, generation {})", self.0, self.slot(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_generation_survive_their_encoding() {
        for generation in [0, 1, 2, 1000, GENERATION_MAX] {
            for slot in [-35, -1, 0, 28, 29, 220, 35_533] {
                let address = Address::new(generation, slot);
                assert_eq!((address.generation(), address.slot()), (generation, slot));
            }
        }
    }

    #[test]
    fn a_system_slot_keeps_its_address() {
        assert_eq!(Address::next_life(-2, Some(SYSTEM)), SYSTEM);
        assert_eq!(Address::next_life(28, None), Address(28));
    }

    #[test]
    fn a_user_slot_rises_from_one_and_wraps_to_one() {
        let first = Address::next_life(29, None);
        assert_eq!(first, Address(GENERATION_SIZE + 29));
        assert_eq!(Address::next_life(29, Some(first)).generation(), 2);
        let last = Address::new(GENERATION_MAX, 29);
        assert_eq!(Address::next_life(29, Some(last)).generation(), 1);
    }

    #[test]
    fn no_address_of_a_user_slot_is_negative() {
        assert!(Address::new(1, 29).0 > 0);
        assert!(Address::new(GENERATION_MAX, 35_533).0 > 0);
    }
}
