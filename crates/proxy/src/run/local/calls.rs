//! How the calls of local senders end, and the relays of local servers.
//!
//! A server hands a request on with a relay. The stand-in of the client does not follow it: the
//! client itself asks the next server, from its own node. So the next server may be on any node,
//! and the end of the first one does not touch the call.

use super::super::ends::report;
use super::super::network::Clock;
use super::Local;
use crate::log::say;
use m3ipc::{Code, LONG_MAX_BYTES, Message};
use m3ipc_fabric::{AnswerKind, CallId, Content, EndpointId, Failure, Machine, Outcome};

impl Local {
    /// Whether so many more bytes of a remote endpoint may go to a receiver here. Counts them.
    pub(super) fn admits(&mut self, from: EndpointId, bytes: usize, is_block: bool) -> bool {
        if bytes <= LONG_MAX_BYTES && !is_block {
            return true;
        }
        let Some(node) = self.owners.owner(from) else { return true };
        let here = || {
            let of_node = self.stand_ins.iter_mut();
            let of_node = of_node.filter(|(id, _)| self.owners.owner(**id) == Some(node));
            of_node.map(|(_, entry)| entry.stand_in.bytes_out()).sum()
        };
        self.budget.admits(node, bytes as u64, here)
    }

    /// Reports relays. The machine knows of all binds of this node before a relay to there.
    pub(super) fn report_relays(&mut self, machine: &mut Machine, clock: &Clock) {
        for (number, end) in std::mem::take(&mut self.relayed) {
            report(machine, clock, number, end);
        }
    }

    /// The machine has ended a call.
    pub fn ended(&mut self, call: CallId, outcome: Outcome, machine: &Machine) {
        if self.end_pulses(call) {
            return;
        }
        let Some((id, sender)) = self.calls.remove(&call) else {
            return self.end_wakeup(call, &outcome);
        };
        let has_left = outcome != Outcome::NotDelivered(Failure::LinkDown);
        let is_lost = || self.owners.owner(id).is_some_and(|node| !machine.is_reachable(node));
        if !has_left && is_lost() && self.keep_for_backup(id, sender) {
            if let Some(entry) = self.stand_ins.get_mut(&id) {
                entry.calls.remove(&sender);
            }
            return;
        }
        if outcome == Outcome::NotDelivered(Failure::Moved) && self.sends_again(id, sender) {
            return;
        }
        let has_room = match &outcome {
            Outcome::Answered(_, content) => self.admits(id, content.long.len(), content.is_block),
            _ => true,
        };
        let Some(entry) = self.stand_ins.get_mut(&id) else { return };
        entry.calls.remove(&sender);
        entry.again.remove(&sender);
        let stand_in = &mut entry.stand_in;
        match outcome {
            Outcome::Taken | Outcome::Done(_) => stand_in.taken(sender),
            Outcome::Answered(kind, content) => {
                let Content { m_type, payload, long, is_block } = content;
                let message = Message { payload, ..Message::new(m_type) };
                let answered = match kind {
                    _ if !has_room => Err(Code::Again),
                    AnswerKind::Reply if is_block => {
                        stand_in.answered_by_block(sender, &message, long)
                    }
                    AnswerKind::Reply => stand_in.answered(sender, &message, long),
                    AnswerKind::Relay => stand_in.relayed(sender, &message, &long),
                };
                if let Err(code) = answered {
                    say!("lost answers", "an answer for {sender} is lost: {code}");
                    stand_in.failed(sender, Code::AnswerLost);
                }
            }
            Outcome::Delivered(why) => {
                stand_in.taken(sender);
                stand_in.failed(sender, why.code_after());
            }
            Outcome::NotDelivered(why) => stand_in.failed(sender, why.code_before()),
            Outcome::Unknown(_) => stand_in.failed(sender, Code::Unknown),
        }
    }

    /// The remote receiver has taken a request.
    pub fn request_taken(&mut self, call: CallId) {
        if let Some((id, sender)) = self.calls.get(&call)
            && let Some(entry) = self.stand_ins.get_mut(id)
        {
            entry.stand_in.taken(*sender);
        }
    }
}
