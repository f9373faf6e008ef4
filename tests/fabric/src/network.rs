//! Connections between nodes: delay, loss, doubling, reordering, partition.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use m3ipc_fabric::{ConnectionId, Lane, NodeId};

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// What happens at a time.
#[derive(Debug)]
pub enum Event {
    Packet {
        from: NodeId,
        to: NodeId,
        connection: ConnectionId,
        bytes: Bytes,
    },
    Connected {
        node: NodeId,
        peer: NodeId,
        connection: ConnectionId,
    },
    Disconnected {
        node: NodeId,
        peer: NodeId,
        connection: ConnectionId,
    },
    Connect(Pair),
    Heal(Pair),
    Act,
    Trouble,
    Restart(NodeId),
    Resume(NodeId),
    /// The local side decides a withdrawal.
    Withdrawal(NodeId, m3ipc_fabric::DeliveryId),
    /// A backup of a slot of a VM is bound, if it may be.
    TakePlace(NodeId, (u16, i32)),
    /// A call whose receiver has moved is sent again.
    SendAgain(NodeId, u64),
}

/// Two nodes, the lower one first.
pub type Pair = (NodeId, NodeId);

pub fn pair(one: NodeId, other: NodeId) -> Pair {
    (one.min(other), one.max(other))
}

/// The events to come, and the connections.
#[derive(Debug, Default)]
pub struct Network {
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    connections: BTreeMap<Pair, BTreeSet<ConnectionId>>,
    parted: BTreeMap<Pair, u64>,
    /// Latest arrival per direction and lane: a transport keeps the order.
    arrivals: BTreeMap<(NodeId, NodeId, Lane), u64>,
    /// Whether packets get lost, doubled and reordered within a connection.
    pub lossy: bool,
}

impl Network {
    pub fn at(&mut self, at_ns: u64, event: Event) {
        self.count += 1;
        self.events.insert((at_ns, self.count), event);
    }

    pub fn next_ns(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }

    pub fn is_parted(&self, pair: Pair) -> bool {
        self.parted.contains_key(&pair)
    }

    /// Parts two nodes. `false` if they are parted.
    pub fn part(&mut self, pair: Pair, now_ns: u64) -> bool {
        self.parted.insert(pair, now_ns).is_none()
    }

    /// Joins two nodes; since when they were parted.
    pub fn heal(&mut self, pair: Pair) -> Option<u64> {
        self.parted.remove(&pair)
    }

    pub fn is_connected(&self, pair: Pair) -> bool {
        self.connections.get(&pair).is_some_and(|all| !all.is_empty())
    }

    pub fn connect(&mut self, pair: Pair, now_ns: u64, rng: &mut Rng) {
        self.count += 1;
        let connection = ConnectionId(self.count);
        self.connections.entry(pair).or_default().insert(connection);
        for (node, peer) in [pair, (pair.1, pair.0)] {
            let at_ns = now_ns + rng.u64(0..2 * MS);
            self.at(at_ns, Event::Connected { node, peer, connection });
        }
    }

    /// Ends a connection. Each side hears of it, unless the nodes are parted.
    pub fn disconnect(&mut self, pair: Pair, connection: ConnectionId, now_ns: u64, rng: &mut Rng) {
        let all = self.connections.entry(pair).or_default();
        if !all.remove(&connection) || self.is_parted(pair) {
            return;
        }
        for (node, peer) in [pair, (pair.1, pair.0)] {
            let at_ns = now_ns + rng.u64(0..5 * MS);
            self.at(at_ns, Event::Disconnected { node, peer, connection });
        }
    }

    pub fn connections_of(&self, pair: Pair) -> Vec<ConnectionId> {
        self.connections.get(&pair).into_iter().flatten().copied().collect()
    }

    pub fn transmit(
        &mut self,
        (from, to): (NodeId, NodeId),
        (connection, lane): (ConnectionId, Lane),
        bytes: Bytes,
        now_ns: u64,
        rng: &mut Rng,
    ) {
        let pair = pair(from, to);
        let is_open = self.connections.get(&pair).is_some_and(|all| all.contains(&connection));
        if !is_open || self.is_parted(pair) || (self.lossy && rng.u8(..) < 6) {
            return;
        }
        let copies = if self.lossy && rng.u8(..) < 6 { 2 } else { 1 };
        for _ in 0..copies {
            let mut at_ns = now_ns + rng.u64(MS / 20..2 * MS);
            if self.lossy && rng.u8(..) < 4 {
                at_ns += rng.u64(0..300 * MS);
            } else {
                let latest = self.arrivals.entry((from, to, lane)).or_default();
                at_ns = at_ns.max(*latest + 1);
                *latest = at_ns;
            }
            self.at(at_ns, Event::Packet { from, to, connection, bytes: bytes.clone() });
        }
    }
}
