//! Notifications of remote endpoints that have no stand-in yet.
//!
//! A notification that a call accepted arrives, also where its sender has ended meanwhile. So the
//! death of such an endpoint waits, and so does the next endpoint of its slot, until the daemon has
//! bound the stand-in or refuses it.

use super::super::network::Clock;
use super::super::wanted::Turn;
use super::Local;
use super::places::slot_of;
use m3ipc::Address;
use m3ipc_fabric::{EndpointId, Machine, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Notifications of one node that wait. Later ones are lost: no node can fill this memory.
const OF_NODE_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct LateNotifications {
    of_nodes: BTreeMap<NodeId, BTreeMap<(EndpointId, Address), u64>>,
    /// Their senders that have died, in order.
    dead: VecDeque<EndpointId>,
}

impl LateNotifications {
    fn add(&mut self, node: NodeId, pair: (EndpointId, Address), bits: u64) {
        let of_node = self.of_nodes.entry(node).or_default();
        if of_node.len() < OF_NODE_MAX || of_node.contains_key(&pair) {
            *of_node.entry(pair).or_default() |= bits;
        }
    }

    fn has(&self, from: EndpointId) -> bool {
        self.of_nodes.values().any(|it| it.keys().any(|(other, _)| *other == from))
    }

    fn senders(&self) -> Vec<EndpointId> {
        let pairs = self.of_nodes.values().flat_map(BTreeMap::keys);
        let mut senders: Vec<EndpointId> = pairs.map(|(from, _)| *from).collect();
        senders.dedup();
        senders
    }

    fn take(&mut self, from: EndpointId) -> Vec<(Address, u64)> {
        let mut taken = Vec::new();
        self.of_nodes.retain(|_, of_node| {
            of_node.retain(|(other, to), bits| {
                let stays = *other != from;
                if !stays {
                    taken.push((*to, *bits));
                }
                stays
            });
            !of_node.is_empty()
        });
        taken
    }

    /// Whether an earlier endpoint of the slot is still to be bound.
    pub(super) fn delays(&self, id: EndpointId) -> bool {
        self.dead.iter().any(|it| *it != id && slot_of(*it) == slot_of(id))
    }
}

impl Local {
    /// Notifies a local endpoint in the name of a remote one.
    pub fn notify(&mut self, from: EndpointId, to: Address, argument: u64) {
        let Some(node) = self.owners.owner(from) else { return };
        self.late_notifications.add(node, (from, to), argument);
        self.notify_late(from);
    }

    /// Sends the notifications of an endpoint on if it has its stand-in. Whether none waits then.
    fn notify_late(&mut self, from: EndpointId) -> bool {
        if self.turn(from) == Turn::Later {
            return false;
        }
        let waiting = self.late_notifications.take(from);
        if let Some(entry) = self.stand_ins.get_mut(&from) {
            for (to, bits) in waiting {
                // The receiver may have died meanwhile.
                let _ = entry.stand_in.notify(to, bits);
            }
        }
        true
    }

    /// Whether the death of an endpoint must wait for its notifications.
    pub(super) fn postpones_death(&mut self, id: EndpointId) -> bool {
        let waits = self.late_notifications.has(id) && !self.notify_late(id);
        if waits && !self.late_notifications.dead.contains(&id) {
            self.late_notifications.dead.push_back(id);
        }
        waits
    }

    /// Goes on with the notifications and deaths that wait.
    pub(super) fn step_late_notifications(&mut self, machine: &mut Machine, clock: &Clock) {
        for from in self.late_notifications.senders() {
            self.notify_late(from);
        }
        for id in std::mem::take(&mut self.late_notifications.dead) {
            self.remote_died(id, machine, clock);
        }
    }
}
