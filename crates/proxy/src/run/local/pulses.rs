//! Pulses between this node and the others: see [`super::super::pulses`].

use super::super::ends::Parcel;
use super::super::network::Clock;
use super::super::pulses::{Arrived, Sent, encode};
use super::Local;
use m3ipc::{Address, Code, NodeError, Pulse};
use m3ipc_fabric::{
    Call, CallId, CallKind, CallRefusal, Content, DeliveryId, EndpointId, Failure, Machine,
};
use std::time::Instant;

impl Local {
    /// Sends pulses of a local endpoint on. Without room they stay in their ring, and the look that
    /// follows [`room`](Self::room) finds them again.
    pub(super) fn send_pulses(
        &mut self,
        stand_in: EndpointId,
        from: Address,
        pulses: &[Pulse],
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        let Some(entry) = self.stand_ins.get(&stand_in) else { return Ok(()) };
        let sender = EndpointId::new(stand_in.vm, from);
        let user = entry.stand_in.user_of(from);
        let content = Content { long: encode(pulses), ..Content::new(0) };
        let (to, kind, limit_ns) = (stand_in.address, CallKind::Pulses, None);
        let call = Call { from: sender, to, kind, user, content, limit_ns };
        let mut may_call = machine.may_call(clock.now_ns(), &call);
        if may_call == Err(CallRefusal::NoEndpoint) {
            // The sender may be new.
            self.read_events(super::EVENTS_QUEUED, machine, clock)?;
            may_call = machine.may_call(clock.now_ns(), &call);
        }
        let Some(entry) = self.stand_ins.get_mut(&stand_in) else { return Ok(()) };
        match may_call {
            Ok(node) => {
                let call = machine.begin_call(node, call);
                self.pulses.sent.insert(call, Sent { stand_in, from, pulses: pulses.len() });
            }
            Err(CallRefusal::Full(_)) => {
                entry.blocked = true;
                entry.stand_in.return_pulses(from, pulses.len());
            }
            Err(CallRefusal::Share(_)) => entry.stand_in.return_pulses(from, pulses.len()),
            // They are lost with the node or the endpoint, as notifications are.
            Err(_) => _ = entry.stand_in.remove_pulses(from, pulses.len()),
        }
        Ok(())
    }

    /// The end of a call of pulses, which frees their places. `false` if it is another call.
    pub(super) fn end_pulses(&mut self, call: CallId) -> bool {
        let Some(Sent { stand_in, from, pulses }) = self.pulses.sent.remove(&call) else {
            return false;
        };
        if let Some(entry) = self.stand_ins.get_mut(&stand_in) {
            // What has waited behind them has no new mark.
            let has_left_any = entry.stand_in.remove_pulses(from, pulses);
            entry.attention.has_rung |= has_left_any && !entry.blocked;
        }
        true
    }

    /// Pulses of a remote endpoint have arrived.
    pub(super) fn queue_pulses(&mut self, parcel: Parcel, machine: &mut Machine, clock: &Clock) {
        let Parcel { number, from, to, content, .. } = parcel;
        let Some(mut arrived) = Arrived::new(number, from, to, &content.long) else {
            return machine.done(clock.now_ns(), number, Some(Code::Inval));
        };
        match self.place(&mut arrived) {
            Some(end) => machine.done(clock.now_ns(), number, end.err()),
            None => {
                self.pulses.arrived.push(arrived);
                self.looks.look_soon(Instant::now());
            }
        }
    }

    fn place(&mut self, arrived: &mut Arrived) -> Option<Result<(), Code>> {
        match self.stand_ins.get_mut(&arrived.from) {
            Some(entry) => arrived.place(&mut entry.stand_in),
            None => Some(Err(Code::NotConn)),
        }
    }

    /// Queues the pulses that wait for room, as far as their receivers have some now. Whether a
    /// call of pulses has ended.
    pub(super) fn place_pulses(&mut self, machine: &mut Machine, clock: &Clock) -> bool {
        let mut has_ended = false;
        for mut arrived in std::mem::take(&mut self.pulses.arrived) {
            match self.place(&mut arrived) {
                Some(end) => {
                    machine.done(clock.now_ns(), arrived.number, end.err());
                    has_ended = true;
                }
                None => self.pulses.arrived.push(arrived),
            }
        }
        has_ended
    }

    /// Takes pulses back that have arrived. `false` if the delivery is another one.
    pub(super) fn withdraw_pulses(
        &mut self,
        number: DeliveryId,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let arrived = &mut self.pulses.arrived;
        let Some(at) = arrived.iter().position(|it| it.number == number) else { return false };
        match arrived.remove(at).is_begun() {
            true => machine.taken(clock.now_ns(), number),
            false => machine.withdrawn(clock.now_ns(), number),
        }
        true
    }

    /// The pulses of a remote endpoint that wait for room are lost with it.
    pub(super) fn drop_pulses_of(
        &mut self,
        from: EndpointId,
        machine: &mut Machine,
        clock: &Clock,
    ) {
        self.pulses.arrived.retain(|it| {
            let stays = it.from != from;
            if !stays {
                machine.refused(clock.now_ns(), it.number, Failure::Died);
            }
            stays
        });
    }
}
