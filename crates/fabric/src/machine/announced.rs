//! The endpoints that other nodes announce. A node is believed about its own slots, and about those
//! whose backup it is, under the rules of `places`.

use m3ipc_abi::Slot;

use super::action::Action;
use super::departures::Departure;
use super::{Machine, RuleBroken};
use crate::ids::{EndpointId, NodeId, VmId};
use crate::owners::Owners;

fn slot_of(endpoint: EndpointId) -> (VmId, Slot) {
    (endpoint.vm, endpoint.address.slot())
}

impl Machine {
    /// Slots were claimed. No slot has another owner than before.
    ///
    /// The driver reports its living endpoints anew with [`Machine::bound`].
    pub fn set_owners(&mut self, owners: Owners) {
        self.own.claims = owners.of_node(self.own.node).collect();
        self.owners = owners.with_held_of(&self.owners);
        self.early.all().into_iter().for_each(|(node, slot)| self.settle_early(node, slot));
    }

    /// Takes up what a node announced of a slot ahead of what makes it right.
    pub(super) fn settle_early(&mut self, node: NodeId, slot: (VmId, Slot)) {
        let is_right = self.owners.owner(EndpointId::any_of(slot)) == Some(node)
            && !self.may_join(slot.0)
            && self.has_early(node, slot);
        let early = is_right.then(|| self.early.take(node, slot)).flatten();
        let Some((address, names)) = early else { return };
        let endpoint = EndpointId::new(slot.0, address);
        // An earlier endpoint with this address may have died here a moment ago.
        self.answers_are_over(endpoint);
        // Its node is a peer, and this node has slots of the VM: neither rule is broken.
        let _ = self.bound_there(node, endpoint);
        let names = names.into_iter().map(|name| Action::Named { endpoint, name });
        self.actions.extend(names);
    }

    /// Whether a node says that it has an endpoint in a slot, which has not moved since.
    pub(super) fn has_early(&self, node: NodeId, slot: (VmId, Slot)) -> bool {
        let departure = self.early.departure(node, slot);
        departure.is_some_and(|it| !self.departures.has_passed((node, slot), it, self.now_ns))
    }

    /// A node says that it has bound an endpoint.
    pub(super) fn bind_told(
        &mut self,
        node: NodeId,
        endpoint: EndpointId,
        (moves, after): (u32, Option<Departure>),
    ) -> Result<(), RuleBroken> {
        let is_of = self.is_of(node, endpoint)?;
        let departure = (self.incarnation_of(node), moves);
        let has_passed = self.note_departures((node, endpoint), departure, after);
        if is_of && !has_passed && !self.may_join(endpoint.vm) {
            self.answers_are_over(endpoint);
            return self.bound_there(node, endpoint);
        }
        self.early.add(node, endpoint, departure);
        self.settle_place(slot_of(endpoint));
        Ok(())
    }

    /// A node says that an endpoint has died, or that it has none in a slot with a backup.
    pub(super) fn death_told(&mut self, node: NodeId, endpoint: EndpointId) {
        self.early.died(node, endpoint);
        // A node whose registry is older than the other's hears of slots that it does not know.
        if self.is_of(node, endpoint).unwrap_or(false) {
            self.died_there(node, endpoint);
            self.place_left_there(node, slot_of(endpoint));
        }
    }

    /// Whether a node has the slot of an endpoint that it calls its own. If not, then its claim may
    /// be on the way, or this node knows another holder.
    pub(super) fn is_of(&self, node: NodeId, endpoint: EndpointId) -> Result<bool, RuleBroken> {
        match self.owners.owner(endpoint) {
            Some(owner) if owner == node => Ok(true),
            None if self.owners.may_be_claimed(endpoint) => Ok(false),
            _ if self.may_hold(node, endpoint) => Ok(false),
            _ => Err(RuleBroken),
        }
    }

    /// Whether this node has no slots of a VM, and a claim of some may be on the way.
    pub(super) fn may_join(&self, vm: VmId) -> bool {
        self.owners.is_growing() && !self.shares_vm(self.own.node, vm)
    }

    /// A node announces an endpoint. A slot has one endpoint at a time.
    fn bound_there(&mut self, node: NodeId, endpoint: EndpointId) -> Result<(), RuleBroken> {
        if !self.shares_vm(self.own.node, endpoint.vm) {
            return Err(RuleBroken);
        }
        let slot = slot_of(endpoint);
        let peer = self.peers.get_mut(&node).ok_or(RuleBroken)?;
        self.changes.stays(slot);
        match peer.announced.insert(slot, endpoint.address) {
            Some(known) if known == endpoint.address => return Ok(()),
            Some(known) => {
                let endpoint = EndpointId::new(endpoint.vm, known);
                self.actions.push_back(Action::Died { endpoint });
            }
            None => {}
        }
        self.actions.push_back(Action::Bound { endpoint });
        Ok(())
    }

    fn died_there(&mut self, node: NodeId, endpoint: EndpointId) {
        let slot = slot_of(endpoint);
        if let Some(peer) = self.peers.get_mut(&node)
            && peer.announced.get(&slot) == Some(&endpoint.address)
        {
            peer.announced.remove(&slot);
        }
        // Also of one that was never announced: the answer to a watch.
        self.death_arrived(endpoint);
    }
}
