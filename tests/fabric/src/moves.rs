//! Moves: an endpoint with a backup goes to the other node that may have its slot, and its callers
//! send again what was not taken.

use m3ipc_fabric::{Call, CallKind, EndpointId, Failure, NodeId, Outcome};

use crate::acts::content_of;
use crate::network::{Event, MS};
use crate::node::is_backed;
use crate::world::{Checked, World};

impl World {
    /// An endpoint of the node moves, if it may.
    pub fn move_endpoint(&mut self, id: NodeId) -> Checked {
        let backed: Vec<EndpointId> =
            self.at(id).endpoints.iter().copied().filter(|it| is_backed(*it)).collect();
        let Some(endpoint) = self.rng.choice(backed) else { return Ok(()) };
        let clock_ns = self.clock_ns(id);
        if self.at(id).machine.move_target(endpoint).is_err() {
            return Ok(());
        }
        self.forget_endpoint(id, endpoint);
        let moved = self.at(id).machine.moved(clock_ns, endpoint);
        moved.map_err(|refusal| format!("{endpoint:?} may move, and does not: {refusal}"))?;
        self.given.insert((endpoint.vm, endpoint.address.slot()));
        self.ledger.died(endpoint, false);
        self.drain(id)
    }

    /// Whether a call that has ended is sent again, once: its receiver has moved, and nothing of
    /// its caller is under way behind it, or has passed it. A stand-in has one message of a pair.
    pub fn is_sent_again(
        &mut self,
        id: NodeId,
        (number, from): (u64, EndpointId),
        outcome: &Outcome,
    ) -> bool {
        let at_ns = self.now_ns + self.rng.u64(0..300 * MS);
        let node = self.at(id);
        let later = node.calls.values().any(|(it, caller)| *caller == from && *it > number);
        let waits_behind = later || node.again.values().any(|caller| *caller == from);
        let is_behind = waits_behind || self.ledger.was_passed(number);
        let has_moved = *outcome == Outcome::NotDelivered(Failure::Moved);
        // Pulses to an endpoint that has moved are lost, as notifications are.
        let is_lost = self.ledger.call_of(number).is_some_and(|it| it.1 == CallKind::Pulses);
        if !has_moved || is_lost || is_behind || !self.sent_again.insert(number) {
            return false;
        }
        self.at(id).again.insert(number, from);
        self.network.at(at_ns, Event::SendAgain(id, number));
        true
    }

    pub fn send_again(&mut self, id: NodeId, number: u64) -> Checked {
        let clock_ns = self.clock_ns(id);
        let Some(from) = self.at(id).again.remove(&number) else { return Ok(()) };
        let ((_, to), kind) = self.ledger.call_of(number).ok_or("no call")?;
        let node = self.at(id);
        let content = content_of(number);
        let call = Call { from, to, kind, user: None, content, limit_ns: None };
        match node.machine.call(clock_ns, call) {
            Ok(call) => {
                node.calls.insert(call, (number, from));
                let peer = node.machine.owners().owner(EndpointId::new(from.vm, to));
                self.ledger.met(peer.expect("owned"), from);
            }
            Err(_) => {
                self.ledger.ended(number, Outcome::NotDelivered(Failure::Moved), false)?;
            }
        }
        self.drain(id)
    }
}
