//! Pulses that cross nodes.
//!
//! The ring of a sender keeps its pulses until the other node has queued them, so a full ring is an
//! error of its sender as on one node. A call carries all pulses that a look has found. The other
//! proxy queues them one after another; those for which the receiver has no room wait there. The
//! machine delivers one call of a pair after another, and no message before the pulses that it
//! follows. Pulses end with a session, as notifications do.

use m3ipc::nodes::StandIn;
use m3ipc::{Address, Code, PULSES_MAX, Pulse};
use m3ipc_fabric::{CallId, DeliveryId, EndpointId};
use std::collections::{BTreeMap, VecDeque};

/// The bytes of a pulse in a call: its code, and its value in little-endian order.
const PULSE_BYTES: usize = 9;

/// Pulses on their way to other nodes, and from there.
#[derive(Default)]
pub struct Pulses {
    pub sent: BTreeMap<CallId, Sent>,
    pub arrived: Vec<Arrived>,
}

/// Pulses of a local endpoint that a call carries.
pub struct Sent {
    pub stand_in: EndpointId,
    pub from: Address,
    pub pulses: usize,
}

/// Pulses of a remote endpoint for which the receiver has no room yet.
pub struct Arrived {
    pub number: DeliveryId,
    pub from: EndpointId,
    pub to: Address,
    pulses: VecDeque<Pulse>,
    is_begun: bool,
}

impl Pulses {
    /// Whether any pulses wait for room: nobody rings when there is some.
    pub fn needs_looks(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// A local endpoint has ended.
    pub fn forget_local(&mut self, id: EndpointId) {
        self.sent.retain(|_, it| (it.stand_in.vm, it.from) != (id.vm, id.address));
        self.arrived.retain(|it| (it.from.vm, it.to) != (id.vm, id.address));
    }

    /// A stand-in has ended, and with it the rings of what it sent.
    pub fn forget_stand_in(&mut self, id: EndpointId) {
        self.sent.retain(|_, it| it.stand_in != id);
    }
}

impl Arrived {
    /// Pulses that have just arrived; `None` if their bytes are none of pulses.
    pub fn new(number: DeliveryId, from: EndpointId, to: Address, bytes: &[u8]) -> Option<Self> {
        Some(Self { number, from, to, pulses: decode(bytes)?, is_begun: false })
    }

    /// Whether a pulse was queued.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Queues pulses, one after another. `None` if some wait: for room, or for the link.
    pub fn place(&mut self, stand_in: &mut StandIn) -> Option<Result<(), Code>> {
        while let Some(pulse) = self.pulses.front() {
            match stand_in.pulse(self.to, *pulse) {
                Ok(true) => _ = self.pulses.pop_front(),
                Ok(false) => return None,
                Err(code) => return Some(Err(code)),
            }
            self.is_begun = true;
        }
        Some(Ok(()))
    }
}

/// The bytes of pulses in a call.
pub fn encode(pulses: &[Pulse]) -> Vec<u8> {
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
