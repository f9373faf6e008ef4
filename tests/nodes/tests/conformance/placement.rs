//! Which roles of a case are on the other node.

use m3ipc::Slot;
use std::cell::Cell;

/// The slots of beta. Each pair of roles of a case is on two nodes in one of the placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All partners.
    Far,
    /// Partners at odd slots.
    Odd,
    /// Partners at even slots.
    Even,
}

impl Placement {
    pub const ALL: [Self; 3] = [Self::Far, Self::Odd, Self::Even];

    /// Whether a slot is one of beta.
    pub fn is_far(self, slot: Slot) -> bool {
        let fits = match self {
            Self::Far => true,
            Self::Odd => slot % 2 == 1,
            Self::Even => slot % 2 == 0,
        };
        slot >= 2 && fits
    }

    /// A slot of beta that no case uses.
    pub fn anchor(self) -> Slot {
        if self == Self::Even { 62 } else { 63 }
    }

    /// The slots of a VM in the registry.
    pub fn slots(self) -> String {
        let of = |far: bool| {
            let all = (-4..64).filter(|slot| self.is_far(*slot) == far);
            all.map(|slot| format!("[{slot}, {slot}]")).collect::<Vec<_>>().join(", ")
        };
        format!("{{ alpha = [{}], beta = [{}] }}", of(false), of(true))
    }
}

thread_local! {
    static CURRENT: Cell<Placement> = const { Cell::new(Placement::Far) };
    /// Whether even and odd slots of partners were used.
    static USED: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
}

/// The placement of the running case.
pub fn current() -> Placement {
    CURRENT.get()
}

/// Begins a run of a case.
pub fn set(placement: Placement) {
    CURRENT.set(placement);
    USED.set([false; 2]);
}

/// A case has a role at this slot.
pub fn note(slot: Slot) {
    if slot >= 2 {
        let mut used = USED.get();
        used[usize::from(slot % 2 == 1)] = true;
        USED.set(used);
    }
}

/// Whether the case has partners that another placement parts.
pub fn has_pairs() -> bool {
    USED.get() == [true; 2]
}
