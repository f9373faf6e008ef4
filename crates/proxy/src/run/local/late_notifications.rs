//! Notifications that wait: for the machine, or for the stand-in of a remote sender.
//!
//! A notification that a call accepted arrives, also where its sender has ended meanwhile. So the
//! death of a sender without a stand-in waits, and so does the next endpoint of its slot, until the
//! daemon has bound the stand-in or refuses it.

use m3ipc::Address;
use m3ipc_fabric::{CallRefusal, EndpointId, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Notifications of one node that wait. Later ones are lost: no node can fill this memory.
const OF_NODE_MAX: usize = 1024;
/// How long one waits: its VM may have ended here, or the daemon may refuse the stand-in.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Waiting {
    bits: u64,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct LateNotifications {
    of_nodes: BTreeMap<NodeId, BTreeMap<(EndpointId, Address), Waiting>>,
    /// Their senders that have died, in order.
    dead: VecDeque<EndpointId>,
}

impl LateNotifications {
    pub(super) fn add(&mut self, node: NodeId, pair: (EndpointId, Address), bits: u64) {
        let of_node = self.of_nodes.entry(node).or_default();
        if of_node.len() < OF_NODE_MAX || of_node.contains_key(&pair) {
            let until = Instant::now() + WAIT;
            of_node.entry(pair).or_insert(Waiting { bits: 0, until }).bits |= bits;
        }
    }

    pub(super) fn has(&self, from: EndpointId) -> bool {
        self.of_nodes.values().any(|it| it.keys().any(|(other, _)| *other == from))
    }

    /// The senders of those that wait. Those whose time is over are lost.
    pub(super) fn senders(&mut self, now: Instant) -> Vec<EndpointId> {
        self.of_nodes.values_mut().for_each(|it| it.retain(|_, waiting| waiting.until > now));
        let pairs = self.of_nodes.values().flat_map(BTreeMap::keys);
        let mut senders: Vec<EndpointId> = pairs.map(|(from, _)| *from).collect();
        senders.dedup();
        senders
    }

    pub(super) fn take(&mut self, from: EndpointId) -> Vec<(Address, u64)> {
        let mut taken = Vec::new();
        self.of_nodes.retain(|_, of_node| {
            of_node.retain(|(other, to), waiting| {
                let stays = *other != from;
                if !stays {
                    taken.push((*to, waiting.bits));
                }
                stays
            });
            !of_node.is_empty()
        });
        taken
    }

    /// The death of this sender waits.
    pub(super) fn postpone_death(&mut self, from: EndpointId) {
        if !self.dead.contains(&from) {
            self.dead.push_back(from);
        }
    }

    /// The senders whose deaths wait, in order. None waits then.
    pub(super) fn take_dead(&mut self) -> VecDeque<EndpointId> {
        std::mem::take(&mut self.dead)
    }

    /// Whether an earlier endpoint of the slot is still to be bound.
    pub(super) fn delays(&self, id: EndpointId) -> bool {
        let slot_of = |id: EndpointId| (id.vm, id.address.slot());
        self.dead.iter().any(|it| *it != id && slot_of(*it) == slot_of(id))
    }
}

/// Whether a notification stays here: the machine has no room, or does not know its sender yet.
pub(super) fn must_wait(notified: Result<(), CallRefusal>) -> bool {
    matches!(notified, Err(CallRefusal::NoEndpoint | CallRefusal::Full(_)))
}
