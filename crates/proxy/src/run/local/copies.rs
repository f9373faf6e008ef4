//! The stand-ins, as the copies see them.

use super::super::copy::StandIns;
use super::super::network::Clock;
use super::Local;
use m3ipc::nodes::StandIn;
use m3ipc_fabric::{Action, EndpointId, Machine, NodeId};

impl StandIns for Local {
    fn node_of(&self, id: EndpointId) -> Option<NodeId> {
        self.owners.owner(id)
    }

    fn ids(&self) -> Vec<EndpointId> {
        self.stand_ins.keys().copied().collect()
    }

    fn look_at(&self, id: EndpointId) -> Option<&StandIn> {
        self.stand_ins.get(&id).map(|entry| &entry.stand_in)
    }

    fn get(&mut self, id: EndpointId) -> Option<&mut StandIn> {
        self.stand_ins.get_mut(&id).map(|entry| &mut entry.stand_in)
    }

    fn make(&mut self, id: EndpointId) -> Option<&mut StandIn> {
        self.turn(id);
        self.get(id)
    }
}

impl Local {
    pub(super) fn step_copies(&mut self, machine: &mut Machine, clock: &Clock) -> bool {
        let mut copies = std::mem::take(&mut self.copies);
        let moved = copies.step(self, machine, clock);
        self.copies = copies;
        moved
    }

    /// A local endpoint has ended, and with it the copies that it asked for.
    pub(super) fn end_copies_of(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        let mut copies = std::mem::take(&mut self.copies);
        copies.requester_ended(id, self, machine, clock);
        self.copies = copies;
    }

    /// Carries out what the machine has decided about a copy. Any other action comes back.
    pub fn carry_out_copy(
        &mut self,
        action: Action,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Option<Action> {
        let mut copies = std::mem::take(&mut self.copies);
        let other = copies.carry_out(action, self, machine, clock);
        self.copies = copies;
        other
    }
}
