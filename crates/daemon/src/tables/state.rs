//! The journalled state of the tables, and how a [`Record`] changes it.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, NodeLimits};

use super::identity::{Member, MemberId, MemberKind};
use super::link_table::LinkTable;
use super::lookup::slot_in_range;
use super::record::{NodeTerms, Record};
use super::reservation::Reservation;
use super::vm::{Endpoint, Vm, VmSpec, VmState, user_slot_index};

/// The endpoints of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessEntry {
    pub(super) vm: i32,
    pub(super) address: Address,
    pub(super) threads: BTreeMap<i32, Address>,
    pub(super) additional: BTreeSet<Address>,
}

/// The use of one user, for comparison with the quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) vms: u32,
    pub(super) endpoints: u32,
    pub(super) links: u32,
}

/// The state that the journal can restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) nodeid: i32,
    pub(super) limits: NodeLimits,
    pub(super) terms: NodeTerms,
    pub(super) vms: BTreeMap<i32, Vm>,
    pub(super) processes: BTreeMap<i32, ProcessEntry>,
    pub(super) usage: BTreeMap<u32, Usage>,
    /// The number of the latest bind.
    pub(super) lives: u64,
}

impl State {
    pub(super) const fn new(nodeid: i32, limits: NodeLimits, terms: NodeTerms) -> Self {
        Self {
            nodeid,
            limits,
            terms,
            vms: BTreeMap::new(),
            processes: BTreeMap::new(),
            usage: BTreeMap::new(),
            lives: 0,
        }
    }

    fn charge(&mut self, uid: u32, change: impl FnOnce(&mut Usage)) {
        let usage = self.usage.entry(uid).or_default();
        change(usage);
        if *usage == Usage::default() {
            self.usage.remove(&uid);
        }
    }

    /// Applies a record. `None`: the record contradicts the state, which is then unusable.
    pub(super) fn apply(&mut self, record: &Record) -> Option<()> {
        match record {
            Record::Node { .. } => None,
            Record::VmInit(spec) => self.apply_vm_init(spec),
            Record::VmEnding(vm) => {
                self.vms.get_mut(vm)?.state = VmState::Ending;
                Some(())
            }
            Record::VmEnd(vm) => self.apply_vm_end(*vm),
            Record::Generation(id) => self.apply_generation(*id),
            Record::Bind { id, member, kind, uid, gid, nonce, life } => {
                self.apply_bind(*id, *member, *kind, (*uid, *gid), (*nonce, *life))
            }
            Record::Lives(latest) => {
                self.lives = self.lives.max(*latest);
                Some(())
            }
            Record::Unbind(id) => self.apply_unbind(*id),
            Record::Name { id, name } => {
                let vm = self.vms.get_mut(&id.vm)?;
                vm.living_mut(id.address)?.names.insert(name.clone());
                vm.names.insert(name.clone(), id.address).is_none().then_some(())
            }
            Record::Reserve { id, name, key } => {
                let reserved = &mut self.vms.get_mut(&id.vm)?.reserved;
                match key {
                    Some(key) => {
                        let reservation = Reservation { holder: id.address, key: *key };
                        reserved.insert(name.clone(), reservation);
                    }
                    None => drop(reserved.remove(name)),
                }
                Some(())
            }
            Record::Priv { id, privileges } => {
                let endpoint = self.vms.get_mut(&id.vm)?.living_mut(id.address)?;
                endpoint.privileges = privileges.clone();
                Some(())
            }
            Record::Link { requester, requester_index, peer, peer_index } => {
                self.apply_link(*requester, *requester_index, *peer, *peer_index)
            }
            Record::Unlink { id, peer } => self.apply_unlink(*id, *peer),
            Record::Area { vm, area } => {
                let vm = self.vms.get_mut(vm)?;
                vm.latest_area = vm.latest_area.or(area);
                vm.areas.insert(area.id, area.clone());
                Some(())
            }
            Record::AreaMember { vm, area, index, member } => {
                let members = &mut self.vms.get_mut(vm)?.areas.get_mut(area)?.members;
                let index = usize::from(*index);
                if index == members.len() {
                    members.push(*member);
                } else {
                    *members.get_mut(index)? = *member;
                }
                Some(())
            }
            Record::AreaClosed { vm, area } => {
                self.vms.get_mut(vm)?.areas.get_mut(area)?.closed = true;
                Some(())
            }
            Record::LatestArea { vm, latest } => {
                self.vms.get_mut(vm)?.latest_area = *latest;
                Some(())
            }
            Record::Extent { vm, area, extent } => {
                let area = self.vms.get_mut(vm)?.areas.get_mut(area)?;
                let at = area.extents.partition_point(|other| other.offset < extent.offset);
                area.extents.insert(at, *extent);
                area.grants = area.grants.wrapping_add(1);
                Some(())
            }
            Record::ExtentsGone { vm, area, offsets } => {
                let area = self.vms.get_mut(vm)?.areas.get_mut(area)?;
                area.extents.retain(|extent| offsets.binary_search(&extent.offset).is_err());
                Some(())
            }
            Record::AreaEnd { vm, area } => self.vms.get_mut(vm)?.areas.remove(area).map(drop),
        }
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

    fn apply_generation(&mut self, id: MemberId) -> Option<()> {
        let vm = self.vms.get_mut(&id.vm)?;
        let slot = id.address.slot();
        slot_in_range(&vm.spec.limits, slot).then_some(())?;
        vm.latest.insert(slot, id.address).is_none().then_some(())
    }

    fn apply_bind(
        &mut self,
        id: MemberId,
        member: Member,
        kind: MemberKind,
        (uid, gid): (u32, u32),
        (nonce, life): (Option<u64>, u64),
    ) -> Option<()> {
        let MemberId { vm: vm_id, address } = id;
        let vm = self.vms.get_mut(&vm_id)?;
        let slot = address.slot();
        slot_in_range(&vm.spec.limits, slot).then_some(())?;
        (!vm.slots.contains_key(&slot)).then_some(())?;
        match (kind, self.processes.get_mut(&member.pid)) {
            (MemberKind::Thread, Some(process)) if process.vm == vm_id => {
                process.threads.insert(member.tid?, address).is_none().then_some(())?;
            }
            (MemberKind::Additional, Some(process)) if process.vm == vm_id => {
                process.additional.insert(address).then_some(())?;
            }
            (MemberKind::Process | MemberKind::Foreign { .. }, None) => {
                let (threads, additional) = (BTreeMap::new(), BTreeSet::new());
                let process = ProcessEntry { vm: vm_id, address, threads, additional };
                self.processes.insert(member.pid, process);
            }
            (MemberKind::StandIn, _) => {}
            _ => return None,
        }
        if let Some(index) = user_slot_index(slot) {
            vm.user_slots.take(index);
            vm.count_slot(uid, true);
        }
        vm.latest.insert(slot, address);
        let endpoint = Endpoint {
            address,
            member,
            kind,
            uid,
            gid,
            nonce,
            life,
            privileges: vm.spec.privileges.clone(),
            names: BTreeSet::new(),
            links: LinkTable::default(),
        };
        vm.slots.insert(slot, endpoint);
        self.lives = self.lives.max(life);
        self.charge(uid, |usage| usage.endpoints += 1);
        Some(())
    }

    fn apply_unbind(&mut self, id: MemberId) -> Option<()> {
        let links = &self.vms.get(&id.vm)?.living(id.address)?.links;
        let peers: Vec<Address> = links.peers().map(|(peer, _)| peer).collect();
        for peer in peers {
            self.apply_unlink(id, peer)?;
        }
        let vm = self.vms.get_mut(&id.vm)?;
        let slot = id.address.slot();
        let endpoint = vm.slots.remove(&slot)?;
        for name in &endpoint.names {
            vm.names.remove(name);
        }
        vm.reserved.retain(|_name, reserved| reserved.holder != id.address);
        if let Some(index) = user_slot_index(slot) {
            vm.user_slots.release(index);
            vm.count_slot(endpoint.uid, false);
        }
        let pid = endpoint.member.pid;
        match endpoint.kind {
            MemberKind::Thread => {
                self.processes.get_mut(&pid)?.threads.remove(&endpoint.member.tid?)?;
            }
            MemberKind::Additional => {
                self.processes.get_mut(&pid)?.additional.remove(&id.address).then_some(())?;
            }
            MemberKind::Process | MemberKind::Foreign { .. } => {
                let process = self.processes.remove(&pid)?;
                (process.threads.is_empty() && process.additional.is_empty()).then_some(())?;
            }
            MemberKind::StandIn => {}
        }
        self.charge(endpoint.uid, |usage| usage.endpoints -= 1);
        Some(())
    }

    fn apply_link(
        &mut self,
        requester: MemberId,
        requester_index: u32,
        peer: Address,
        peer_index: u32,
    ) -> Option<()> {
        (requester.address != peer).then_some(())?;
        let vm = self.vms.get_mut(&requester.vm)?;
        vm.living(peer)?;
        let endpoint = vm.living_mut(requester.address)?;
        endpoint.links.add(peer, requester_index, true)?;
        let payer = endpoint.uid;
        vm.living_mut(peer)?.links.add(requester.address, peer_index, false)?;
        self.charge(payer, |usage| usage.links += 1);
        Some(())
    }

    fn apply_unlink(&mut self, id: MemberId, peer: Address) -> Option<()> {
        let vm = self.vms.get_mut(&id.vm)?;
        let endpoint = vm.living_mut(id.address)?;
        let (uid, pays) = (endpoint.uid, endpoint.links.remove(peer)?.pays);
        let other = vm.living_mut(peer)?;
        other.links.remove(id.address)?;
        let payer = if pays { uid } else { other.uid };
        self.charge(payer, |usage| usage.links -= 1);
        Some(())
    }
}
