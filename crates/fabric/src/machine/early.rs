//! Endpoints that are announced ahead of what makes them right: the claim of their slot, or the end
//! of the other node that has it. Memory per node is bounded.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, Slot};

use super::departures::Departure;
use crate::ids::{EndpointId, NodeId, VmId};

/// Most endpoints that a node may announce ahead of what makes them right.
const EARLY_MAX_OF_NODE: usize = 4096;
/// Most names that such an endpoint may have.
const EARLY_NAMES_MAX: usize = 64;

/// An endpoint that its node announced ahead of the claim of its slot, or while another node has
/// the slot.
#[derive(Debug)]
struct Early {
    address: Address,
    departure: Departure,
    names: BTreeSet<String>,
}

/// Those of all nodes: one for each node and slot.
#[derive(Debug, Default)]
pub(super) struct EarlyBinds(BTreeMap<NodeId, BTreeMap<(VmId, Slot), Early>>);

fn slot_of(endpoint: EndpointId) -> (VmId, Slot) {
    (endpoint.vm, endpoint.address.slot())
}

impl EarlyBinds {
    /// A node announces an endpoint. The earlier one of the slot has ended.
    pub(super) fn add(&mut self, node: NodeId, endpoint: EndpointId, last: Departure) {
        let of_node = self.0.entry(node).or_default();
        if of_node.len() >= EARLY_MAX_OF_NODE && !of_node.contains_key(&slot_of(endpoint)) {
            return;
        }
        let Early { address, departure, names } =
            of_node.entry(slot_of(endpoint)).or_insert(Early {
                address: endpoint.address,
                departure: last,
                names: BTreeSet::new(),
            });
        *departure = last;
        if *address != endpoint.address {
            (*address, *names) = (endpoint.address, BTreeSet::new());
        }
    }

    /// It has a name.
    pub(super) fn name(&mut self, node: NodeId, endpoint: EndpointId, name: &str) {
        let of_node = self.0.get_mut(&node);
        let early = of_node.and_then(|it| it.get_mut(&slot_of(endpoint)));
        if let Some(early) = early.filter(|it| it.address == endpoint.address)
            && early.names.len() < EARLY_NAMES_MAX
        {
            early.names.insert(name.to_owned());
        }
    }

    /// The last move from a node when it said that it has an endpoint in a slot.
    pub(super) fn departure(&self, node: NodeId, slot: (VmId, Slot)) -> Option<Departure> {
        Some(self.0.get(&node)?.get(&slot)?.departure)
    }

    /// Takes the endpoint that a node says to have in a slot, and its names.
    pub(super) fn take(
        &mut self,
        node: NodeId,
        slot: (VmId, Slot),
    ) -> Option<(Address, BTreeSet<String>)> {
        let Early { address, names, .. } = self.0.get_mut(&node)?.remove(&slot)?;
        Some((address, names))
    }

    /// It has ended.
    pub(super) fn died(&mut self, node: NodeId, endpoint: EndpointId) {
        if let Some(of_node) = self.0.get_mut(&node)
            && of_node.get(&slot_of(endpoint)).is_some_and(|it| it.address == endpoint.address)
        {
            of_node.remove(&slot_of(endpoint));
        }
    }

    /// A node is lost.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn all(&self) -> Vec<(NodeId, (VmId, Slot))> {
        let all = self.0.iter();
        all.flat_map(|(node, slots)| slots.keys().map(|slot| (*node, *slot))).collect()
    }

    #[cfg(test)]
    pub(super) fn of_node(&self, node: NodeId) -> usize {
        self.0.get(&node).map_or(0, BTreeMap::len)
    }
}
