//! The world: the loop of events, random acts, random trouble, and the checks.

use std::collections::BTreeSet;

use fastrand::Rng;
use m3ipc_fabric::{
    Action, CallKind, DeliveryId, EndSign, EndpointId, Failure, Fault, Lane, Limits, NodeId,
    Owners, Settings, SlotRange,
};

use crate::ledger::{Ledger, is_block, number_of, payload_of};
use crate::network::{Event, MS, Network, Pair, pair};
use crate::node::{self, Node, Offered, SLOTS, VMS, is_backed};

/// Acts of a run.
pub const ACTS: u32 = 150;
/// The longest virtual time in which everything must come to rest after the last trouble.
const REST_NS: u64 = 40_000 * MS;

/// Steps at one time; more mean that a machine asks for a time that is over.
const STEPS_AT_ONCE: u32 = 1_000;

/// Packets of a lane at one time.
const PACKETS_AT_ONCE: u32 = 5_000;

/// Events of a run; more mean that two machines answer each other without end.
const EVENTS: u64 = 60_000;

/// Short pieces make long histories.
const INLINE_BYTES: usize = 64;
const PIECE_BYTES: usize = 16;
const COPY_WINDOW_BYTES: u64 = 64;

/// What a run suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: no outcome may be unknown.
    None,
    /// Broken connections, partitions, stopped and killed nodes, clocks that jump.
    Nodes,
    /// The same, and packets lost, doubled and reordered within a connection.
    All,
}

/// A cluster of nodes.
pub struct World {
    pub now_ns: u64,
    pub rng: Rng,
    pub network: Network,
    pub nodes: Vec<Node>,
    pub ledger: Ledger,
    owners: Owners,
    pub settings: Settings,
    fault: Option<Fault>,
    pub trouble: Trouble,
    pub acts: u32,
    /// Inputs of stopped nodes that were put off: they are no events.
    put_off: u64,
    /// The time of trouble is over.
    pub healing: bool,
    /// Places that were given away by a move.
    pub given: BTreeSet<(u16, i32)>,
    /// Calls that were sent again.
    pub sent_again: BTreeSet<u64>,
}

/// A promise that was broken, if any.
pub type Checked = Result<(), String>;

/// Runs one history. The seed decides everything.
///
/// # Errors
/// The promise that was broken.
pub fn run(seed: u64, fault: Option<Fault>) -> Checked {
    let mut rng = Rng::with_seed(seed);
    let trouble = match rng.u8(0..8) {
        0 => Trouble::None,
        1..5 => Trouble::Nodes,
        _ => Trouble::All,
    };
    let mut world = World::new(rng, trouble, fault);
    world.live().map_err(|e| format!("seed {seed}, {trouble:?}, {} ms: {e}", world.now_ns / MS))
}

impl World {
    fn new(mut rng: Rng, trouble: Trouble, fault: Option<Fault>) -> Self {
        let ids: Vec<NodeId> = (1..=rng.u16(2..4)).map(NodeId).collect();
        let mut owners = Owners::default();
        for (id, vm) in ids.iter().flat_map(|id| VMS.map(|vm| (id, vm))) {
            let first = 100 + i32::from(id.0) * SLOTS;
            let range = SlotRange::new(first, first + SLOTS - 1).expect("not empty");
            owners.add(vm, range, *id).expect("disjoint");
        }
        let after = [EndSign::Left, EndSign::Refused, EndSign::Silence][rng.usize(0..3)];
        node::add_backups(&mut owners, &ids, after);
        let limits =
            Limits { calls: 5, calls_of_vm: 3, waiting: 5, waiting_of_vm: 3, ..Limits::default() };
        let limits = Limits { pieced_bytes: 200, ..limits };
        let settings = Settings {
            limits,
            inline_bytes: INLINE_BYTES,
            piece_bytes: PIECE_BYTES,
            copy_window_bytes: COPY_WINDOW_BYTES,
            ..Settings::default()
        };
        let mut nodes: Vec<Node> =
            ids.iter().map(|id| Node::new(*id, &owners, &ids, settings)).collect();
        for node in &mut nodes {
            node.start(MS, (&owners, &ids), settings, fault);
        }
        let mut network = Network::default();
        network.lossy = trouble == Trouble::All;
        for one in &ids {
            for other in ids.iter().filter(|other| one < other) {
                network.at(MS, Event::Connect((*one, *other)));
            }
        }
        network.at(20 * MS, Event::Act);
        if trouble != Trouble::None {
            network.at(20 * MS + rng.u64(0..500 * MS), Event::Trouble);
        }
        let (now_ns, ledger) = (MS, Ledger::default());
        Self {
            now_ns,
            rng,
            network,
            nodes,
            ledger,
            owners,
            settings,
            fault,
            trouble,
            acts: 0,
            put_off: 0,
            healing: false,
            given: BTreeSet::new(),
            sent_again: BTreeSet::new(),
        }
    }

    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    pub fn at(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[usize::from(id.0) - 1]
    }

    pub fn clock_ns(&self, id: NodeId) -> u64 {
        self.nodes[usize::from(id.0) - 1].clock_ns(self.now_ns)
    }

    fn live(&mut self) -> Checked {
        let (mut end_ns, mut events) = (u64::MAX, 0);
        let (mut latest_ns, mut steps) = (0, 0_u32);
        loop {
            steps = if self.now_ns == latest_ns { steps + 1 } else { 0 };
            latest_ns = self.now_ns;
            if steps > STEPS_AT_ONCE {
                return Err(format!(
                    "a machine spins: {:?}",
                    self.nodes[self.next_timer().1].machine
                ));
            }
            if self.healing && end_ns == u64::MAX {
                end_ns = self.now_ns + REST_NS;
            }
            let event_ns = self.network.next_ns().unwrap_or(u64::MAX);
            let (timer_ns, index) = self.next_timer();
            if event_ns.min(timer_ns) > end_ns {
                break;
            }
            if timer_ns < event_ns {
                self.now_ns = self.now_ns.max(timer_ns);
                let id = self.nodes[index].id;
                let clock_ns = self.nodes[index].clock_ns(self.now_ns);
                self.nodes[index].machine.tick(clock_ns);
                self.drain(id)?;
            } else if let Some(event) = self.network.pop() {
                self.now_ns = event_ns;
                events += 1;
                if events > EVENTS + self.put_off {
                    return Err("two machines answer each other without end".to_owned());
                }
                self.event(event)?;
            }
            if self.is_at_rest() {
                break;
            }
        }
        self.ledger.rest()?;
        self.places_agree()?;
        if !self.has_no_copies() {
            let copies = self.nodes.iter().map(|node| &node.copies);
            return Err(format!("copies never ended: {:?}", copies.collect::<Vec<_>>()));
        }
        match self.nodes.iter().find(|node| !node.machine.is_idle()) {
            Some(node) => Err(format!("node {} keeps something: {:?}", node.id.0, node.machine)),
            None => Ok(()),
        }
    }

    fn is_at_rest(&self) -> bool {
        self.healing
            && self.nodes.iter().all(|node| node.is_up && node.machine.is_idle())
            && self.nodes.iter().all(|node| node.calls.is_empty() && node.offered.is_empty())
            && self.has_no_copies()
            && self.ledger.rest().is_ok()
            && self.places_agree().is_ok()
    }

    fn next_timer(&self) -> (u64, usize) {
        let running = self.nodes.iter().enumerate().filter(|(_, it)| it.is_up && !it.paused);
        let due = running.filter_map(|(index, node)| {
            let at_ns = node.machine.next_timeout_ns()?;
            Some((at_ns.saturating_sub(node.ahead_ns).max(self.now_ns), index))
        });
        due.min().unwrap_or((u64::MAX, 0))
    }

    fn event(&mut self, event: Event) -> Checked {
        match event {
            Event::Packet { from, to, connection, bytes } => {
                self.input(to, Event::Packet { from, to, connection, bytes })
            }
            Event::Connected { node, .. } | Event::Disconnected { node, .. } => {
                self.input(node, event)
            }
            Event::Connect(pair) => {
                let up = [pair.0, pair.1].iter().all(|id| self.at(*id).is_up);
                if !self.network.is_connected(pair) && up && !self.network.is_parted(pair) {
                    self.network.connect(pair, self.now_ns, &mut self.rng);
                } else {
                    self.refuse(pair)?;
                    self.refuse((pair.1, pair.0))?;
                }
                let again_ns = self.now_ns + self.rng.u64(20 * MS..200 * MS);
                self.network.at(again_ns, Event::Connect(pair));
                Ok(())
            }
            Event::Heal(pair) => self.heal(pair),
            Event::Act => self.act(),
            Event::Trouble => self.cause_trouble(),
            Event::Restart(id) => self.restart(id),
            Event::Resume(id) => {
                self.at(id).paused = false;
                Ok(())
            }
            Event::Withdrawal(id, delivery) => self.decide_withdrawal(id, delivery),
            Event::TakePlace(id, place) => self.bind_backup(id, place),
            Event::SendAgain(id, number) => self.send_again(id, number),
        }
    }

    /// An input of a machine. A stopped node gets it when it runs again.
    fn input(&mut self, id: NodeId, event: Event) -> Checked {
        let later_ns = self.now_ns + 10 * MS;
        let now_ns = self.now_ns;
        let node = self.at(id);
        if !node.is_up {
            return Ok(());
        }
        if node.paused {
            self.network.at(later_ns, event);
            self.put_off += 1;
            return Ok(());
        }
        let clock_ns = node.clock_ns(now_ns);
        match event {
            Event::Packet { from, connection, bytes, .. } => {
                node.machine.received(clock_ns, from, connection, bytes);
            }
            Event::Connected { peer, connection, .. } => {
                node.machine.connected(clock_ns, peer, connection);
            }
            Event::Disconnected { peer, connection, .. } => {
                node.machine.disconnected(clock_ns, peer, connection);
                let sign = self.sign_of(peer);
                if let Some(sign) = sign.filter(|_| self.rng.bool()) {
                    self.at(id).machine.gone(clock_ns, peer, sign);
                }
            }
            _ => {}
        }
        self.drain(id)
    }

    /// Carries out all actions of a machine, and transmits its packets.
    pub fn drain(&mut self, id: NodeId) -> Checked {
        while let Some(action) = self.at(id).machine.poll_action() {
            self.action(id, action)?;
        }
        for peer in self.ids() {
            for lane in Lane::ALL {
                let clock_ns = self.clock_ns(id);
                let mut packets = 0_u32;
                while let Some(packet) = self.at(id).machine.poll_transmit(clock_ns, peer, lane) {
                    packets += 1;
                    if packets > PACKETS_AT_ONCE {
                        let packet = packet.into_packet();
                        let last = m3ipc_fabric::decode(&packet);
                        return Err(format!("node {} sends without end: {last:?}", id.0));
                    }
                    let way = (packet.connection, lane);
                    let (now_ns, rng) = (self.now_ns, &mut self.rng);
                    self.network.transmit((id, peer), way, packet.into_packet(), now_ns, rng);
                }
            }
            let bytes = self.at(id).machine.bytes_of(peer);
            if bytes > self.settings.memory_max_bytes() {
                return Err(format!("node {} keeps {bytes} bytes for {}", id.0, peer.0));
            }
        }
        match self.at(id).machine.poll_action() {
            Some(action) => {
                self.action(id, action)?;
                self.drain(id)
            }
            None => self.refused_ones_wait_for_room(id),
        }
    }

    fn action(&mut self, id: NodeId, action: Action) -> Checked {
        let now_ns = self.now_ns;
        let Some(action) = self.copy_action(id, action)? else { return Ok(()) };
        let Some(action) = self.place_action(id, action)? else { return Ok(()) };
        match action {
            Action::Ended { call, outcome } => {
                let peaceful = self.trouble == Trouble::None;
                match self.at(id).calls.remove(&call) {
                    Some(call) if self.is_sent_again(id, call, &outcome) => Ok(()),
                    Some((number, _)) => self.ledger.ended(number, outcome, peaceful),
                    None => Err(format!("{call:?} ended, which is not open")),
                }
            }
            Action::RequestTaken { call } => match self.at(id).calls.get(&call).copied() {
                Some((number, _)) => self.ledger.request_taken(number),
                None => Err(format!("{call:?} was taken, which is not open")),
            },
            Action::Deliver { delivery, from, to, kind, content } => {
                let receiver = EndpointId::new(from.vm, to);
                if !is_backed(from) {
                    let sender = self.node_of(from);
                    self.ledger.met(sender, receiver);
                }
                let node = self.at(id);
                if !node.endpoints.contains(&receiver) {
                    return Err(format!("{receiver:?} is dead and is offered a message"));
                }
                let number = number_of(&content.payload);
                if content.long != payload_of(number) || content.is_block != is_block(number) {
                    return Err(format!("{number} has another payload: {content:?}"));
                }
                // A link has one slot for messages. Calls of pulses are queued one after another.
                let is_same_way = |it: &Offered| {
                    it.kind.is_message() == kind.is_message() && it.kind != CallKind::Wakeup
                };
                let same = |it: &Offered| it.from == from && it.to == to && is_same_way(it);
                if kind != CallKind::Wakeup && node.offered.values().any(same) {
                    return Err(format!("{number} is offered to {to:?} beside an earlier one"));
                }
                node.offered.insert(delivery, Offered { from, to, kind, number });
                Ok(())
            }
            Action::Withdraw { delivery } => {
                self.at(id).withdrawing.insert(delivery);
                let wait_ns = if self.rng.bool() { 0 } else { self.rng.u64(0..60 * MS) };
                self.network.at(now_ns + wait_ns, Event::Withdrawal(id, delivery));
                Ok(())
            }
            Action::Abandon { delivery } => {
                self.at(id).owed.remove(&delivery);
                Ok(())
            }
            Action::Notify { from, to, argument } => self.ledger.notification((from, to), argument),
            Action::Bound { endpoint } | Action::Died { endpoint } if is_backed(endpoint) => Ok(()),
            Action::Bound { endpoint } => {
                let of = self.node_of(endpoint);
                let is_other = of != id;
                is_other.then_some(()).ok_or(format!("{endpoint:?} of {id:?} is said to be bound"))
            }
            Action::Died { endpoint } => {
                let of = self.node_of(endpoint);
                if self.at(of).endpoints.contains(&endpoint) {
                    return Err(format!("{endpoint:?} is said to be dead"));
                }
                self.ledger.heard(id, endpoint);
                Ok(())
            }
            // All machines here are honest.
            Action::NodeLost { node, cause: Failure::Broke } => {
                Err(format!("{id:?} says that {node:?} broke the rules"))
            }
            Action::NodeLost { node, .. } => {
                self.lost_shares(id, node);
                self.node_lost(id, node)
            }
            Action::Room { node, vm } => {
                self.heard_of_room(id, node, vm);
                Ok(())
            }
            Action::Close { node, connection } => {
                let pair = pair(id, node);
                self.network.disconnect(pair, connection, now_ns, &mut self.rng);
                Ok(())
            }
            Action::NodeUp { node, incarnation } => {
                self.at(id).met.insert(node, incarnation.0);
                Ok(())
            }
            Action::Refused { .. } => Ok(()),
            other => Err(format!("{other:?} is no action of messages")),
        }
    }

    pub fn node_of(&self, endpoint: EndpointId) -> NodeId {
        self.owners.owner(endpoint).expect("the simulation uses owned slots")
    }

    fn node_lost(&mut self, id: NodeId, lost: NodeId) -> Checked {
        let owners = self.owners.clone();
        self.ledger.parted(id, lost, |it| owners.owner(it).expect("owned"));
        let node = self.at(id);
        let left = |(delivery, it): (&DeliveryId, &Offered)| {
            // More than one node may have had a backed one.
            !is_backed(it.from)
                && owners.owner(it.from) == Some(lost)
                && !node.withdrawing.contains(delivery)
        };
        match node.offered.iter().find(|it| left(*it)) {
            Some((_, it)) => {
                Err(format!("{} may be taken after the end of its session", it.number))
            }
            None => Ok(()),
        }
    }

    fn decide_withdrawal(&mut self, id: NodeId, delivery: DeliveryId) -> Checked {
        let taken = self.rng.u8(..) < 60;
        let now_ns = self.now_ns;
        let node = self.at(id);
        if !node.is_up || !node.withdrawing.remove(&delivery) {
            return Ok(());
        }
        if taken {
            return self.take(id, delivery);
        }
        let clock_ns = node.clock_ns(now_ns);
        node.offered.remove(&delivery);
        node.machine.withdrawn(clock_ns, delivery);
        self.drain(id)
    }

    /// An endpoint takes a message.
    pub fn take(&mut self, id: NodeId, delivery: DeliveryId) -> Checked {
        let now_ns = self.now_ns;
        let node = self.at(id);
        let Some(offered) = node.offered.remove(&delivery) else { return Ok(()) };
        node.withdrawing.remove(&delivery);
        if offered.kind == CallKind::Request {
            let receiver = EndpointId::new(offered.from.vm, offered.to);
            node.owed.insert(delivery, (offered.number, receiver));
        }
        let clock_ns = node.clock_ns(now_ns);
        self.ledger.taken(id, offered.number)?;
        self.at(id).machine.taken(clock_ns, delivery);
        self.drain(id)
    }

    fn some_link(&mut self) -> Pair {
        let ids = self.ids();
        let one = self.rng.usize(0..ids.len());
        let other = (one + self.rng.usize(1..ids.len())) % ids.len();
        pair(ids[one], ids[other])
    }

    fn cause_trouble(&mut self) -> Checked {
        if self.healing {
            return Ok(());
        }
        let now_ns = self.now_ns;
        let next_ns = now_ns + self.rng.u64(0..1500 * MS);
        self.network.at(next_ns, Event::Trouble);
        let link = self.some_link();
        match self.rng.u8(0..10) {
            0..4 => {
                for connection in self.network.connections_of(link) {
                    self.network.disconnect(link, connection, now_ns, &mut self.rng);
                }
            }
            4..6 => {
                let most_ns = [200 * MS, 2500 * MS, 9000 * MS][self.rng.usize(0..3)];
                if self.network.part(link, now_ns) {
                    let heal_ns = now_ns + self.rng.u64(0..most_ns);
                    self.network.at(heal_ns, Event::Heal(link));
                }
            }
            6 => {
                // A further connection beside the one that stands.
                if self.network.is_connected(link) && !self.network.is_parted(link) {
                    self.network.connect(link, now_ns, &mut self.rng);
                }
            }
            7 => self.crash(link.0),
            8 => {
                let resume_ns = now_ns + self.rng.u64(0..5000 * MS);
                self.at(link.0).paused = true;
                self.network.at(resume_ns, Event::Resume(link.0));
            }
            _ => {
                let jump_ns = self.rng.u64(0..8000 * MS);
                self.at(link.0).ahead_ns += jump_ns;
            }
        }
        Ok(())
    }

    fn crash(&mut self, id: NodeId) {
        let (now_ns, is_proxy_alone) = (self.now_ns, self.rng.bool());
        let node = self.at(id);
        if !node.is_up {
            return;
        }
        node.is_up = false;
        let again = std::mem::take(&mut node.again).into_keys();
        let numbers = node.calls.values().map(|(number, _)| *number).chain(again);
        let numbers: Vec<u64> = numbers.collect();
        let mut endpoints = std::mem::take(&mut node.endpoints);
        if is_proxy_alone {
            // A backup keeps its place.
            let owners = node.machine.owners().clone();
            let (backups, others) =
                endpoints.into_iter().partition(|it| owners.home(*it) != Some(id));
            (endpoints, node.backups) = (others, backups);
        }
        node.calls.clear();
        node.offered.clear();
        node.withdrawing.clear();
        node.owed.clear();
        node.copies.clear();
        numbers.into_iter().for_each(|number| self.ledger.gave_up(number));
        endpoints.into_iter().for_each(|endpoint| self.ledger.died(endpoint, true));
        let is_silent = self.rng.bool();
        let owners = self.owners.clone();
        for other in self.ids().into_iter().filter(|other| *other != id) {
            self.ledger.parted(id, other, |it| owners.owner(it).expect("owned"));
            if !is_silent {
                for connection in self.network.connections_of(pair(id, other)) {
                    let link = pair(id, other);
                    self.network.disconnect(link, connection, now_ns, &mut self.rng);
                }
            }
        }
        let restart_ns = now_ns + self.rng.u64(50 * MS..4000 * MS);
        self.network.at(restart_ns, Event::Restart(id));
    }

    pub fn restart(&mut self, id: NodeId) -> Checked {
        let (now_ns, ids, settings, fault) = (self.now_ns, self.ids(), self.settings, self.fault);
        let owners = self.owners.clone();
        for other in ids.iter().filter(|other| **other != id) {
            // The kernel of the node refuses what belongs to its earlier life.
            for connection in self.network.connections_of(pair(id, *other)) {
                self.network.disconnect(pair(id, *other), connection, now_ns, &mut self.rng);
            }
        }
        let node = self.at(id);
        if !node.is_up {
            let backups = std::mem::take(&mut node.backups);
            node.start(now_ns, (&owners, &ids), settings, fault);
            backups.into_iter().for_each(|backup| node.bind(now_ns, backup));
        }
        self.drain(id)
    }
}
