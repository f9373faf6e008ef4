//! What really happened: the oracle of the simulation.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::Address;
use m3ipc_fabric::{CallKind, EndpointId, Failure, NodeId, Outcome};

use crate::node::is_backed;

/// The payload of a message or an answer with this number.
#[must_use]
pub fn payload_of(number: u64) -> Vec<u8> {
    let bytes = usize::try_from(number * 37 % 128).unwrap_or(0);
    vec![number.to_le_bytes()[0]; bytes]
}

/// A call, by its number.
#[derive(Debug)]
struct Entry {
    node: NodeId,
    pair: (EndpointId, Address),
    kind: CallKind,
    deliveries: u32,
    outcome: Option<Outcome>,
    /// The caller died or moved before this call: it hears no outcome.
    given_up: Option<u64>,
}

/// All calls, deaths and notifications.
#[derive(Debug, Default)]
pub struct Ledger {
    calls: Vec<Entry>,
    /// The latest number that was taken, per node, pair, and node of the sender.
    taken: BTreeMap<(NodeId, (EndpointId, Address)), BTreeMap<NodeId, u64>>,
    /// The same of pulses.
    pulsed: BTreeMap<(NodeId, (EndpointId, Address)), BTreeMap<NodeId, u64>>,
    /// Notification bits that have not arrived.
    notified: BTreeMap<(EndpointId, Address), u64>,
    /// A node that exchanged messages with an endpoint of another node.
    acquainted: BTreeSet<(NodeId, EndpointId)>,
    /// A node that has to hear of a death.
    unheard: BTreeSet<(NodeId, EndpointId)>,
}

type Checked = Result<(), String>;

impl Ledger {
    pub fn called(&mut self, node: NodeId, pair: (EndpointId, Address), kind: CallKind) -> u64 {
        let entry = Entry { node, pair, kind, deliveries: 0, outcome: None, given_up: None };
        self.calls.push(entry);
        self.calls.len() as u64 - 1
    }

    /// The machine refused the last call.
    pub fn refused(&mut self) {
        self.calls.pop();
    }

    pub fn gave_up(&mut self, number: u64) {
        let next = self.calls.len() as u64;
        if let Some(entry) = self.entry(number) {
            entry.given_up.get_or_insert(next);
        }
    }

    /// The pair of a call and its kind.
    pub fn call_of(&self, number: u64) -> Option<((EndpointId, Address), CallKind)> {
        let entry = self.calls.get(usize::try_from(number).ok()?)?;
        Some((entry.pair, entry.kind))
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.calls.get_mut(usize::try_from(number).ok()?)
    }

    /// Whether a later message of the same pair was taken.
    pub fn was_passed(&self, number: u64) -> bool {
        let entry = usize::try_from(number).ok().and_then(|number| self.calls.get(number));
        entry.is_some_and(|entry| {
            let of_pair = self.taken.iter().filter(|((_, pair), _)| *pair == entry.pair);
            of_pair.flat_map(|(_, latest)| latest.values()).any(|last| *last > number)
        })
    }

    pub fn taken(&mut self, node: NodeId, number: u64) -> Checked {
        let Some(entry) = self.entry(number) else { return Err(format!("{number} is no call")) };
        entry.deliveries += 1;
        let (pair, deliveries, kind) = (entry.pair, entry.deliveries, entry.kind);
        let (sender, given_up) = (entry.node, entry.given_up);
        if deliveries > 1 {
            return Err(format!("{number} was taken twice"));
        }
        if let Some(Outcome::NotDelivered(why)) = entry.outcome {
            return Err(format!("{number} was taken after NotDelivered({why:?})"));
        }
        // Pulses pass messages, but no other pulses. A wakeup passes all.
        let taken = match kind {
            CallKind::Send | CallKind::Request => &mut self.taken,
            CallKind::Pulses => &mut self.pulsed,
            CallKind::Wakeup => return Ok(()),
        };
        let latest = taken.entry((node, pair)).or_default();
        // Of two nodes that are parted, both may have the place of an endpoint: two senders.
        let is_sender =
            |of: NodeId, call: u64| of == sender || given_up.is_some_and(|it| it <= call);
        let later = latest.iter().find(|(of, call)| **call >= number && is_sender(**of, **call));
        if let Some((_, later)) = later {
            return Err(format!("{number} was taken after {later}, of one pair"));
        }
        latest.insert(sender, number);
        // No message passes the pulses before it.
        let passed = self.taken.get(&(node, pair)).filter(|_| kind == CallKind::Pulses);
        let later =
            passed.and_then(|it| it.iter().find(|(of, it)| **it > number && **of == sender));
        match later {
            Some((_, later)) => Err(format!("pulses {number} were queued after message {later}")),
            None => Ok(()),
        }
    }

    pub fn request_taken(&mut self, number: u64) -> Checked {
        match self.entry(number) {
            Some(entry) if entry.deliveries == 1 => Ok(()),
            _ => Err(format!("{number} is said to be taken")),
        }
    }

    pub fn ended(&mut self, number: u64, outcome: Outcome, peaceful: bool) -> Checked {
        let Some(entry) = self.entry(number) else { return Err(format!("{number} is no call")) };
        if entry.outcome.is_some() {
            return Err(format!("{number} ended twice"));
        }
        let is_true = match &outcome {
            Outcome::Taken => entry.kind == CallKind::Send && entry.deliveries == 1,
            Outcome::Done(_) => !entry.kind.is_message() && entry.deliveries == 1,
            Outcome::Answered(_, content) => {
                entry.deliveries == 1
                    && number_of(&content.payload) == number
                    && content.long == payload_of(number)
                    && content.is_block == is_block(number)
            }
            Outcome::NotDelivered(_) => entry.deliveries == 0,
            Outcome::Delivered(_) => entry.kind == CallKind::Request && entry.deliveries == 1,
            Outcome::Unknown(_) => true,
        };
        let broken = Failure::Broke;
        let blames = matches!(
            outcome,
            Outcome::NotDelivered(why) | Outcome::Delivered(why) | Outcome::Unknown(why)
                if why == broken
        );
        let is_vague = peaceful && matches!(outcome, Outcome::Unknown(_));
        if !is_true || blames || is_vague {
            let deliveries = entry.deliveries;
            return Err(format!("{number} ended as {outcome:?} after {deliveries} deliveries"));
        }
        entry.outcome = Some(outcome);
        Ok(())
    }

    pub fn notified(&mut self, pair: (EndpointId, Address), bits: u64) {
        *self.notified.entry(pair).or_default() |= bits;
    }

    pub fn notification(&mut self, pair: (EndpointId, Address), bits: u64) -> Checked {
        let pending = self.notified.entry(pair).or_default();
        // A bit that arrives twice was sent twice: joined in the ledger, apart on the wire.
        *pending &= !bits;
        Ok(())
    }

    pub fn met(&mut self, node: NodeId, endpoint: EndpointId) {
        if is_backed(endpoint) {
            return;
        }
        self.acquainted.insert((node, endpoint));
    }

    /// An endpoint died; `restarts`: with its node.
    pub fn died(&mut self, endpoint: EndpointId, with_node: bool) {
        let observers: Vec<_> =
            self.acquainted.iter().filter(|(_, of)| *of == endpoint).copied().collect();
        for observer in observers {
            self.acquainted.remove(&observer);
            if !with_node {
                self.unheard.insert(observer);
            }
        }
        self.notified
            .retain(|(from, to), _| *from != endpoint && EndpointId::new(from.vm, *to) != endpoint);
    }

    pub fn heard(&mut self, node: NodeId, endpoint: EndpointId) {
        self.unheard.remove(&(node, endpoint));
    }

    /// The session of two nodes ended on either side.
    pub fn parted(&mut self, one: NodeId, other: NodeId, node_of: impl Fn(EndpointId) -> NodeId) {
        let between = |observer: NodeId, of: NodeId| {
            (observer, of) == (one, other) || (observer, of) == (other, one)
        };
        self.acquainted.retain(|(node, endpoint)| !between(*node, node_of(*endpoint)));
        self.unheard.retain(|(node, endpoint)| !between(*node, node_of(*endpoint)));
        self.notified.retain(|(from, to), _| {
            !between(node_of(*from), node_of(EndpointId::new(from.vm, *to)))
        });
    }

    /// Everything has come to rest.
    pub fn rest(&self) -> Checked {
        for (number, entry) in self.calls.iter().enumerate() {
            if entry.outcome.is_none() && entry.given_up.is_none() {
                return Err(format!("{number} of node {} never ended: {entry:?}", entry.node.0));
            }
        }
        if let Some((node, endpoint)) = self.unheard.first() {
            return Err(format!("node {} never heard of the death of {endpoint:?}", node.0));
        }
        match self.notified.iter().find(|(_, bits)| **bits != 0) {
            Some((pair, bits)) => Err(format!("the notification {bits:x} of {pair:?} is lost")),
            None => Ok(()),
        }
    }
}

/// Whether a message and its answer bring a block.
pub const fn is_block(number: u64) -> bool {
    number.is_multiple_of(3)
}

/// The number that a message carries.
pub fn number_of(payload: &[u8; 40]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&payload[..8]);
    u64::from_le_bytes(bytes)
}
