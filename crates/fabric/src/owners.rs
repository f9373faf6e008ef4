//! Which node owns which slots of a VM. The ranges are disjoint, so an address names its node.

mod backup;
mod places;

use std::collections::BTreeMap;

use backup::Places;
pub use backup::{Backup, EndSign};
use m3ipc_abi::{NodeLimits, Slot};
use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, Incarnation, NodeId, VmId};

/// Slots from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotRange {
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
}

impl SlotRange {
    /// All slots that a VM may have.
    pub const ALL: Self = Self { first: -NodeLimits::MAX.tasks, last: NodeLimits::MAX.procs - 1 };

    /// The slots from `first` to `last`.
    ///
    /// # Errors
    /// [`OwnersError::Empty`] if `last` is below `first`.
    pub const fn new(first: Slot, last: Slot) -> Result<Self, OwnersError> {
        if first > last {
            Err(OwnersError::Empty { first, last })
        } else {
            Ok(Self { first, last })
        }
    }

    /// Whether the slot is in the range.
    #[must_use]
    pub const fn contains(&self, slot: Slot) -> bool {
        self.first <= slot && slot <= self.last
    }

    const fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl std::fmt::Display for SlotRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// Why ranges cannot be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnersError {
    /// The range has no slot.
    #[error("the range {first}..{last} is empty; give the lower slot first")]
    Empty {
        /// The first slot.
        first: Slot,
        /// The last slot.
        last: Slot,
    },
    /// Two ranges of one VM share a slot.
    #[error(
        "VM {vm}: the range {} of node {} overlaps {} of node {}; give each slot one node",
        .range, .node.0, .other_range, .other.0
    )]
    Overlap {
        /// The VM.
        vm: VmId,
        /// The node of the range.
        node: NodeId,
        /// The range.
        range: SlotRange,
        /// The node of the other range.
        other: NodeId,
        /// The other range.
        other_range: SlotRange,
    },
    /// A backup that is none.
    #[error(
        "VM {vm}: node {} cannot be the backup of slot {slot}; name one other node than the one \
         that has the slot, which must have one", .node.0
    )]
    Backup {
        /// The VM.
        vm: VmId,
        /// The slot.
        slot: Slot,
        /// The node of the backup.
        node: NodeId,
    },
}

/// The owner of each slot of each VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// By VM and first slot; the ranges of a VM are disjoint.
    ranges: BTreeMap<(VmId, Slot), (SlotRange, NodeId)>,
    /// Whether a node may have claimed slots that this table gives to no node.
    growing: bool,
    /// The endpoints that another node may take, and those that it has taken.
    places: Places,
}

impl Owners {
    /// Adds a range.
    ///
    /// # Errors
    /// [`OwnersError::Overlap`], which names both ranges and nodes; nothing is added then.
    pub fn add(&mut self, vm: VmId, range: SlotRange, node: NodeId) -> Result<(), OwnersError> {
        let earlier = self.ranges.range(..=(vm, range.last)).next_back();
        if let Some((&(of, _), &(other_range, other))) = earlier
            && of == vm
            && range.overlaps(&other_range)
        {
            return Err(OwnersError::Overlap { vm, node, range, other, other_range });
        }
        self.ranges.insert((vm, range.first), (range, node));
        Ok(())
    }

    /// The node that has the slot of an endpoint now: its home, or the node of its backup.
    #[must_use]
    pub fn owner(&self, endpoint: EndpointId) -> Option<NodeId> {
        self.places.holder(endpoint).or_else(|| self.home(endpoint))
    }

    /// The node to which the registry gives the slot of an endpoint.
    #[must_use]
    pub fn home(&self, endpoint: EndpointId) -> Option<NodeId> {
        let slot = endpoint.address.slot();
        if endpoint.address.is_reserved() {
            return None;
        }
        let (&(vm, _), (range, node)) = self.ranges.range(..=(endpoint.vm, slot)).next_back()?;
        (vm == endpoint.vm && range.contains(slot)).then_some(*node)
    }

    /// The ranges of a node, in order.
    pub fn of_node(&self, node: NodeId) -> impl Iterator<Item = (VmId, SlotRange)> + '_ {
        let ranges = self.ranges.iter().filter(move |(_, (_, owner))| *owner == node);
        ranges.map(|(&(vm, _), &(range, _))| (vm, range))
    }

    /// The same table, of a registry in which nodes claim slots at any time.
    #[must_use]
    pub fn growing(mut self) -> Self {
        self.growing = true;
        self
    }

    /// Whether nodes may claim slots at any time.
    #[must_use]
    pub const fn is_growing(&self) -> bool {
        self.growing
    }

    /// Whether a node may own this slot soon: its claim is on the way.
    #[must_use]
    pub fn may_be_claimed(&self, endpoint: EndpointId) -> bool {
        self.growing && !endpoint.address.is_reserved() && self.owner(endpoint).is_none()
    }

    /// Whether each slot has the owner here that it has in `earlier`.
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        self.places.has_backups_of(&earlier.places)
            && earlier.ranges.iter().all(|(&(vm, _), &(range, node))| self.has_all(vm, range, node))
    }

    /// Whether a node owns each slot of a range.
    fn has_all(&self, vm: VmId, range: SlotRange, node: NodeId) -> bool {
        let mut next = range.first;
        let parts = self.of_node(node).filter(|(of, part)| *of == vm && part.last >= range.first);
        for (_, part) in parts {
            if part.first > next {
                return false;
            }
            match part.last.checked_add(1) {
                Some(after) if part.last < range.last => next = after,
                _ => return true,
            }
        }
        false
    }

    /// The ranges that no node owns, within `all`.
    #[must_use]
    pub fn unclaimed(&self, vm: VmId, all: SlotRange) -> Vec<SlotRange> {
        let mut free = Vec::new();
        let mut next = all.first;
        for (range, _) in self.ranges.iter().filter(|((of, _), _)| *of == vm).map(|(_, it)| it) {
            free.extend(SlotRange::new(next, range.first.saturating_sub(1).min(all.last)));
            next = next.max(range.last.saturating_add(1));
        }
        free.extend(SlotRange::new(next, all.last));
        free
    }

    /// The ranges that a node claims beyond, or short of, its own; `None` if the claims are right.
    ///
    /// In a [growing](Self::growing) table, a claim is wrong if it has a slot of another node.
    #[must_use]
    pub fn wrong_claim(
        &self,
        node: NodeId,
        claims: &[(VmId, SlotRange)],
    ) -> Option<(VmId, SlotRange)> {
        if self.growing {
            let others = |vm: VmId, claim: SlotRange| {
                let all = self.ranges.iter().filter(move |((of, _), _)| *of == vm);
                all.map(|(_, it)| it).any(|(range, of)| *of != node && range.overlaps(&claim))
            };
            return claims.iter().find(|(vm, claim)| others(*vm, *claim)).copied();
        }
        let own: Vec<_> = self.of_node(node).collect();
        let beyond = claims.iter().find(|claim| !own.contains(claim));
        beyond.or_else(|| own.iter().find(|range| !claims.contains(range))).copied()
    }
}

/// Whether a node may begin a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The known incarnation.
    Same,
    /// A later incarnation, and the known one is gone: it is dead from now on.
    Successor,
    /// An incarnation before the known one.
    Stale,
    /// Another incarnation, and the known one lives: two proxies use one node id.
    Second,
}

impl Admission {
    /// Judges an incarnation. `lives`: the known one was heard of just now, on its connection.
    #[must_use]
    pub fn of(known: Incarnation, lives: bool, newcomer: Incarnation) -> Self {
        if newcomer == known {
            Self::Same
        } else if lives {
            Self::Second
        } else if newcomer < known {
            Self::Stale
        } else {
            Self::Successor
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_abi::Address;

    fn range(first: Slot, last: Slot) -> SlotRange {
        SlotRange::new(first, last).expect("not empty")
    }

    fn owners() -> Owners {
        let mut owners = Owners::default();
        for (vm, first, last, node) in [(1, -5, 9, 1), (1, 10, 19, 2), (2, 0, 19, 2)] {
            owners.add(vm, range(first, last), NodeId(node)).expect("disjoint");
        }
        owners
    }

    #[test]
    fn an_address_names_its_node_in_every_generation() {
        let owners = owners();
        let owner = |vm, slot, generation| {
            owners.owner(EndpointId::new(vm, Address::new(generation, slot)))
        };
        for generation in [0, 1, 77] {
            assert_eq!(owner(1, -5, generation), Some(NodeId(1)));
            assert_eq!(owner(1, 9, generation), Some(NodeId(1)));
            assert_eq!(owner(1, 10, generation), Some(NodeId(2)));
            assert_eq!(owner(2, 9, generation), Some(NodeId(2)));
            assert_eq!(owner(1, 20, generation), None);
            assert_eq!(owner(3, 9, generation), None);
        }
        assert_eq!(owners.owner(EndpointId::new(1, m3ipc_abi::ANY)), None);
    }

    #[test]
    fn an_overlap_names_both() {
        for (first, last) in [(9, 9), (-9, -5), (0, 3), (-9, 30), (19, 40)] {
            let mut owners = owners();
            let error = owners.add(1, range(first, last), NodeId(3)).expect_err("an overlap");
            let text = error.to_string();
            assert!(text.contains("of node 3 overlaps") && text.contains("VM 1"), "{text}");
        }
        assert_eq!(owners().add(1, range(20, 29), NodeId(3)), Ok(()));
        assert!(SlotRange::new(3, 2).is_err());
    }

    #[test]
    fn a_wrong_claim_is_found() {
        let owners = owners();
        let own: Vec<_> = owners.of_node(NodeId(2)).collect();
        assert_eq!(owners.wrong_claim(NodeId(2), &own), None);
        assert_eq!(owners.wrong_claim(NodeId(2), &own[..1]), Some((2, range(0, 19))));
        let more = [own.clone(), vec![(1, range(0, 3))]].concat();
        assert_eq!(owners.wrong_claim(NodeId(2), &more), Some((1, range(0, 3))));
    }

    #[test]
    fn a_growing_table_accepts_claims_of_free_slots_alone() {
        let owners = owners().growing();
        let fits = |first, last| owners.wrong_claim(NodeId(2), &[(1, range(first, last))]);
        assert_eq!([fits(10, 19), fits(20, 40), fits(12, 30)], [None; 3]);
        assert_eq!(fits(9, 19), Some((1, range(9, 19))));
        let at = |slot| owners.may_be_claimed(EndpointId::new(1, Address::new(0, slot)));
        assert!(at(20) && !at(19));
        assert!(!self::owners().may_be_claimed(EndpointId::new(1, Address::new(0, 20))));
    }

    #[test]
    fn a_table_extends_another_if_no_slot_changes_its_owner() {
        let earlier = owners();
        let mut later = owners();
        later.add(1, range(20, 29), NodeId(1)).expect("free");
        assert!(later.extends(&earlier) && !earlier.extends(&later));
        let mut joined = Owners::default();
        for (vm, first, last, node) in [(1, -5, 2, 1), (1, 3, 9, 1), (1, 10, 29, 2), (2, 0, 19, 2)]
        {
            joined.add(vm, range(first, last), NodeId(node)).expect("disjoint");
        }
        assert!(joined.extends(&earlier) && !joined.extends(&later));
        assert_eq!(later.unclaimed(1, range(-9, 40)), [range(-9, -6), range(30, 40)]);
        assert_eq!(later.unclaimed(3, range(0, 4)), [range(0, 4)]);
    }

    #[test]
    fn a_second_living_incarnation_is_refused() {
        let [one, two] = [Incarnation(1), Incarnation(2)];
        assert_eq!(Admission::of(one, true, two), Admission::Second);
        assert_eq!(Admission::of(two, true, one), Admission::Second);
        assert_eq!(Admission::of(one, false, two), Admission::Successor);
        assert_eq!(Admission::of(two, false, one), Admission::Stale);
        assert_eq!(Admission::of(two, false, two), Admission::Same);
    }
}
