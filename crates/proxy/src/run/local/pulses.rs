//! Pulses that cross nodes.
//!
//! The ring of a sender keeps its pulses until the other node has queued them, so a full ring is an
//! error of its sender as on one node. A call carries all pulses that a look has found. The other
//! proxy queues them one after another; those for which the receiver has no room wait there. The
//! machine delivers one call of a pair after another, and no message before the pulses that it
//! follows. Pulses end with a session, as notifications do.

use super::super::ends::Parcel;
use super::super::network::Clock;
use super::Local;
use m3ipc::{Address, Code, NodeError, PULSES_MAX, Pulse, PulseError};
use m3ipc_fabric::{
    Call, CallId, CallKind, CallRefusal, Content, DeliveryId, EndpointId, Failure, Machine,
};
use std::collections::{BTreeMap, VecDeque};

/// The bytes of a pulse in a call: its code, and its value in little-endian order.
const PULSE_BYTES: usize = 9;

/// Pulses on their way to other nodes, and from there.
#[derive(Default)]
pub struct Pulses {
    sent: BTreeMap<CallId, Sent>,
    arrived: Vec<Arrived>,
}

/// Pulses of a local endpoint that a call carries.
struct Sent {
    stand_in: EndpointId,
    from: Address,
    pulses: usize,
}

/// Pulses of a remote endpoint for which the receiver has no room yet.
struct Arrived {
    number: DeliveryId,
    from: EndpointId,
    to: Address,
    pulses: VecDeque<Pulse>,
    is_begun: bool,
}

impl Pulses {
    /// Whether any pulses wait for room: nobody rings when there is some.
    pub fn needs_looks(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// A local endpoint has ended.
    pub fn forget_sender(&mut self, sender: EndpointId) {
        self.sent.retain(|_, it| (it.stand_in.vm, it.from) != (sender.vm, sender.address));
    }
}

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
            Err(_) => entry.stand_in.remove_pulses(from, pulses.len()),
        }
        Ok(())
    }

    /// The end of a call of pulses, which frees their places. `false` if it is another call.
    pub(super) fn end_pulses(&mut self, call: CallId) -> bool {
        let Some(Sent { stand_in, from, pulses }) = self.pulses.sent.remove(&call) else {
            return false;
        };
        if let Some(entry) = self.stand_ins.get_mut(&stand_in) {
            entry.stand_in.remove_pulses(from, pulses);
        }
        true
    }

    /// Pulses of a remote endpoint have arrived.
    pub(super) fn queue_pulses(&mut self, parcel: Parcel, machine: &mut Machine, clock: &Clock) {
        let Parcel { number, from, to, content, .. } = parcel;
        let Some(pulses) = decode(&content.long) else {
            return machine.done(clock.now_ns(), number, Some(Code::Inval));
        };
        self.pulses.arrived.push(Arrived { number, from, to, pulses, is_begun: false });
        self.place_pulses(machine, clock);
    }

    /// Queues the pulses that have arrived, as far as their receivers have room. Whether a call of
    /// pulses has ended.
    pub(super) fn place_pulses(&mut self, machine: &mut Machine, clock: &Clock) -> bool {
        let before = self.pulses.arrived.len();
        self.pulses.arrived.retain_mut(|arrived| {
            let to = arrived.to;
            let end = match self.stand_ins.get_mut(&arrived.from) {
                Some(entry) => arrived.place(|pulse| entry.stand_in.pulse(to, pulse)),
                None => Some(Err(Code::NotConn)),
            };
            let Some(end) = end else { return true };
            machine.done(clock.now_ns(), arrived.number, end.err());
            false
        });
        self.pulses.arrived.len() < before
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
        match arrived.remove(at).is_begun {
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

impl Arrived {
    /// Queues pulses, one after another. `None` if some have no room.
    fn place(
        &mut self,
        mut queue: impl FnMut(Pulse) -> Result<(), PulseError>,
    ) -> Option<Result<(), Code>> {
        while let Some(pulse) = self.pulses.front() {
            match queue(*pulse) {
                Ok(()) => _ = self.pulses.pop_front(),
                Err(PulseError::NotQueued(_)) => return None,
                Err(error) => return Some(Err(error.code())),
            }
            self.is_begun = true;
        }
        Some(Ok(()))
    }
}

fn encode(pulses: &[Pulse]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pulses.len() * PULSE_BYTES);
    for pulse in pulses {
        bytes.push(pulse.code);
        bytes.extend_from_slice(&pulse.value.to_le_bytes());
    }
    bytes
}

/// The pulses of a call; `None` if it has too many or no whole number of them.
fn decode(bytes: &[u8]) -> Option<VecDeque<Pulse>> {
    let (pulses, rest) = bytes.as_chunks::<PULSE_BYTES>();
    let is_valid = rest.is_empty() && pulses.len() <= PULSES_MAX;
    is_valid.then(|| {
        let pulse = |[code, value @ ..]: &[u8; PULSE_BYTES]| Pulse {
            code: *code,
            value: u64::from_le_bytes(*value),
        };
        pulses.iter().map(pulse).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_come_back_from_their_bytes_and_others_are_refused() {
        let pulses: Vec<Pulse> =
            (0..PULSES_MAX as u64).map(|it| Pulse { code: 255, value: u64::MAX - it }).collect();
        assert_eq!(decode(&encode(&pulses)), Some(VecDeque::from(pulses)));
        assert_eq!(decode(&[]), Some(VecDeque::new()));
        assert_eq!(decode(&[0; PULSE_BYTES - 1]), None);
        assert_eq!(decode(&[0; PULSE_BYTES * (PULSES_MAX + 1)]), None);
    }
}
