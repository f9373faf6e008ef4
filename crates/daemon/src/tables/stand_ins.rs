//! Stand-ins: endpoints of a proxy, in place of endpoints of other nodes.

use m3ipc_abi::{Address, Slot};
use m3ipc_wire::{ForeignRange, OtherSlots, SlotPlace};

use super::bind::Bound;
use super::error::{BindError, PlaceError};
use super::foreign::{Foreign, Lives, Place};
use super::identity::{Credentials, Member, MemberId, MemberKind};
use super::lookup::slot_in_range;
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;
use super::vm::Vm;

impl Node {
    /// Takes the slots of other nodes in place of the former ones. The endpoints that it returns
    /// are backups of an earlier daemon, which nobody knows any more: end them.
    ///
    /// The same proxy says no more than before of slots with a backup. A new one knows only those
    /// of the backups that it hears of, which are attached.
    ///
    /// # Errors
    /// The local endpoint that has one of them; nothing changes then.
    pub fn set_foreign(
        &mut self,
        slots: OtherSlots,
        is_new_proxy: bool,
        is_attached: impl Fn(MemberId) -> bool,
    ) -> Result<Vec<MemberId>, (MemberId, String)> {
        let foreign = Foreign::new(slots, &self.foreign, |(vm, slot), place| match place {
            Place::Here(_) => {
                !is_new_proxy || self.local_endpoint(vm, slot).is_some_and(&is_attached)
            }
            Place::There(_) => !is_new_proxy,
        });
        let mut left_over = Vec::new();
        for id in self.own_endpoints() {
            let slot = id.address.slot();
            match foreign.find(id.vm, slot) {
                Some(_) if foreign.is_backed(id.vm, slot) => left_over.push(id),
                Some(range) => return Err((id, range.node.clone())),
                None => {}
            }
        }
        self.foreign = foreign;
        Ok(left_over)
    }

    /// The proxy has left, and with it the proof that a place without an endpoint is free.
    pub fn proxy_left(&mut self) {
        let mut foreign = std::mem::take(&mut self.foreign);
        foreign.proxy_left(|(vm, slot)| self.local_endpoint(vm, slot).is_some());
        self.foreign = foreign;
    }

    /// The endpoint of this node itself that has a slot.
    #[must_use]
    pub fn local_endpoint(&self, vm: i32, slot: Slot) -> Option<MemberId> {
        let endpoint = self.vm(vm).ok()?.slots.get(&slot)?;
        let is_own = endpoint.kind != MemberKind::StandIn;
        is_own.then_some(MemberId::new(vm, endpoint.address))
    }

    /// Puts a slot with a backup at a node. Returns the endpoint that has the slot and must end,
    /// and the tickets that this completes.
    ///
    /// # Errors
    /// The slot has no backup; a local endpoint has it, and it was to go back.
    pub fn place(
        &mut self,
        (vm, slot): (i32, Slot),
        place: SlotPlace,
    ) -> Result<(Option<MemberId>, Vec<TicketId>), PlaceError> {
        // A third node learns which of two others has the slot.
        let is_among_others = !matches!(place, SlotPlace::Here(_))
            && self.foreign.find(vm, slot).is_some()
            && self.local_endpoint(vm, slot).is_none();
        if !self.foreign.is_backed(vm, slot) && !is_among_others {
            return Err(PlaceError::NoBackup(slot, vm));
        }
        let local = self.local_endpoint(vm, slot);
        let there = |node| Place::There(ForeignRange { vm, first: slot, last: slot, node });
        match place {
            SlotPlace::Here(address) => {
                let address = address.map(Address);
                if address.is_some_and(|it| it.is_reserved() || it.slot() != slot) {
                    return Err(PlaceError::Address(slot));
                }
                let is_home = !self.foreign.is_of_backup(vm, slot);
                let address = address.filter(|it| !is_home || self.foreign.may_come_back(vm, *it));
                self.foreign.place(vm, slot, Place::Here(Lives::None(address)));
                let all = self.stand_ins().into_iter();
                let stand_in = all.filter(|it| it.vm == vm).find(|it| it.address.slot() == slot);
                // The place of one that was lost has no stand-in any more.
                let arriving = address.filter(|_| stand_in.is_some() || is_home);
                self.foreign.arrives(vm, slot, arriving);
                Ok((stand_in, self.tickets.on_place(MemberId::new(vm, Address(slot)))))
            }
            SlotPlace::There(node) => {
                self.leaves(local);
                self.foreign.place(vm, slot, there(node));
                self.foreign.arrives(vm, slot, None);
                Ok((local, Vec::new()))
            }
            SlotPlace::Moved { address, node } => {
                let moving = local.filter(|id| id.address.0 == address);
                let moving = moving.ok_or(PlaceError::Gone(slot))?;
                self.leaves(local);
                self.foreign.place(vm, slot, there(node));
                self.foreign.arrives(vm, slot, Some(moving.address));
                Ok((Some(moving), Vec::new()))
            }
            SlotPlace::Back(_) if local.is_some() => Err(PlaceError::Used(slot)),
            SlotPlace::Back(node) => {
                self.foreign.place(vm, slot, there(node));
                self.foreign.arrives(vm, slot, None);
                Ok((None, Vec::new()))
            }
        }
    }

    /// Notes an endpoint that leaves its slot to one of another node.
    fn leaves(&mut self, local: Option<MemberId>) {
        if let Some(id) = local
            && let Some(uid) = self.endpoint(id).map(|endpoint| endpoint.uid)
        {
            self.foreign.leaves(id.vm, id.address, uid);
        }
    }

    /// Binds a stand-in with the address that its endpoint has on its own node.
    ///
    /// # Errors
    /// VM id -302; VM not running -303; slot range -34; a slot of this node -309; slot taken -337.
    pub fn bind_stand_in(
        &mut self,
        id: MemberId,
        member: Member,
        cred: &Credentials,
    ) -> Result<Bound, BindError> {
        let MemberId { vm, address } = id;
        let (table, slot) = (self.running(vm)?, address.slot());
        if address.is_reserved() || !slot_in_range(&table.spec.limits, slot) {
            return Err(BindError::Range(slot));
        }
        if self.foreign.find(vm, slot).is_none() {
            return Err(BindError::NotForeign(slot, vm));
        }
        if table.slots.contains_key(&slot) {
            return Err(BindError::Taken(slot));
        }
        let kind = MemberKind::StandIn;
        self.foreign.arrives(vm, slot, None);
        let (uid, gid, life) = (cred.uid, cred.gid, self.next_life());
        self.commit(Record::Bind { id, member, kind, uid, gid, nonce: None, life });
        Ok(Bound { address, tickets: self.tickets.on_bind(id, member, kind) })
    }

    /// Whether an endpoint of this address has left a node and is to be bound soon, here or there.
    #[must_use]
    pub fn is_arriving(&self, id: MemberId) -> bool {
        self.foreign.arriving(id.vm, id.address.slot()) == Some(id.address)
    }

    /// Whether another node may have the slot of an endpoint of this one.
    #[must_use]
    pub fn has_backup(&self, id: MemberId) -> bool {
        self.foreign.is_backed(id.vm, id.address.slot())
    }

    /// All stand-ins.
    #[must_use]
    pub fn stand_ins(&self) -> Vec<MemberId> {
        let all = self.vms().flat_map(|vm| vm.slots.values().map(|it| (vm.id(), it)));
        let stand_ins = all.filter(|(_, it)| it.kind == MemberKind::StandIn);
        stand_ins.map(|(vm, it)| MemberId::new(vm, it.address)).collect()
    }

    /// All endpoints of this node itself.
    pub fn own_endpoints(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.vms().flat_map(|vm| {
            let own = vm.slots.values().filter(|it| it.kind != MemberKind::StandIn);
            own.map(|it| MemberId::new(vm.id(), it.address))
        })
    }

    /// Whether this endpoint is a stand-in.
    #[must_use]
    pub fn is_stand_in(&self, id: MemberId) -> bool {
        self.endpoint(id).is_some_and(|endpoint| endpoint.kind == MemberKind::StandIn)
    }

    /// Whether another node has slots of a VM.
    #[must_use]
    pub fn has_slots_of(&self, vm: i32, node: &str) -> bool {
        self.foreign.ranges.iter().any(|range| range.vm == vm && range.node == node)
    }

    /// The VMs.
    #[must_use]
    pub fn vm_ids(&self) -> Vec<i32> {
        self.vms().map(Vm::id).collect()
    }

    /// The node that has a slot, if it is another one.
    #[must_use]
    pub fn node_of(&self, vm: i32, address: Address) -> Option<&str> {
        self.foreign.find(vm, address.slot()).map(|range| range.node.as_str())
    }
}
