//! The connections of a proxy: one with each other node. The node of the lower id connects.

use super::config::Config;
use super::probes::{self, Probes};
use crate::NodeName;
use crate::log::{STRANGERS, say};
use crate::status::Traffic;
use crate::transport::{Connection, End, Listener, Reason, Sent, Transport};
use m3ipc_fabric::{ConnectionId, EndSign, Lane, Machine, NodeId, Transmit};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The first and the longest pause before another attempt to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Connections that may be in their handshake at once; each takes memory.
const STRANGERS_MAX: usize = 64;
/// Packets of one connection in a step: others wait for their turn meanwhile.
const PACKETS: usize = 256;
/// The pause after a connection that could not be accepted.
const NO_ACCEPT: Duration = Duration::from_millis(500);

/// A connection that lasted so long is made again at once.
const LASTED: Duration = Duration::from_secs(1);

struct Wire {
    connection: Box<dyn Connection>,
    /// The node, once it is proven and the machine knows the connection.
    node: Option<NodeId>,
    /// A packet for which the connection had no room.
    waiting: Option<Transmit>,
    begun: Instant,
}

struct Peer {
    id: NodeId,
    name: NodeName,
    address: SocketAddr,
    /// The connection that this side made.
    dialled: Option<ConnectionId>,
    next_dial: Instant,
    pause: Duration,
    /// When to look whether it refuses connections: a node that connects to this one.
    next_probe: Option<Instant>,
    /// Whether the last attempt failed, and the log says so.
    has_complained: bool,
    line: Line,
}

/// What passed between this node and another, and the last failure to connect.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What this proxy has sent.
    pub sent: Traffic,
    /// What came.
    pub received: Traffic,
    /// Why the last connection failed or ended; none while one stands.
    pub failure: Option<String>,
    /// The round trip of the connection that stands.
    pub round_trip: Option<Duration>,
}

/// Which descriptors of the network have reported something.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkReport {
    /// Any connection.
    pub wires: bool,
    /// The listening one.
    pub listener: bool,
}

/// All connections of a proxy.
pub struct Network<'a> {
    transport: Box<dyn Transport>,
    listener: &'a mut dyn Listener,
    own: NodeId,
    peers: Vec<Peer>,
    wires: BTreeMap<ConnectionId, Wire>,
    probes: Probes,
    last: u64,
    /// When to accept again, after a failure.
    next_accept: Option<Instant>,
    /// Whether a connection may have more packets than its turn allowed.
    is_behind: bool,
}

impl<'a> Network<'a> {
    /// Without connections yet.
    pub fn new(
        config: &Config,
        transport: Box<dyn Transport>,
        listener: &'a mut dyn Listener,
        now: Instant,
    ) -> Self {
        let peers = config.peers().filter_map(|node| {
            Some(Peer {
                id: node.id,
                // The configuration has checked the names.
                name: NodeName::new(&node.name).ok()?,
                address: node.address,
                dialled: None,
                next_dial: now,
                pause: PAUSES[0],
                next_probe: None,
                has_complained: false,
                line: Line::default(),
            })
        });
        let (peers, own) = (peers.collect(), config.own.id);
        let (wires, probes) = (BTreeMap::new(), Probes::default());
        let (last, next_accept, is_behind) = (0, None, false);
        Self { transport, listener, own, peers, wires, probes, last, next_accept, is_behind }
    }

    /// The number of connections, and of those that begin.
    pub fn wires(&self) -> usize {
        self.wires.len() + self.probes.len()
    }

    /// Whether the listening descriptor is polled.
    pub fn accepts(&self) -> bool {
        self.next_accept.is_none()
    }

    /// The descriptors to poll, and whether each one shall tell that it takes bytes. The listening
    /// one comes after the connections.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let wires = self.wires.values().map(|wire| {
            let connection = &wire.connection;
            (connection.as_fd(), connection.wants_write() || wire.waiting.is_some())
        });
        let listener = self.accepts().then(|| (self.listener.as_fd(), false));
        wires.chain(self.probes.descriptors().map(|it| (it, true))).chain(listener)
    }

    /// When [`Network::step`] is due without an event.
    pub fn deadline(&self) -> Option<Instant> {
        let dials = self.peers.iter().filter(|peer| self.dials(peer)).map(|peer| peer.next_dial);
        let wires = self.wires.values().filter_map(|wire| wire.connection.deadline());
        let behind = self.is_behind.then(Instant::now);
        let probes = self.peers.iter().filter_map(|peer| peer.next_probe);
        let all = wires.chain(dials).chain(probes).chain(self.next_accept).chain(behind);
        all.chain(self.probes.deadline()).min()
    }

    fn dials(&self, peer: &Peer) -> bool {
        self.own < peer.id && peer.dialled.is_none()
    }

    fn add(&mut self, connection: Box<dyn Connection>, begun: Instant) -> ConnectionId {
        self.last += 1;
        let id = ConnectionId(self.last);
        self.wires.insert(id, Wire { connection, node: None, waiting: None, begun });
        id
    }

    /// Reads, accepts and connects, as far as something is due or a descriptor has reported.
    pub fn step(
        &mut self,
        reported: NetworkReport,
        machine: &mut Machine,
        clock: &Clock,
        now: Instant,
    ) {
        let is_due = self.is_behind || self.deadline().is_some_and(|at| at <= now);
        if is_due || reported.listener {
            self.accept(now);
        }
        if is_due {
            self.dial(machine, clock, now);
            self.probe_again(machine, clock, now);
        }
        if !is_due && !reported.wires {
            return;
        }
        for node in self.probes.refused(now) {
            machine.gone(clock.now_ns(), node, EndSign::Refused);
        }
        self.is_behind = false;
        let ids: Vec<ConnectionId> = self.wires.keys().copied().collect();
        for id in ids {
            self.read(id, machine, clock, now);
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.next_accept.is_some_and(|at| at > now) {
            return;
        }
        self.next_accept = None;
        // The descriptor tells of the rest in the next step.
        for _ in 0..STRANGERS_MAX {
            match self.listener.accept(now) {
                Ok(Some(connection)) => {
                    self.add(connection, now);
                    self.drop_strangers();
                }
                Ok(None) => return,
                Err(error) => {
                    say!(STRANGERS, "cannot accept a connection: {error}");
                    self.next_accept = Some(now + NO_ACCEPT);
                    return;
                }
            }
        }
    }

    /// The oldest strangers make room: a host without a certificate cannot keep the nodes out.
    fn drop_strangers(&mut self) {
        let is_dialled = |id| self.peers.iter().any(|peer| peer.dialled == Some(id));
        let strangers = self.wires.iter().filter(|(_, wire)| wire.node.is_none());
        let strangers: Vec<ConnectionId> =
            strangers.map(|(id, _)| *id).filter(|id| !is_dialled(*id)).collect();
        for id in strangers.iter().take(strangers.len().saturating_sub(STRANGERS_MAX)) {
            self.wires.remove(id);
        }
    }

    fn dial(&mut self, machine: &mut Machine, clock: &Clock, now: Instant) {
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            if !self.dials(peer) || peer.next_dial > now {
                continue;
            }
            let made = self.transport.connect(&peer.name, peer.address, now);
            let made = made.map(|connection| self.add(connection, now));
            let peer = &mut self.peers[at];
            match made {
                Ok(id) => peer.dialled = Some(id),
                Err(error) => {
                    peer.failed(now, &error.to_string());
                    if error.kind() == ErrorKind::ConnectionRefused {
                        machine.gone(clock.now_ns(), peer.id, EndSign::Refused);
                    }
                }
            }
        }
    }

    fn read(&mut self, id: ConnectionId, machine: &mut Machine, clock: &Clock, now: Instant) {
        for _ in 0..PACKETS {
            let Some(wire) = self.wires.get_mut(&id) else { return };
            let received = wire.connection.receive(now);
            if wire.node.is_none()
                && let Some(name) = wire.connection.peer()
            {
                let Some(peer) = self.peers.iter_mut().find(|peer| peer.name == *name) else {
                    say!(STRANGERS, "{name} has a certificate, and no entry in the registry");
                    wire.connection.close(Reason::CLOSED);
                    self.wires.remove(&id);
                    return;
                };
                wire.node = Some(peer.id);
                peer.line.failure = None;
                machine.connected(clock.now_ns(), peer.id, id);
            }
            let node = wire.node;
            match received {
                Ok(Some(frame)) => {
                    if let Some(node) = node {
                        self.count(node, |line| line.received.count(frame.len()));
                        machine.received(clock.now_ns(), node, id, frame);
                    }
                }
                Ok(None) => return,
                Err(end) => return self.ended(id, &end, machine, clock, now),
            }
        }
        self.is_behind = true;
    }

    fn ended(
        &mut self,
        id: ConnectionId,
        end: &End,
        machine: &mut Machine,
        clock: &Clock,
        now: Instant,
    ) {
        let Some(wire) = self.wires.remove(&id) else { return };
        let why = end.to_string();
        let lasted = wire.node.is_some() && now.saturating_duration_since(wire.begun) >= LASTED;
        let left = wire.node.filter(|_| *end == End::Closed(Reason::LEFT));
        let mut gone = left.map(|node| (node, EndSign::Left));
        let node = self.peers.iter().find(|peer| Some(peer.id) == wire.node);
        let source = node.map_or_else(|| STRANGERS.to_owned(), |peer| peer.name.to_string());
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.dialled == Some(id)) {
            peer.dialled = None;
            peer.failed(now, &why);
            if lasted {
                (peer.next_dial, peer.pause) = (now, PAUSES[0]);
            }
            if *end == End::Lost(ErrorKind::ConnectionRefused) {
                gone = Some((peer.id, EndSign::Refused));
            }
        } else {
            if let Some(node) = wire.node {
                self.count(node, |line| line.failure = Some(why.clone()));
            }
            say!(&source, "a connection of another node has ended: {why}");
        }
        if let Some(node) = wire.node {
            machine.disconnected(clock.now_ns(), node, id);
            if gone.is_none() && matches!(end, End::Lost(_)) {
                self.probe(node, machine, clock, now);
            }
        }
        if let Some((node, sign)) = gone {
            machine.gone(clock.now_ns(), node, sign);
        }
        if let Some(node) = wire.node {
            self.probe_later(node, machine, now);
        }
    }

    /// Finds out whether a node that connects to this one has ended. The other way round, the next
    /// connection shows it.
    fn probe(&mut self, node: NodeId, machine: &mut Machine, clock: &Clock, now: Instant) {
        if let Some(peer) = self.peers.iter().find(|it| it.id == node && it.id < self.own)
            && let Some(found) = self.probes.begin(node, peer.address, now)
        {
            machine.gone(clock.now_ns(), found, EndSign::Refused);
        }
    }

    /// A node that connects to this one has no connection: this side learns of its end by probes
    /// alone.
    fn probe_later(&mut self, node: NodeId, machine: &Machine, now: Instant) {
        let own = self.own;
        if machine.may_await_refusal(node)
            && let Some(peer) = self.peers.iter_mut().find(|it| it.id == node && it.id < own)
        {
            peer.next_probe = Some(now + probes::LIMIT);
        }
    }

    /// Goes on with the probes of nodes whose end would free the place of an endpoint.
    fn probe_again(&mut self, machine: &mut Machine, clock: &Clock, now: Instant) {
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            if peer.next_probe.is_none_or(|at| at > now) {
                continue;
            }
            let node = peer.id;
            let is_connected = self.wires.values().any(|wire| wire.node == Some(node));
            let goes_on = !is_connected && machine.awaits_refusal(node);
            self.peers[at].next_probe = goes_on.then(|| now + probes::LIMIT);
            if goes_on {
                self.probe(node, machine, clock, now);
            }
        }
    }

    /// Tells all peers that this life of the proxy ends.
    pub fn leave(&mut self) {
        self.wires.values_mut().for_each(|wire| wire.connection.close(Reason::LEFT));
    }

    /// A session with a node has begun: neither side refuses the other one.
    pub fn session_begun(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == node) {
            (peer.pause, peer.has_complained) = (PAUSES[0], false);
        }
    }

    /// Closes a connection that the machine knows no longer: another one is in its place, or the
    /// session was refused.
    pub fn close(&mut self, id: ConnectionId, machine: &Machine, now: Instant) {
        let Some(mut wire) = self.wires.remove(&id) else { return };
        wire.connection.close(Reason::CLOSED);
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.dialled == Some(id)) {
            peer.dialled = None;
            peer.dial_later(now);
        }
        if let Some(node) = wire.node {
            self.probe_later(node, machine, now);
        }
    }

    /// Gives the connections what the machine has for them, as far as they take it.
    pub fn transmit(&mut self, machine: &mut Machine, clock: &Clock, now: Instant) {
        for wire in self.wires.values_mut() {
            if let Some(packet) = wire.waiting.take()
                && let Ok(Sent::Full) = wire.connection.send(&packet.head, &packet.body, now)
            {
                wire.waiting = Some(packet);
            }
        }
        for at in 0..self.peers.len() {
            let node = self.peers[at].id;
            for lane in Lane::ALL {
                while !self.is_full(node)
                    && let Some(packet) = machine.poll_transmit(clock.now_ns(), node, lane)
                {
                    // The machine learns of the end of a connection from its next `read`.
                    let Some(wire) = self.wires.get_mut(&packet.connection) else { continue };
                    self.peers[at].line.sent.count(packet.bytes());
                    if let Ok(Sent::Full) = wire.connection.send(&packet.head, &packet.body, now) {
                        wire.waiting = Some(packet);
                    }
                }
            }
        }
        self.wires.values_mut().for_each(|wire| wire.connection.flush());
    }

    fn count(&mut self, node: NodeId, count: impl FnOnce(&mut Line)) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == node) {
            count(&mut peer.line);
        }
    }

    /// What passed between this node and another.
    pub fn line(&self, node: NodeId) -> Line {
        let Some(peer) = self.peers.iter().find(|peer| peer.id == node) else {
            return Line::default();
        };
        let mut wires = self.wires.values().filter(|wire| wire.node == Some(node));
        let wire = wires.next().and_then(|it| m3ipc_sys::tcp_round_trip(&it.connection).ok());
        Line { round_trip: wire, ..peer.line.clone() }
    }

    fn is_full(&self, node: NodeId) -> bool {
        let mut wires = self.wires.values();
        wires.any(|wire| wire.node == Some(node) && wire.waiting.is_some())
    }
}

impl Peer {
    fn failed(&mut self, now: Instant, why: &str) {
        self.line.failure = Some(why.to_owned());
        if !std::mem::replace(&mut self.has_complained, true) {
            say!(
                &self.name.to_string(),
                "no connection with {} at {}: {why}",
                self.name,
                self.address
            );
        }
        self.dial_later(now);
    }

    fn dial_later(&mut self, now: Instant) {
        self.next_dial = now + self.pause;
        self.pause = PAUSES[1].min(self.pause * 2);
    }
}

/// The time as the machine counts it.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the begin, plus one.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }

    /// The instant of a time of the machine.
    #[must_use]
    pub fn at(&self, ns: u64) -> Instant {
        self.0 + Duration::from_nanos(ns)
    }
}

#[cfg(test)]
mod tests;
