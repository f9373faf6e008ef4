//! Moves: the node that has a slot with a backup hands it over to the other one that may have it
//! ([ADR 64](../../../../docs/adr/0064-moving-an-endpoint.md)).
//!
//! | | at the node that had the endpoint | at the node that gets the place | at other nodes |
//! |---|---|---|---|
//! | [`Machine::moved`] | the slot is at the other node | | |
//! | `Frame::Moved` | | [`Action::Moved`]; free once its own calls have ended | [`Action::Moved`] |
//! | a bind there | it has its backup | claims the place | believe it |
//! | no bind for [`CLAIM_NS`] | the slot is here again | says that it has none | |
//!
//! The home always has the slot at the other node from its word on. So a move needs no answer, and
//! the loss of the word is found at the begin of the next session.

use m3ipc_abi::Slot;

use super::action::{Action, MoveRefusal};
use super::departures::Departure;
use super::unclaimed::CLAIM_NS;
use super::{Machine, Timer};
use crate::faults::Fault;
use crate::ids::{EndpointId, Incarnation, NodeId, VmId};
use crate::outcome::Failure;
use crate::packet::Frame;

impl Machine {
    /// The other node that may have the slot of an endpoint.
    pub(super) fn other_holder(&self, node: NodeId, endpoint: EndpointId) -> Option<NodeId> {
        let (backup, home) = (self.owners.backup(endpoint)?.node, self.owners.home(endpoint)?);
        match node {
            node if node == home => Some(backup),
            node if node == backup => Some(home),
            _ => None,
        }
    }

    /// The node to which a local endpoint would move.
    ///
    /// # Errors
    /// [`MoveRefusal`].
    pub fn move_target(&self, endpoint: EndpointId) -> Result<NodeId, MoveRefusal> {
        let own = self.own.node;
        let to = self.other_holder(own, endpoint).ok_or(MoveRefusal::NoBackup)?;
        let is_here = self.owners.owner(endpoint) == Some(own);
        if !is_here || !self.living.contains_key(&endpoint) {
            return Err(MoveRefusal::NoEndpoint);
        }
        let peer = self.peers.get(&to);
        match peer.is_some_and(|peer| peer.session.lives() && peer.session.is_up()) {
            true => Ok(to),
            false => Err(MoveRefusal::LinkDown(to)),
        }
    }

    /// A local endpoint has moved: it has ended here, and the driver has reported all messages that
    /// it took. The node that gets its place.
    ///
    /// # Errors
    /// [`MoveRefusal`]: report its death.
    pub fn moved(&mut self, now_ns: u64, endpoint: EndpointId) -> Result<NodeId, MoveRefusal> {
        self.advance(now_ns);
        let to = self.move_target(endpoint)?;
        let EndpointId { vm, address } = endpoint;
        self.living.remove(&endpoint);
        self.end_all_of(endpoint, Failure::Moved);
        self.changes.moves_away((vm, address.slot()));
        let moves = self.departs(endpoint);
        self.owners.place(vm, address.slot(), to);
        if !self.own.planted.has(Fault::MoveUntold) {
            let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
            for node in nodes {
                if self.is_reachable(node) && self.shares_vm(node, vm) {
                    let frame = Frame::Moved { vm, endpoint: address.0, moves };
                    self.push(node, frame, Vec::new());
                }
            }
        }
        self.settle_early(to, (vm, address.slot()));
        Ok(to)
    }

    /// A node says that its endpoint has moved.
    pub(super) fn move_told(&mut self, node: NodeId, endpoint: EndpointId, moves: u32) {
        let slot = (endpoint.vm, endpoint.address.slot());
        let Some(to) = self.other_holder(node, endpoint) else {
            // The registry of this node is older.
            return self.death_told(node, endpoint);
        };
        let departure = (self.incarnation_of(node), moves);
        if self.departures.says((node, slot), departure) {
            self.announce_slot(slot);
        }
        self.early.died(node, endpoint);
        let is_holder = self.is_of(node, endpoint).unwrap_or(false);
        if !is_holder {
            // The end of a call has said so, or its claim counted for nothing.
            return self.settle_place(slot);
        }
        if !self.has_announced_as(node, endpoint) {
            // Its announcement was older than a claim.
            return self.place_left_there(node, slot);
        }
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.announced.remove(&slot);
        }
        if to == self.own.node {
            let end_ns = self.now_ns.saturating_add(CLAIM_NS);
            // A hostile home may say so again and again.
            if let Some(former_ns) = self.moves.begin(slot, end_ns) {
                self.timers.remove(&(former_ns, Timer::Place(slot)));
            }
            self.timers.insert((end_ns, Timer::Place(slot)));
        }
        self.actions.push_back(Action::Moved { endpoint });
        self.place_left_there(node, slot);
    }

    /// The end of a call says that its receiver has moved. The word of that may follow.
    pub(super) fn move_implied(&mut self, node: NodeId, endpoint: EndpointId) {
        if self.has_announced_as(node, endpoint) && self.other_holder(node, endpoint).is_some() {
            let place = (node, (endpoint.vm, endpoint.address.slot()));
            // Its word has this number: each one has come but that.
            let moves = self.departures.count(place, self.incarnation_of(node)).saturating_add(1);
            self.move_told(node, endpoint, moves);
        }
    }

    /// The life of a node with which this one talks.
    pub(super) fn incarnation_of(&self, node: NodeId) -> Incarnation {
        self.peers.get(&node).and_then(|it| it.session.incarnation()).unwrap_or_default()
    }

    /// The slot of an endpoint moves away: how often it has done so in this life.
    pub(super) fn departs(&mut self, EndpointId { vm, address }: EndpointId) -> u32 {
        let (place, life) = ((self.own.node, (vm, address.slot())), self.own.incarnation);
        let moves = self.departures.count(place, life).saturating_add(1);
        self.departures.says(place, (life, moves));
        moves
    }

    /// What the announcement of a local endpoint says of moves of its slot.
    pub(super) fn departures_of(&self, endpoint: EndpointId) -> (u32, Option<Departure>) {
        let slot = (endpoint.vm, endpoint.address.slot());
        let moves = self.departures.count((self.own.node, slot), self.own.incarnation);
        let other = self.other_holder(self.own.node, endpoint);
        (moves, other.and_then(|other| self.departures.last((other, slot))))
    }

    /// A node has bound an endpoint, and says this of moves of its slot. Whether it has moved away
    /// from there since.
    pub(super) fn note_departures(
        &mut self,
        (node, endpoint): (NodeId, EndpointId),
        departure: Departure,
        after: Option<Departure>,
    ) -> bool {
        let Some(other) = self.other_holder(node, endpoint) else { return false };
        let slot = (endpoint.vm, endpoint.address.slot());
        if let Some(after) = after {
            self.departures.hears((other, slot), after);
        }
        if self.departures.says((node, slot), departure) {
            self.announce_slot(slot);
        }
        self.departures.has_passed((node, slot), departure, self.now_ns)
    }

    /// Announces the local endpoint of a slot anew, if there is one: this node has begun after the
    /// move, and did not know of it.
    pub(super) fn announce_slot(&mut self, slot: (VmId, Slot)) {
        let Some(endpoint) = self.living_in(slot) else { return };
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.announce(node, endpoint));
    }

    /// The session with a node has ended: its word about moves from other nodes ends with the time
    /// in which those may still be heard.
    pub(super) fn departures_at_loss(&mut self, node: NodeId) {
        let end_ns = self.now_ns.saturating_add(self.own.settings.silence_ns);
        for slot in self.places_of(node) {
            if let Some(other) = self.other_holder(node, EndpointId::any_of(slot))
                && self.departures.speaker_lost((other, slot), end_ns)
            {
                self.timers.insert((end_ns, Timer::Place(slot)));
            }
        }
    }

    /// What was said of moves may be over.
    pub(super) fn departures_due(&mut self, slot: (VmId, Slot)) {
        let any = EndpointId::any_of(slot);
        let backup = self.owners.backup(any).map(|backup| backup.node);
        for node in self.owners.home(any).into_iter().chain(backup) {
            self.departures.expire((node, slot), self.now_ns);
            self.settle_early(node, slot);
        }
    }

    /// A session with a node begins: it hears of moves from here.
    pub(super) fn departures_at_begin(&mut self, node: NodeId) {
        for (vm, slot) in self.places_of(self.own.node) {
            let any = EndpointId::any_of((vm, slot));
            let (moves, _) = self.departures_of(any);
            if moves > 0 && !self.lives_here((vm, slot)) && self.shares_vm(node, vm) {
                self.push(node, Frame::Moved { vm, endpoint: any.address.0, moves }, Vec::new());
            }
        }
    }

    fn has_announced_as(&self, node: NodeId, EndpointId { vm, address }: EndpointId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.announced.get(&(vm, address.slot())) == Some(&address))
    }

    /// Whether the place of a moved endpoint may be taken here: the calls of this node to that one
    /// have ended.
    pub(super) fn has_moved_here(&self, slot: (VmId, Slot)) -> bool {
        self.moves.has(slot)
            && !self
                .outgoing
                .calls
                .values()
                .any(|call| (call.from.vm, call.to.slot()) == slot && !call.reported)
    }

    /// A call has ended. It may be the last one to an endpoint that moves here.
    pub(super) fn call_to_moved_ended(&mut self, slot: (VmId, Slot)) {
        if self.has_moved_here(slot) {
            self.settle_place(slot);
        }
    }

    /// A session with a node begins: what an earlier one said of moves is over.
    pub(super) fn moves_at_begin(&mut self, node: NodeId) {
        self.departures_at_begin(node);
        if !self.moves.is_empty() {
            self.places_of(node).into_iter().for_each(|slot| self.moves.end(slot));
        }
    }

    /// The time of a change, or of a move, is over.
    pub(super) fn place_due(&mut self, slot: (VmId, Slot)) {
        let is_kept = self.own.planted.has(Fault::MoveKept);
        if !is_kept && self.moves.expire(slot, self.now_ns) {
            self.place_unclaimed(slot);
        }
        self.departures_due(slot);
        self.settle_place(slot);
    }

    /// Nobody has claimed the place of an endpoint that has moved here.
    fn place_unclaimed(&mut self, slot: (VmId, Slot)) {
        let place = EndpointId::any_of(slot);
        let (backup, home) = (self.owners.backup(place), self.owners.home(place));
        let own = self.own.node;
        let (Some(backup), Some(home)) = (backup.filter(|it| it.node == own), home) else { return };
        if self.owners.owner(place) != Some(own) {
            // It never was free here.
            self.disclaim_to_all(slot);
        } else if !self.is_reachable(home) && !self.has_ended(home, backup.after) {
            self.changes.goes_back(slot);
            self.actions.push_back(Action::GiveBack { vm: slot.0, slot: slot.1 });
        }
    }
}
