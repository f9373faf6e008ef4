//! Stand-ins: endpoints of a proxy, in place of endpoints of other nodes.

use m3ipc_abi::Address;
use m3ipc_wire::ForeignRange;

use super::bind::Bound;
use super::error::BindError;
use super::foreign::Foreign;
use super::identity::{Credentials, Member, MemberId, MemberKind};
use super::lookup::slot_in_range;
use super::node::Node;
use super::record::Record;
use super::vm::Vm;

impl Node {
    /// Takes the slots of other nodes in place of the former ones.
    ///
    /// # Errors
    /// The local endpoint that has one of them; nothing changes then.
    pub fn set_foreign(&mut self, ranges: Vec<ForeignRange>) -> Result<(), (MemberId, String)> {
        let foreign = Foreign { ranges };
        for vm in self.vms() {
            let own = vm.slots.values().filter(|it| it.kind != MemberKind::StandIn);
            for address in own.map(|endpoint| endpoint.address) {
                if let Some(range) = foreign.find(vm.id(), address.slot()) {
                    return Err((MemberId::new(vm.id(), address), range.node.clone()));
                }
            }
        }
        self.foreign = foreign;
        Ok(())
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
        self.commit(Record::Bind { id, member, kind, uid: cred.uid, gid: cred.gid, nonce: None });
        Ok(Bound { address, tickets: self.tickets.on_bind(id, member, kind) })
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
