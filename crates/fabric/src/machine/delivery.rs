//! A message of a remote endpoint that is not taken, or not answered.

use std::collections::{BTreeMap, VecDeque};

use m3ipc_abi::Address;

use crate::ids::{CallId, DeliveryId, EndpointId, NodeId};
use crate::outcome::Content;
use crate::packet::CallKind;

/// Source and receiver.
pub(super) type Pair = (EndpointId, Address);

/// What waits for its turn, in a queue of its own for each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queue {
    Messages,
    Pulses,
}

impl Queue {
    /// The queue of a call; `None` if it waits for no other one.
    pub fn of(kind: CallKind) -> Option<Self> {
        match kind {
            CallKind::Send | CallKind::Request => Some(Self::Messages),
            CallKind::Pulses => Some(Self::Pulses),
            CallKind::Wakeup => None,
        }
    }
}

/// All messages of remote endpoints.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub deliveries: BTreeMap<DeliveryId, Delivery>,
    /// The deliveries of each pair that are not taken. The first one is offered.
    pub pairs: BTreeMap<(Pair, Queue), VecDeque<DeliveryId>>,
    /// Taken requests whose requester has not been told, with the times at which that is due.
    pub untold: BTreeMap<(Pair, DeliveryId), u64>,
    pub last: u64,
}

impl Incoming {
    pub fn first(&self, pair: Pair, queue: Queue) -> Option<DeliveryId> {
        self.pairs.get(&(pair, queue)).and_then(|queue| queue.front()).copied()
    }
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Offered,
    Withdrawing,
    Taken { told: bool },
}

/// A message of a remote endpoint.
#[derive(Debug)]
pub(super) struct Delivery {
    pub node: NodeId,
    pub call: CallId,
    pub pair: Pair,
    pub kind: CallKind,
    pub state: State,
    /// The message, until it is offered.
    pub content: Option<Content>,
    /// Whether its payload is under way in pieces.
    pub is_incomplete: bool,
    /// Its session has ended: nobody gets its end.
    pub orphaned: bool,
}

impl Delivery {
    pub fn bytes(&self) -> u64 {
        self.content.as_ref().map_or(0, Content::bytes) + 256
    }

    pub fn to(&self) -> EndpointId {
        EndpointId::new(self.pair.0.vm, self.pair.1)
    }
}
