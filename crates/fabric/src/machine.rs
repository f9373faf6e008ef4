//! The machine of a proxy: all peers, all calls, one input after the other.
//!
//! Each input brings the time. The time never runs back: an earlier time counts as the last one.
//! After each input the driver takes the actions ([`Machine::poll_action`]) and the packets
//! ([`Machine::poll_transmit`]), and sets its timer to [`Machine::next_timeout_ns`].

mod action;
mod announced;
mod changes;
mod copy;
mod delivery;
mod departures;
mod early;
mod incoming;
mod moves;
mod names;
mod open_call;
mod open_copies;
mod outgoing;
mod peer;
mod pieces;
mod places;
mod shares;
mod streams;
mod unclaimed;
mod waiting;

pub use action::{Action, Call, CallRefusal, MoveRefusal, NotAwaited};
pub use open_copies::CopyId;
pub use unclaimed::CLAIM_NS;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use m3ipc_abi::{Address, Slot};

use crate::faults::Planted;
use crate::ids::{CallId, ConnectionId, DeliveryId, EndpointId, Incarnation, NodeId, VmId};
use crate::outcome::Failure;
use crate::owners::{EndSign, Owners};
use crate::packet::{Frame, Lane, Packet, decode};
use crate::session::{Identity, SessionEvent};
use crate::settings::Settings;
use crate::transmit::Transmit;

use changes::Changes;
use delivery::{Delivery, Incoming};
use departures::Departures;
use early::EarlyBinds;
use open_call::{OpenCall, Outgoing};
use open_copies::OpenCopies;
use peer::Peer;
use unclaimed::Moves;

/// The peer broke the rules of the protocol.
#[derive(Clone, Copy, Debug)]
struct RuleBroken;

/// What is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The time limit of a call.
    Limit(CallId),
    /// The cancellation of a call was not answered.
    Cancelled(CallId),
    /// The requester has to learn that its request was taken.
    Took(DeliveryId),
    /// A slot with a backup may change its holder again, or the time of a move is over.
    Place((VmId, Slot)),
    /// A node whose session has ended may count as silent.
    Silence(NodeId),
}

/// A living local endpoint, and the nodes that want to learn its death.
type Watchers = BTreeSet<NodeId>;

/// The names of local endpoints.
type Names = BTreeMap<EndpointId, BTreeSet<String>>;

/// The state machine of a proxy.
#[derive(Debug)]
pub struct Machine {
    own: Identity,
    owners: Owners,
    now_ns: u64,
    peers: BTreeMap<NodeId, Peer>,
    living: BTreeMap<EndpointId, Watchers>,
    /// The latest endpoint of each local slot.
    latest: BTreeMap<(VmId, Slot), Address>,
    outgoing: Outgoing,
    incoming: Incoming,
    copies: OpenCopies,
    names: Names,
    timers: BTreeSet<(u64, Timer)>,
    actions: VecDeque<Action>,
    /// Endpoints that their nodes announced ahead of the claim of their slots, with their names.
    early: EarlyBinds,
    /// When slots with a backup have changed their holders.
    changes: Changes,
    /// Places that this node has got by moves, and that no endpoint has claimed.
    moves: Moves,
    /// How often slots with a backup have moved.
    departures: Departures,
}

impl Machine {
    /// The machine of `node` in a cluster. The other owners of slots are its peers.
    #[must_use]
    pub fn new(
        cluster: &str,
        node: NodeId,
        incarnation: Incarnation,
        owners: Owners,
        peers: impl IntoIterator<Item = NodeId>,
        settings: Settings,
    ) -> Self {
        let claims = owners.of_node(node).collect();
        let cluster = cluster.to_owned();
        let planted = Planted::default();
        let peers = peers.into_iter().filter(|peer| *peer != node);
        Self {
            own: Identity { cluster, node, incarnation, claims, settings, planted },
            owners,
            now_ns: 0,
            peers: peers.map(|peer| (peer, Peer::new(peer, planted))).collect(),
            living: BTreeMap::new(),
            latest: BTreeMap::new(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            copies: OpenCopies::default(),
            names: Names::new(),
            timers: BTreeSet::new(),
            actions: VecDeque::new(),
            early: EarlyBinds::default(),
            changes: Changes::default(),
            moves: Moves::default(),
            departures: Departures::default(),
        }
    }

    /// The same machine with a planted mistake.
    #[cfg(feature = "planted-faults")]
    #[must_use]
    pub fn with_fault(mut self, fault: Option<crate::Fault>) -> Self {
        self.own.planted = Planted(fault);
        for (node, peer) in &mut self.peers {
            *peer = Peer::new(*node, self.own.planted);
        }
        self
    }

    /// The node of this machine.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.own.node
    }

    /// Whether the session with a node lives: calls to its endpoints are accepted.
    #[must_use]
    pub fn is_reachable(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.session.lives())
    }

    /// Whether no call is open and no frame under way, in either direction.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outgoing.calls.is_empty()
            && self.incoming.deliveries.is_empty()
            && self.incoming.untold.is_empty()
            && self.copies.is_empty()
            && self.peers.values().all(Peer::is_idle)
    }

    /// Bytes that the machine keeps for a peer, near enough for a limit.
    #[must_use]
    pub fn bytes_of(&self, node: NodeId) -> u64 {
        let Some(peer) = self.peers.get(&node) else { return 0 };
        let waiting = peer.waiting.calls().filter_map(|call| self.outgoing.calls.get(call));
        let deliveries = peer.incoming.values();
        let queued = deliveries.filter_map(|id| self.incoming.deliveries.get(id));
        peer.session.bytes()
            + peer.streams.bytes()
            + self.copies.bytes_for(node)
            + waiting.map(OpenCall::bytes).sum::<u64>()
            + queued.map(Delivery::bytes).sum::<u64>()
            + 128 * peer.notifications.len() as u64
    }

    /// A connection to a node stands, in either direction. The transport has proved that the peer
    /// is that node.
    pub fn connected(&mut self, now_ns: u64, node: NodeId, connection: ConnectionId) {
        self.advance(now_ns);
        let now_ns = self.now_ns;
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.session.connected(now_ns, connection);
            // A process listens there. Nothing was heard of it yet.
            peer.end.sign = peer.end.sign.map(|_| EndSign::Silence);
        }
        self.serve_session(node);
    }

    /// A connection has ended.
    pub fn disconnected(&mut self, now_ns: u64, node: NodeId, connection: ConnectionId) {
        self.advance(now_ns);
        let now_ns = self.now_ns;
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.session.disconnected(now_ns, connection);
        }
        self.serve_session(node);
        self.look_for_end(node);
    }

    /// The proxy of a node has ended: its last connection is closed, and nobody listens at its
    /// address; or it said so. The session ends now, and not after the grace.
    pub fn gone(&mut self, now_ns: u64, node: NodeId, sign: EndSign) {
        self.advance(now_ns);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.session.gone(&self.own);
        }
        self.serve_session(node);
        self.note_end(node, sign);
    }

    /// Bytes of a packet from a connection.
    pub fn received(
        &mut self,
        now_ns: u64,
        node: NodeId,
        id: ConnectionId,
        bytes: impl Into<Bytes>,
    ) {
        self.advance(now_ns);
        if self.packet(node, id, &bytes.into()).is_err()
            && let Some(peer) = self.peers.get_mut(&node)
        {
            peer.session.broke(&self.own);
        }
        self.serve_session(node);
    }

    /// The time has come that [`Machine::next_timeout_ns`] named.
    pub fn tick(&mut self, now_ns: u64) {
        self.advance(now_ns);
        while let Some(&(at_ns, timer)) = self.timers.first()
            && at_ns <= self.now_ns
        {
            self.timers.pop_first();
            match timer {
                Timer::Limit(call) => self.cancel(call),
                Timer::Cancelled(call) => self.cancellation_unanswered(call),
                Timer::Took(delivery) => self.tell_took(delivery),
                Timer::Place(slot) => self.place_due(slot),
                Timer::Silence(node) => self.look_for_silence(node),
            }
        }
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in nodes {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.session.tick(self.now_ns, &self.own);
            }
            self.serve_session(node);
        }
    }

    /// When [`Machine::tick`] has something to do.
    #[must_use]
    pub fn next_timeout_ns(&self) -> Option<u64> {
        let sessions = self.peers.values().filter_map(|it| it.session.deadline_ns(&self.own));
        sessions.chain(self.timers.first().map(|(at_ns, _)| *at_ns)).min()
    }

    /// The next action for the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next packet of a lane for a node. Ask when the connection can take bytes.
    pub fn poll_transmit(&mut self, now_ns: u64, node: NodeId, lane: Lane) -> Option<Transmit> {
        self.advance(now_ns);
        if lane == Lane::Message {
            self.promote(node);
        } else {
            self.promote_piece(node);
        }
        let peer = self.peers.get_mut(&node)?;
        let transmit = peer.session.transmit(self.now_ns, lane, &self.own);
        self.serve_session(node);
        transmit
    }

    /// A local endpoint has been bound.
    pub fn bound(&mut self, now_ns: u64, endpoint: EndpointId) {
        self.advance(now_ns);
        self.keep_place(endpoint);
        if self.owners.owner(endpoint) == Some(self.own.node) {
            self.living.entry(endpoint).or_default();
            self.moves.end((endpoint.vm, endpoint.address.slot()));
            self.latest.insert((endpoint.vm, endpoint.address.slot()), endpoint.address);
            let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
            nodes.into_iter().for_each(|node| self.announce(node, endpoint));
        }
    }

    /// Tells a node of a living local endpoint, and later of its death.
    fn announce(&mut self, node: NodeId, endpoint: EndpointId) {
        let EndpointId { vm, address } = endpoint;
        if self.is_reachable(node) && self.shares_vm(node, vm) {
            self.acquaint(endpoint, node);
            let (moves, after) = self.departures_of(endpoint);
            self.push(node, Frame::Bound { vm, endpoint: address.0, moves, after }, Vec::new());
            self.announce_names(node, endpoint);
        }
    }

    /// A local endpoint has died. The driver has reported all messages that it took.
    pub fn died(&mut self, now_ns: u64, endpoint: EndpointId) {
        self.advance(now_ns);
        let Some(watchers) = self.living.remove(&endpoint) else {
            // Its bind never took effect, and it may have kept a place meanwhile.
            return self.place_left(endpoint);
        };
        self.send_notifications_of(endpoint);
        self.end_all_of(endpoint, Failure::Died);
        if self.own.planted.has(crate::faults::Fault::DeathUnannounced) {
            return;
        }
        for node in watchers {
            let EndpointId { vm, address } = endpoint;
            self.push(node, Frame::Died { vm, endpoint: address.0 }, Vec::new());
        }
        self.place_left(endpoint);
    }

    /// Ends all that an endpoint does. `why` its messages end that it has not taken.
    fn end_all_of(&mut self, endpoint: EndpointId, why: Failure) {
        self.end_calls_of(endpoint);
        self.end_deliveries_to(endpoint, why);
        self.end_copies_of(endpoint);
        self.names.remove(&endpoint);
    }

    /// A local endpoint wants to learn the death of a remote one.
    ///
    /// # Errors
    /// Those of [`Machine::call`].
    pub fn watch(&mut self, now_ns: u64, endpoint: EndpointId) -> Result<(), CallRefusal> {
        self.advance(now_ns);
        let node = self.reachable(endpoint)?;
        let EndpointId { vm, address } = endpoint;
        self.push(node, Frame::Watch { vm, endpoint: address.0 }, Vec::new());
        Ok(())
    }

    fn advance(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.now_ns);
        if self.now_ns > 0 && gap_ns > self.own.settings.suspect_ns {
            // This proxy was stopped, or its clock jumped: the next silence decides.
            self.peers.values_mut().for_each(|peer| peer.session.forgive(gap_ns));
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The node of a remote endpoint, with a living session.
    fn reachable(&self, to: EndpointId) -> Result<NodeId, CallRefusal> {
        let node = self.owners.owner(to).ok_or(CallRefusal::NoEndpoint)?;
        if node == self.own.node {
            return Err(CallRefusal::Local);
        }
        match self.peers.get(&node) {
            Some(peer) if peer.session.lives() => Ok(node),
            Some(_) => Err(CallRefusal::LinkDown(node)),
            None => Err(CallRefusal::NoEndpoint),
        }
    }

    fn push(&mut self, node: NodeId, frame: Frame, body: impl Into<Bytes>) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.session.push(frame, body, &self.own);
        }
    }

    /// Adds a node to those that learn the death of a local endpoint.
    fn acquaint(&mut self, endpoint: EndpointId, node: NodeId) {
        if let Some(watchers) = self.living.get_mut(&endpoint) {
            watchers.insert(node);
        }
    }

    fn serve_session(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let events = peer.session.take_events();
        for event in events {
            self.session_event(node, event);
        }
    }

    fn session_event(&mut self, node: NodeId, event: SessionEvent) {
        match event {
            SessionEvent::Begun { admits } => {
                let Some(peer) = self.peers.get_mut(&node) else { return };
                peer.admits = admits;
                let names: usize = self.names.values().map(BTreeSet::len).sum();
                peer.session.announce(self.living.len() + names);
                let incarnation = peer.session.incarnation().unwrap_or_default();
                self.actions.push_back(Action::NodeUp { node, incarnation });
                let living: Vec<EndpointId> = self.living.keys().copied().collect();
                living.into_iter().for_each(|endpoint| self.announce(node, endpoint));
                self.places_at_begin(node);
            }
            SessionEvent::Ended(cause) => self.node_lost(node, cause),
            SessionEvent::Close(connection) => {
                self.actions.push_back(Action::Close { node, connection });
            }
            SessionEvent::Refused { by_peer, incarnation, why } => {
                self.actions.push_back(Action::Refused { node, by_peer, incarnation, why });
            }
        }
    }

    /// The session with a node has ended: so has everything that it carried.
    fn node_lost(&mut self, node: NodeId, cause: Failure) {
        self.end_calls_to(node, cause);
        self.drop_deliveries_from(node);
        self.end_copies_with(node, cause.code_before());
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.forget();
        }
        self.living.values_mut().for_each(|watchers| _ = watchers.remove(&node));
        self.early.forget(node);
        self.actions.push_back(Action::NodeLost { node, cause });
        self.places_at_loss(node, cause);
    }

    fn packet(&mut self, node: NodeId, id: ConnectionId, bytes: &Bytes) -> Result<(), RuleBroken> {
        let Some(peer) = self.peers.get_mut(&node) else { return Ok(()) };
        let (packet, body) = decode(bytes).map_err(|_| RuleBroken)?;
        let now_ns = self.now_ns;
        match packet {
            Packet::Hello(hello) => {
                let fit = self.owners.wrong_claim(node, &hello.claims).is_none();
                peer.session.hello(now_ns, id, &hello, fit, &self.own);
            }
            Packet::Refused(why) => peer.session.refused(now_ns, id, why),
            Packet::Beat { session, expected, missing } => {
                let accepted = peer.session.accept(now_ns, id, session, expected, &self.own);
                if accepted == Some(true) {
                    peer.session.repeat(now_ns, missing);
                }
            }
            Packet::Data { session, lane, sequence, expected, frame } => {
                let accepted = peer.session.accept(now_ns, id, session, expected, &self.own);
                let length = body.len();
                if accepted == Some(true)
                    && peer.session.arrive(now_ns, lane, sequence, length, &self.own)
                {
                    self.frame(node, frame, &bytes.slice_ref(body))?;
                }
            }
        }
        Ok(())
    }

    /// A frame of a peer, in order and for the first time.
    fn frame(&mut self, node: NodeId, frame: Frame, body: &Bytes) -> Result<(), RuleBroken> {
        match frame {
            Frame::Call { call, vm, from, to, kind, head, pieced } => {
                let (from, to) = (EndpointId::of(vm, from), EndpointId::of(vm, to));
                self.call_arrived(node, call, (from, to), kind, (head, pieced), body)
            }
            Frame::Copy { call, vm, from, to, order } => {
                let (from, to) = (EndpointId::of(vm, from), EndpointId::of(vm, to));
                self.copy_arrived(node, call, (from, to), order)
            }
            Frame::CopyPiece { call, of_receiver } => {
                self.copy_piece_arrived(node, (call, of_receiver), body)
            }
            Frame::CopyMore { call, of_receiver, admitted } => {
                self.copy_more_arrived(node, (call, of_receiver), admitted)
            }
            Frame::CopyEnd { call, code, bytes } => self.copy_end_arrived(node, call, code, bytes),
            Frame::CopyAbort { call } => {
                self.copy_abort_arrived(node, call);
                Ok(())
            }
            Frame::Named { vm, endpoint } => {
                self.name_arrived(node, EndpointId::of(vm, endpoint), body)
            }
            Frame::Fetch { call, stream } => self.fetch_arrived(node, (call, stream)),
            Frame::Piece { call, stream } => self.piece_arrived(node, (call, stream), body),
            Frame::Cancel { call } => {
                self.cancel_arrived(node, call);
                Ok(())
            }
            Frame::Took { call } => self.took_arrived(node, call),
            Frame::End { call, end } => self.end_arrived(node, call, end, body),
            Frame::Notify { vm, from, to, argument } => {
                let (from, to) = (EndpointId::of(vm, from), EndpointId::of(vm, to));
                self.is_of(node, from)?;
                let slot = (vm, from.address.slot());
                let peer = self.peers.get(&node);
                let is_known =
                    peer.is_some_and(|it| it.announced.get(&slot) == Some(&from.address));
                // One that was under way at the death of its source is nobody's.
                if is_known && self.living.contains_key(&to) {
                    self.actions.push_back(Action::Notify { from, to: to.address, argument });
                }
                Ok(())
            }
            Frame::Watch { vm, endpoint } => self.watch_arrived(node, EndpointId::of(vm, endpoint)),
            Frame::Died { vm, endpoint } => {
                self.death_told(node, EndpointId::of(vm, endpoint));
                Ok(())
            }
            Frame::Bound { vm, endpoint, moves, after } => {
                self.bind_told(node, EndpointId::of(vm, endpoint), (moves, after))
            }
            Frame::Moved { vm, endpoint, moves } => {
                self.move_told(node, EndpointId::of(vm, endpoint), moves);
                Ok(())
            }
        }
    }

    fn watch_arrived(&mut self, node: NodeId, endpoint: EndpointId) -> Result<(), RuleBroken> {
        if !self.shares_vm(node, endpoint.vm) {
            return Err(RuleBroken);
        }
        if self.living.contains_key(&endpoint) {
            self.acquaint(endpoint, node);
        } else if self.owners.owner(endpoint) == Some(self.own.node)
            // The other node may know another holder than this one.
            || self.may_hold(self.own.node, endpoint)
        {
            let EndpointId { vm, address } = endpoint;
            self.push(node, Frame::Died { vm, endpoint: address.0 }, Vec::new());
        }
        Ok(())
    }

    /// Whether a VM has slots of a node.
    fn shares_vm(&self, node: NodeId, vm: VmId) -> bool {
        self.owners.of_node(node).any(|(of, _)| of == vm)
    }
}

#[cfg(test)]
mod move_tests;
#[cfg(test)]
mod piece_tests;
#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
