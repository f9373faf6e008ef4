//! Records: the only way the tables ever change.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, NodeLimits};
use serde::{Deserialize, Serialize};

use super::areas::Area;
use super::foreign;
use super::identity::{Member, MemberId, MemberKind};
use super::links::Links;
use super::lookup::slot_in_range;
use super::privileges::Privileges;
use super::vm::{Endpoint, Vm, VmSpec, VmState, user_number};

/// One change of the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The node began: always the first record.
    Node {
        /// Its id.
        nodeid: i32,
        /// Its limits.
        #[serde(with = "foreign::NodeLimitsForm")]
        limits: NodeLimits,
    },
    /// A VM began; `spec.id` and `spec.nodes` are filled in.
    VmInit(VmSpec),
    /// A VM was told to end.
    VmEnding(i32),
    /// A VM is gone, with all that was in it.
    VmEnd(i32),
    /// This is the latest address of its slot, whose holder is dead (in snapshots).
    Generation(MemberId),
    /// An endpoint was bound.
    Bind {
        /// Where.
        place: MemberId,
        /// Who.
        member: Member,
        /// How.
        kind: MemberKind,
        /// The member's user id.
        uid: u32,
        /// The member's group id.
        gid: u32,
    },
    /// The daemon knows a member by a new token.
    Token {
        /// The endpoint.
        place: MemberId,
        /// The new token.
        token: u64,
    },
    /// An endpoint died, and with it its names, privileges and links.
    Unbind(MemberId),
    /// A name was attached.
    Name {
        /// To whom.
        place: MemberId,
        /// The name.
        name: String,
    },
    /// Privileges were set.
    Priv {
        /// Whose.
        place: MemberId,
        /// All of them.
        privileges: Privileges,
    },
    /// A link was made.
    Link {
        /// Who asked for it, and whose owner's quota pays.
        asker: MemberId,
        /// Its index at the asker.
        asker_index: u32,
        /// The other party.
        #[serde(with = "foreign::address")]
        peer: Address,
        /// Its index at the other party.
        peer_index: u32,
    },
    /// An area began or changed: this is what it is now.
    Area {
        /// Its VM.
        vm: i32,
        /// All of it.
        area: Area,
    },
    /// An area is gone with its last member.
    AreaEnd {
        /// Its VM.
        vm: i32,
        /// Its number.
        id: u32,
    },
    /// A link was given back before either party died.
    Unlink {
        /// One party.
        place: MemberId,
        /// The other.
        #[serde(with = "foreign::address")]
        peer: Address,
    },
}

/// Where a process lives, and its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) vm: i32,
    pub(super) address: Address,
    pub(super) threads: BTreeMap<i32, Address>,
}

/// What a user has, to be held against the quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) vms: u32,
    pub(super) endpoints: u32,
    pub(super) links: u32,
}

/// All that the journal can restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) nodeid: i32,
    pub(super) limits: NodeLimits,
    pub(super) vms: BTreeMap<i32, Vm>,
    pub(super) homes: BTreeMap<i32, Home>,
    pub(super) usage: BTreeMap<u32, Usage>,
}

impl Tables {
    pub(super) const fn new(nodeid: i32, limits: NodeLimits) -> Self {
        Self {
            nodeid,
            limits,
            vms: BTreeMap::new(),
            homes: BTreeMap::new(),
            usage: BTreeMap::new(),
        }
    }

    pub(super) fn charge(&mut self, uid: u32, change: impl FnOnce(&mut Usage)) {
        let usage = self.usage.entry(uid).or_default();
        change(usage);
        if *usage == Usage::default() {
            self.usage.remove(&uid);
        }
    }

    /// Applies a record; `None` where it contradicts the tables, which then
    /// are not to be used any more.
    pub(super) fn apply(&mut self, record: &Record) -> Option<()> {
        match record {
            Record::Node { .. } => None,
            Record::VmInit(spec) => self.apply_vm_init(spec),
            Record::VmEnding(vm) => {
                self.vms.get_mut(vm)?.state = VmState::Ending;
                Some(())
            }
            Record::VmEnd(vm) => self.apply_vm_end(*vm),
            Record::Generation(place) => self.apply_generation(*place),
            Record::Bind { place, member, kind, uid, gid } => {
                self.apply_bind(*place, *member, *kind, (*uid, *gid))
            }
            Record::Token { place, token } => {
                self.endpoint_mut(*place)?.member.token = *token;
                Some(())
            }
            Record::Unbind(place) => self.apply_unbind(*place),
            Record::Name { place, name } => {
                let vm = self.vms.get_mut(&place.vm)?;
                vm.living_mut(place.address)?.names.insert(name.clone());
                vm.names.insert(name.clone(), place.address).is_none().then_some(())
            }
            Record::Priv { place, privileges } => {
                self.endpoint_mut(*place)?.privileges = privileges.clone();
                Some(())
            }
            Record::Link { asker, asker_index, peer, peer_index } => {
                self.apply_link(*asker, *asker_index, *peer, *peer_index)
            }
            Record::Unlink { place, peer } => self.apply_unlink(*place, *peer),
            Record::Area { vm, area } => {
                self.vms.get_mut(vm)?.areas.insert(area.id, area.clone());
                Some(())
            }
            Record::AreaEnd { vm, id } => self.vms.get_mut(vm)?.areas.remove(id).map(drop),
        }
    }

    fn endpoint_mut(&mut self, place: MemberId) -> Option<&mut Endpoint> {
        self.vms.get_mut(&place.vm)?.living_mut(place.address)
    }

    fn apply_vm_init(&mut self, spec: &VmSpec) -> Option<()> {
        let id = spec.id?;
        self.charge(spec.owner_uid, |usage| usage.vms += 1);
        self.vms.insert(id, Vm::new(id, spec.clone())).is_none().then_some(())
    }

    fn apply_vm_end(&mut self, id: i32) -> Option<()> {
        let vm = self.vms.get(&id)?;
        vm.slots.is_empty().then_some(())?;
        let owner = vm.spec.owner_uid;
        self.vms.remove(&id);
        self.charge(owner, |usage| usage.vms -= 1);
        Some(())
    }

    fn apply_generation(&mut self, place: MemberId) -> Option<()> {
        let vm = self.vms.get_mut(&place.vm)?;
        let slot = place.address.slot();
        slot_in_range(&vm.spec.limits, slot).then_some(())?;
        vm.latest.insert(slot, place.address).is_none().then_some(())
    }

    fn apply_bind(
        &mut self,
        place: MemberId,
        member: Member,
        kind: MemberKind,
        (uid, gid): (u32, u32),
    ) -> Option<()> {
        let MemberId { vm: id, address } = place;
        let vm = self.vms.get_mut(&id)?;
        let slot = address.slot();
        slot_in_range(&vm.spec.limits, slot).then_some(())?;
        (!vm.slots.contains_key(&slot)).then_some(())?;
        match (kind, self.homes.get_mut(&member.pid)) {
            (MemberKind::Thread, Some(home)) if home.vm == id => {
                home.threads.insert(member.tid?, address).is_none().then_some(())?;
            }
            (MemberKind::Process | MemberKind::Foreign { .. }, None) => {
                self.homes.insert(member.pid, Home { vm: id, address, threads: BTreeMap::new() });
            }
            _ => return None,
        }
        if let Some(number) = user_number(slot) {
            vm.user_slots.take(number);
        }
        vm.latest.insert(slot, address);
        let privileges = vm.spec.privileges.clone();
        let names = BTreeSet::new();
        let links = Links::default();
        vm.slots
            .insert(slot, Endpoint { address, member, kind, uid, gid, privileges, names, links });
        self.charge(uid, |usage| usage.endpoints += 1);
        Some(())
    }

    fn apply_unbind(&mut self, place: MemberId) -> Option<()> {
        let peers = self.vms.get(&place.vm)?.living(place.address)?.links.peers();
        for peer in peers {
            self.apply_unlink(place, peer.address)?;
        }
        let vm = self.vms.get_mut(&place.vm)?;
        let slot = place.address.slot();
        let endpoint = vm.slots.remove(&slot)?;
        for name in &endpoint.names {
            vm.names.remove(name);
        }
        if let Some(number) = user_number(slot) {
            vm.user_slots.give_back(number);
        }
        let pid = endpoint.member.pid;
        match endpoint.kind {
            MemberKind::Thread => {
                drop(self.homes.get_mut(&pid)?.threads.remove(&endpoint.member.tid?))
            }
            MemberKind::Process | MemberKind::Foreign { .. } => {
                self.homes.remove(&pid)?.threads.is_empty().then_some(())?;
            }
        }
        self.charge(endpoint.uid, |usage| usage.endpoints -= 1);
        Some(())
    }

    fn apply_link(
        &mut self,
        asker: MemberId,
        asker_index: u32,
        peer: Address,
        peer_index: u32,
    ) -> Option<()> {
        (asker.address != peer).then_some(())?;
        let vm = self.vms.get_mut(&asker.vm)?;
        vm.living(peer)?;
        let endpoint = vm.living_mut(asker.address)?;
        endpoint.links.add(peer, asker_index, true)?;
        let payer = endpoint.uid;
        vm.living_mut(peer)?.links.add(asker.address, peer_index, false)?;
        self.charge(payer, |usage| usage.links += 1);
        Some(())
    }

    fn apply_unlink(&mut self, place: MemberId, peer: Address) -> Option<()> {
        let vm = self.vms.get_mut(&place.vm)?;
        let one = vm.living_mut(place.address)?;
        let (one_uid, one_pays) = (one.uid, one.links.remove(peer)?.pays);
        let other = vm.living_mut(peer)?;
        other.links.remove(place.address)?;
        let payer = if one_pays { one_uid } else { other.uid };
        self.charge(payer, |usage| usage.links -= 1);
        Some(())
    }
}
