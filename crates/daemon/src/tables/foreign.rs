//! Slots of other nodes, as the proxy of this node has registered them.
//!
//! A slot with a backup ([ADR 63](../../../../docs/adr/0063-who-takes-the-place-of-an-endpoint.md))
//! may be elsewhere than its range says:
//!
//! | place | at the node of the backup | at the home | at other nodes |
//! |---|---|---|---|
//! | none | a slot of another node | a slot of this node | a slot of the home |
//! | [`Place::Here`] | bound by the backup | | |
//! | [`Place::There`] | | taken by the backup | taken by the backup |
//!
//! No journal has them: after a takeover the proxy registers again.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, FIRST_USER_SLOT, GENERATION_MAX, SYSTEM_SLOTS, Slot};
use m3ipc_wire::{ForeignRange, OtherSlots};

use super::identity::MemberId;
use super::vm::Vm;

/// Where a slot with a backup is, if its range does not say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this node, which has its backup.
    Here(Lives),
    /// At the node of this range of one slot.
    There(ForeignRange),
}

/// The endpoints of a place at the node of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    /// None yet. The next one gets this address, if there is one.
    None(Option<Address>),
    /// One with the address of the former endpoint.
    Former,
    /// One with an address of its own.
    Own,
}

/// The slots of other nodes.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    pub(super) ranges: Vec<ForeignRange>,
    backed: BTreeSet<(i32, Slot)>,
    places: BTreeMap<(i32, Slot), Place>,
    /// The latest address that this node itself has given in each slot with a backup.
    own: BTreeMap<(i32, Slot), Address>,
    /// The addresses of endpoints that move, until they or their stand-ins are bound here.
    arriving: BTreeMap<(i32, Slot), Address>,
    /// Those that were bound, or that nobody expects any more, since the last look.
    arrived: Vec<MemberId>,
    /// The latest endpoint that has left each slot with a backup for one of another node, and its
    /// user.
    left: BTreeMap<(i32, Slot), (Address, u32)>,
    /// Whether a proxy is registered. Without one nobody knows where a place is.
    has_proxy: bool,
}

impl Foreign {
    /// What a proxy has registered, with the places of `former` that `stays` chooses.
    pub(super) fn new(
        slots: OtherSlots,
        former: &Self,
        stays: impl Fn((i32, Slot), &Place) -> bool,
    ) -> Self {
        let OtherSlots { foreign, backed } = slots;
        let backed: BTreeSet<_> = backed.iter().map(|it| (it.vm, it.slot)).collect();
        let is_backed = |at: &(i32, Slot), place: &Place| {
            matches!(place, Place::There(_)) || backed.contains(at)
        };
        let places = former.places.iter().filter(|(at, it)| is_backed(at, it) && stays(**at, it));
        let places = places.map(|(at, place)| (*at, place.clone())).collect();
        Self { ranges: foreign, backed, places, has_proxy: true, ..former.clone() }
    }

    /// The proxy has left: a place that no endpoint has is at its home, as far as is known.
    pub(super) fn proxy_left(&mut self, lives: impl Fn((i32, Slot)) -> bool) {
        self.has_proxy = false;
        let arriving = std::mem::take(&mut self.arriving).into_iter();
        self.arrived.extend(arriving.map(|((vm, _), address)| MemberId::new(vm, address)));
        self.places.retain(|at, place| matches!(place, Place::There(_)) || lives(*at));
    }

    /// The range of another node whose slot nobody may bind now: the proof that its node has ended
    /// is lost with the proxy.
    pub(super) fn unproven(&self, vm: i32, slot: Slot) -> Option<&ForeignRange> {
        match self.has_proxy || !self.is_of_backup(vm, slot) {
            true => None,
            false => self.range(vm, slot),
        }
    }

    /// The range of another node that has this slot.
    #[must_use]
    pub fn find(&self, vm: i32, slot: Slot) -> Option<&ForeignRange> {
        // Nothing to search in almost all nodes.
        let place = match self.places.is_empty() {
            true => None,
            false => self.places.get(&(vm, slot)),
        };
        match place {
            Some(Place::Here(_)) => None,
            Some(Place::There(range)) => Some(range),
            None => self.range(vm, slot),
        }
    }

    fn range(&self, vm: i32, slot: Slot) -> Option<&ForeignRange> {
        self.ranges.iter().find(|it| it.vm == vm && (it.first..=it.last).contains(&slot))
    }

    /// Whether a slot of another node is at this one at times, for its backup.
    pub(super) fn is_of_backup(&self, vm: i32, slot: Slot) -> bool {
        !self.backed.is_empty() && self.is_backed(vm, slot) && self.range(vm, slot).is_some()
    }

    /// Whether a slot is at this node at times.
    pub(super) fn is_backed(&self, vm: i32, slot: Slot) -> bool {
        self.backed.contains(&(vm, slot))
    }

    /// Puts a slot with a backup elsewhere.
    pub(super) fn place(&mut self, vm: i32, slot: Slot, place: Place) {
        let range = self.range(vm, slot);
        let as_range_says = match &place {
            Place::Here(_) => range.is_none(),
            Place::There(there) => range.is_some_and(|range| range.node == there.node),
        };
        if as_range_says {
            self.places.remove(&(vm, slot));
        } else {
            self.places.insert((vm, slot), place);
        }
    }

    /// Whether a slot is at this node in place of its home.
    pub(super) fn is_taken_over(&self, vm: i32, slot: Slot) -> bool {
        // Nothing to search in almost all nodes.
        !self.places.is_empty() && matches!(self.places.get(&(vm, slot)), Some(Place::Here(_)))
    }

    /// An endpoint of this address moves, and is to be bound soon; `None`: none does.
    pub(super) fn arrives(&mut self, vm: i32, slot: Slot, address: Option<Address>) {
        let former = match address {
            Some(address) => self.arriving.insert((vm, slot), address),
            None => self.arriving.remove(&(vm, slot)),
        };
        self.arrived.extend(former.map(|address| MemberId::new(vm, address)));
    }

    /// The endpoints with generations that were bound, or that nobody expects any more.
    pub(super) fn take_missed(&mut self) -> Vec<MemberId> {
        let arrived = std::mem::take(&mut self.arrived).into_iter();
        arrived.filter(|id| id.address.slot() >= SYSTEM_SLOTS).collect()
    }

    /// The address of an endpoint that moves, until it or its stand-in is bound.
    pub(super) fn arriving(&self, vm: i32, slot: Slot) -> Option<Address> {
        self.arriving.get(&(vm, slot)).copied()
    }

    /// An endpoint of this node and this user leaves its slot to one of another node.
    pub(super) fn leaves(&mut self, vm: i32, address: Address, uid: u32) {
        self.left.insert((vm, address.slot()), (address, uid));
    }

    /// Whether an endpoint of this address was here, and of this user, before it left.
    pub(super) fn was_of(&self, vm: i32, address: Address, uid: u32) -> bool {
        self.left.get(&(vm, address.slot())) == Some(&(address, uid))
    }

    /// Whether an endpoint of this address may come to its home: it is the latest one of the home,
    /// or one that its backup has made. Another one of the home has ended, or is to come.
    pub(super) fn may_come_back(&self, vm: i32, address: Address) -> bool {
        let at = (vm, address.slot());
        let latest = self.own.get(&at).or(self.left.get(&at).map(|(address, _)| address));
        latest.is_none_or(|latest| {
            let is_near = is_just_ahead(address, *latest) || is_just_ahead(*latest, address);
            address == *latest || !is_near
        })
    }

    /// The address of the next endpoint of a slot whose latest one had this address.
    ///
    /// In a place that this node has taken, the first one has the address that was there. Later
    /// ones have generations of their own, which go on from those of earlier times, as those of the
    /// home do: each address names one endpoint.
    pub(super) fn next_address(&mut self, vm: i32, slot: Slot, latest: Option<Address>) -> Address {
        if self.is_taken_over(vm, slot)
            && let Some(Place::Here(lives)) = self.places.get_mut(&(vm, slot))
        {
            let before = match std::mem::replace(lives, Lives::Own) {
                Lives::None(Some(former)) => {
                    *lives = Lives::Former;
                    return former;
                }
                Lives::None(None) | Lives::Former => {
                    let latest = latest.unwrap_or(Address::new(0, slot));
                    let far = latest.generation() + GENERATION_MAX / 2;
                    let far = Address::new(far % GENERATION_MAX, slot);
                    let own = self.own.get(&(vm, slot)).copied();
                    // A home that counts from there gave a later one.
                    let is_past = |own| is_just_ahead(far, own) || is_just_ahead(latest, own);
                    own.filter(|own| !is_past(*own)).or(Some(far))
                }
                Lives::Own => latest,
            };
            return self.own_address(vm, slot, before);
        }
        // One that has moved to this node, its home.
        if !self.arriving.is_empty()
            && let Some(address) = self.arriving.remove(&(vm, slot))
        {
            return address;
        }
        match self.backed.is_empty() || !self.is_backed(vm, slot) {
            true => Address::next_life(slot, latest),
            // The latest one may be that of the backup.
            false => {
                let own = self.own.get(&(vm, slot)).copied();
                self.own_address(vm, slot, own.or(latest))
            }
        }
    }

    fn own_address(&mut self, vm: i32, slot: Slot, before: Option<Address>) -> Address {
        let next = Address::next_life(slot, before);
        self.own.insert((vm, slot), next);
        next
    }

    /// Whether the daemon may choose this slot, if it is free. The place of another endpoint is for
    /// its backup alone.
    pub(super) fn may_be_chosen(&self, vm: i32, slot: Slot) -> bool {
        self.kept_from_choice(vm, slot).is_none()
    }

    /// The range of another node that keeps the daemon from choosing this slot.
    fn kept_from_choice(&self, vm: i32, slot: Slot) -> Option<&ForeignRange> {
        let found = self.find(vm, slot);
        // Without a place the first look has found all.
        found.or_else(|| if self.places.is_empty() { None } else { self.range(vm, slot) })
    }

    /// The lowest free user slot from this one on that belongs to this node.
    pub(super) fn lowest_own_slot(&self, vm: &Vm, from: Slot) -> Option<Slot> {
        let mut slot = from.max(FIRST_USER_SLOT);
        while slot < vm.spec.limits.procs {
            match self.kept_from_choice(vm.id(), slot) {
                Some(range) => slot = range.last.saturating_add(1),
                None if vm.slots.contains_key(&slot) => slot += 1,
                None => return Some(slot),
            }
        }
        None
    }

    /// The last free user slot that belongs to this node, apart from this one.
    pub(super) fn last_own_slot(&self, vm: &Vm, besides: Option<Slot>) -> Option<Slot> {
        let mut slot = vm.spec.limits.procs - 1;
        while slot >= FIRST_USER_SLOT {
            match self.kept_from_choice(vm.id(), slot) {
                Some(range) => slot = range.first.saturating_sub(1),
                None if vm.slots.contains_key(&slot) || Some(slot) == besides => slot -= 1,
                None => return Some(slot),
            }
        }
        None
    }
}

/// Whether a generation is up to a quarter of the range ahead of another one: they run in a circle.
fn is_just_ahead(address: Address, than: Address) -> bool {
    let ahead = (address.generation() - than.generation()).rem_euclid(GENERATION_MAX);
    (1..GENERATION_MAX / 4).contains(&ahead)
}
