//! What endpoints do at random: calls, takes, answers, withdrawals, deaths.

use m3ipc_abi::Address;
use m3ipc_fabric::{
    AnswerKind, Call, CallKind, CallRefusal, Content, DeliveryId, EndpointId, NodeId,
};

use crate::ledger::{is_block, payload_of};
use crate::network::{Event, MS};
use crate::node::{Offered, is_backed};
use crate::shares::user_of;
use crate::world::{ACTS, Checked, World};

/// The content of a message with this number.
pub fn content_of(number: u64) -> Content {
    let mut content = Content::new(7);
    content.payload[..8].copy_from_slice(&number.to_le_bytes());
    content.long = payload_of(number);
    content.is_block = is_block(number);
    content
}

impl World {
    pub fn act(&mut self) -> Checked {
        self.acts += 1;
        if self.acts == ACTS {
            self.begin_healing()?;
        }
        let most_ns = if self.healing { 5 } else { 30 };
        let next_ns = self.now_ns + self.rng.u64(0..most_ns * MS);
        self.network.at(next_ns, Event::Act);
        let index = self.rng.usize(0..self.nodes.len());
        let node = &self.nodes[index];
        if !node.is_up || node.paused {
            return Ok(());
        }
        let id = node.id;
        let kind = if self.healing { self.rng.u8(12..20) } else { self.rng.u8(0..26) };
        match kind {
            0..8 => self.call(id),
            8 | 9 => self.notify(id),
            10 => self.withdraw(id),
            11 => self.kill_endpoint(id),
            12..16 => {
                let offered: Vec<DeliveryId> = self.at(id).offered.keys().copied().collect();
                match self.rng.choice(offered) {
                    Some(delivery) => self.take(id, delivery),
                    None => Ok(()),
                }
            }
            16..20 => self.answer(id),
            20 => self.watch(id),
            21 => self.abort_copy(id),
            22 => self.move_endpoint(id),
            _ => self.copy(id),
        }
    }

    fn some_endpoint(&mut self, of: NodeId) -> Option<EndpointId> {
        let endpoints = self.at(of).endpoints.clone();
        self.rng.choice(endpoints)
    }

    /// A local caller and a remote address of its VM: mostly a living one.
    /// Neither has a backup: their deaths and notifications are counted.
    pub fn some_pair(&mut self, id: NodeId) -> Option<(EndpointId, Address)> {
        let (from, to) = self.any_pair(id)?;
        let is_plain = !is_backed(from) && !is_backed(EndpointId::new(from.vm, to));
        is_plain.then_some((from, to))
    }

    /// The same, of all endpoints.
    fn any_pair(&mut self, id: NodeId) -> Option<(EndpointId, Address)> {
        let from = self.some_endpoint(id)?;
        let others: Vec<NodeId> = self.ids().into_iter().filter(|other| *other != id).collect();
        let other = self.rng.choice(others)?;
        let mut all = self.at(other).endpoints.clone();
        all.retain(|it| it.vm == from.vm);
        let to = self.rng.choice(all)?;
        let stale = self.rng.u8(..) < 10;
        let address = to.address;
        let generation = address.generation() - i32::from(stale);
        Some((from, Address::new(generation, address.slot())))
    }

    fn call(&mut self, id: NodeId) -> Checked {
        let Some((from, to)) = self.any_pair(id) else { return Ok(()) };
        let node = self.at(id);
        let open = node.calls.values().filter(|(_, caller)| *caller == from).count();
        // A message that is sent again is ahead of later ones.
        if open >= 2 || node.again.values().any(|caller| *caller == from) {
            return Ok(());
        }
        let kind = match self.rng.u8(0..9) {
            0 | 1 => CallKind::Send,
            2..6 => CallKind::Request,
            6 | 7 => CallKind::Pulses,
            _ => CallKind::Wakeup,
        };
        let number = self.ledger.called(id, (from, to), kind);
        let content = content_of(number);
        let clock_ns = self.clock_ns(id);
        let limit_ns = match self.rng.u8(0..4) {
            0 => Some(clock_ns + self.rng.u64(0..30 * MS)),
            1 => Some(clock_ns + self.rng.u64(0..3000 * MS)),
            _ => None,
        };
        let node = self.at(id);
        let user = user_of(from, kind);
        match node.machine.call(clock_ns, Call { from, to, kind, user, content, limit_ns }) {
            Ok(call) => {
                node.calls.insert(call, (number, from));
                // The node to which the machine has sent it.
                let peer = node.machine.owners().owner(EndpointId::new(from.vm, to));
                let peer = peer.expect("owned");
                self.ledger.met(peer, from);
                if let Some(user) = user {
                    self.accepted(id, call, (peer, from.vm, user))?;
                }
            }
            Err(refusal) => {
                self.ledger.refused();
                if let (CallRefusal::Share(peer), Some(user)) = (refusal, user) {
                    self.refused_share(id, (peer, from.vm, user), to);
                }
            }
        }
        self.drain(id)
    }

    fn notify(&mut self, id: NodeId) -> Checked {
        let Some((from, to)) = self.some_pair(id) else { return Ok(()) };
        let (now_ns, bits) = (self.now_ns, 1 << self.rng.u32(0..64));
        let other = self.node_of(EndpointId::new(from.vm, to));
        let lives = self.at(other).endpoints.contains(&EndpointId::new(from.vm, to));
        let node = self.at(id);
        let clock_ns = node.clock_ns(now_ns);
        if node.machine.notify(clock_ns, from, to, bits).is_ok() {
            self.ledger.met(other, from);
            if lives {
                self.ledger.notified((from, to), bits);
            }
        }
        // Sometimes more than one waits for the same packet.
        if self.rng.bool() { Ok(()) } else { self.drain(id) }
    }

    fn watch(&mut self, id: NodeId) -> Checked {
        let Some((from, to)) = self.some_pair(id) else { return Ok(()) };
        let clock_ns = self.clock_ns(id);
        let _ = self.at(id).machine.watch(clock_ns, EndpointId::new(from.vm, to));
        self.drain(id)
    }

    fn withdraw(&mut self, id: NodeId) -> Checked {
        let calls: Vec<_> = self.at(id).calls.keys().copied().collect();
        let Some(call) = self.rng.choice(calls) else { return Ok(()) };
        let clock_ns = self.clock_ns(id);
        self.at(id).machine.withdraw(clock_ns, call);
        self.drain(id)
    }

    fn answer(&mut self, id: NodeId) -> Checked {
        let owed: Vec<_> =
            self.at(id).owed.iter().map(|(it, (number, _))| (*it, *number)).collect();
        let Some((delivery, number)) = self.rng.choice(owed) else { return Ok(()) };
        let mut content = Content::new(8);
        content.payload[..8].copy_from_slice(&number.to_le_bytes());
        content.long = payload_of(number);
        content.is_block = is_block(number);
        let clock_ns = self.clock_ns(id);
        let node = self.at(id);
        node.owed.remove(&delivery);
        // The machine said so before if nobody awaits the answer: it abandons the delivery.
        let answered = node.machine.answer(clock_ns, delivery, AnswerKind::Reply, &content);
        if answered.is_err() {
            return Err(format!("{number} is not awaited, and was not abandoned"));
        }
        self.drain(id)
    }

    fn kill_endpoint(&mut self, id: NodeId) -> Checked {
        let Some(endpoint) = self.some_endpoint(id) else { return Ok(()) };
        // The bind of a successor tells of the death, too.
        let has_successor = self.rng.u8(0..4) > 0;
        self.end_endpoint(id, endpoint, has_successor)
    }

    /// An endpoint dies, and may have a successor.
    pub fn end_endpoint(
        &mut self,
        id: NodeId,
        endpoint: EndpointId,
        has_successor: bool,
    ) -> Checked {
        let clock_ns = self.clock_ns(id);
        self.forget_endpoint(id, endpoint);
        let node = self.at(id);
        node.machine.died(clock_ns, endpoint);
        let address = endpoint.address;
        let next = Address::new(address.generation() + 1, address.slot());
        // The daemon binds no slot of another node.
        if has_successor && node.machine.owners().owner(endpoint) == Some(id) {
            node.bind(clock_ns, EndpointId::new(endpoint.vm, next));
        }
        self.ledger.died(endpoint, false);
        self.drain(id)
    }

    /// An endpoint has ended: so has the local side of all that it did.
    pub fn forget_endpoint(&mut self, id: NodeId, endpoint: EndpointId) {
        let node = self.at(id);
        node.endpoints.retain(|it| *it != endpoint);
        let is_own = |it: &Offered| EndpointId::new(it.from.vm, it.to) == endpoint;
        node.offered.retain(|_, it| !is_own(it));
        let calls = node.calls.values().map(|(number, caller)| (*number, *caller));
        let calls = calls.chain(node.again.iter().map(|(number, caller)| (*number, *caller)));
        let given_up: Vec<u64> =
            calls.filter(|(_, it)| *it == endpoint).map(|(number, _)| number).collect();
        node.calls.retain(|_, (_, caller)| *caller != endpoint);
        node.again.retain(|_, caller| *caller != endpoint);
        node.owed.retain(|_, (_, to)| *to != endpoint);
        self.forget_copies(id, endpoint);
        given_up.into_iter().for_each(|number| self.ledger.gave_up(number));
    }
}
