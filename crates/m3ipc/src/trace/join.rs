//! Joins records to messages, and messages to calls.
//!
//! The records of sender and receiver are halves of one message if sender, receiver, kind and
//! number agree. A request and the answer that names it are a call. Endpoints may write false
//! records, so the memory is bounded: the half that waits longest is forgotten first.

use super::phases::{CallPhases, Phases};
use super::transfer::{Side, Transfer};
use m3ipc_abi::Address;
use m3ipc_link::{MessageKind, TraceHalf, TraceRecord, TraceWhat};
use std::collections::{BTreeMap, VecDeque};

/// A request and its answer.
///
/// ```
/// use m3ipc::Address;
/// use m3ipc::trace::{Join, MessageKind, TraceHalf, TraceRecord, TraceWhat};
///
/// let (client, server) = (Address(1), Address(2));
/// let mut join = Join::new(10_000);
/// // A request at tick 0, its answer at tick 100; each with the records of both sides.
/// for (from, to, kind, answers, at) in [
///     (client, server, MessageKind::Request, 0, 0),
///     (server, client, MessageKind::Reply, 1, 100),
/// ] {
///     let half = TraceHalf::Gave { begun: at, ready: at + 10, published: at + 20, wake: None };
///     let what = TraceWhat::Message(kind);
///     let gave = TraceRecord { what, sequence: 1, answers, peer: to, m_type: 7, bytes: 0, half };
///     let (looked, found, taken, done) = (at + 25, at + 30, at + 40, at + 50);
///     let half = TraceHalf::Took { ran: None, looked, found, taken, done };
///     join.add(from, &gave);
///     join.add(to, &TraceRecord { peer: from, half, ..gave });
/// }
/// let call = join.take_calls()[0];
/// assert_eq!((call.ticks(), call.phases().server), (150, 50));
/// assert_eq!(call.phases().total(), call.phases().both().total() + 50);
/// assert_eq!(call.phases().request.deliver, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub request: Transfer,
    /// The answer.
    pub answer: Transfer,
}

impl Call {
    /// From the client's call to its return, in ticks. The example is at [`Call`].
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.answer.done.saturating_sub(self.request.begun)
    }

    /// The phases of that time. The example is at [`Call`].
    #[must_use]
    pub fn phases(&self) -> CallPhases {
        CallPhases {
            request: Phases::of(&self.request),
            server: self.answer.begun.saturating_sub(self.request.done),
            answer: Phases::of(&self.answer),
        }
    }
}

/// One direction of a link. Records without numbers wait apart from records with numbers.
type LinkDirection = (i32, i32, bool);

/// Requests of one direction that may await their answers. A client waits for one, and may have
/// given up others.
const REQUESTS: usize = 64;

/// The waiting halves of one direction. Sender and receiver each write in the order of the numbers.
#[derive(Debug, Default)]
struct Waiting {
    gave: VecDeque<TraceRecord>,
    took: VecDeque<TraceRecord>,
    requests: VecDeque<Transfer>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.gave.is_empty() && self.took.is_empty() && self.requests.is_empty()
    }

    fn of(&mut self, side: Side) -> &mut VecDeque<TraceRecord> {
        if side == Side::Giver { &mut self.gave } else { &mut self.took }
    }

    /// The other half of a record, and the number of passed halves that will never find theirs.
    fn other_half(&mut self, side: Side, record: &TraceRecord) -> (Option<TraceRecord>, u64) {
        let others = self.of(if side == Side::Giver { Side::Taker } else { Side::Giver });
        let mut passed = 0;
        while let Some(other) = others.front() {
            if other.sequence > record.sequence {
                break;
            }
            let found = others
                .pop_front()
                .filter(|other| (other.sequence, other.what) == (record.sequence, record.what));
            if found.is_some() {
                return (found, passed);
            }
            passed += 1;
        }
        (None, passed)
    }

    /// Lets a half wait. Returns the number of halves of its side that will never find theirs,
    /// because the numbers began anew or repeat.
    fn wait(&mut self, side: Side, record: TraceRecord) -> u64 {
        let queue = self.of(side);
        let mut former = 0;
        if queue.back().is_some_and(|last| last.sequence >= record.sequence) {
            former = queue.len() as u64;
            queue.clear();
        }
        queue.push_back(record);
        former
    }
}

/// Joins halves to messages and calls.
///
/// ```
/// use m3ipc::Address;
/// use m3ipc::trace::{Join, MessageKind, TraceHalf, TraceRecord, TraceWhat};
///
/// let (client, server) = (Address(1), Address(2));
/// let what = TraceWhat::Message(MessageKind::Send);
/// let half = TraceHalf::Gave { begun: 10, ready: 20, published: 30, wake: None };
/// let gave =
///     TraceRecord { what, sequence: 1, answers: 0, peer: server, m_type: 7, bytes: 0, half };
/// let half = TraceHalf::Took { ran: None, looked: 35, found: 40, taken: 50, done: 60 };
/// let mut join = Join::new(10_000);
/// join.add(client, &gave);
/// join.add(server, &TraceRecord { peer: client, half, ..gave });
/// let transfer = join.take_transfers()[0];
/// assert_eq!((transfer.from, transfer.to, transfer.m_type), (client, server, 7));
/// assert_eq!((join.drain_transfers().count(), join.drain_calls().count()), (0, 0));
/// assert_eq!(join.single(), 0, "no half lost its other half");
/// ```
#[derive(Debug)]
pub struct Join {
    limit: usize,
    waiting: BTreeMap<LinkDirection, Waiting>,
    /// Halves in the order of their arrival, to forget the oldest.
    order: VecDeque<(LinkDirection, Side, u64)>,
    transfers: Vec<Transfer>,
    calls: Vec<Call>,
    single: u64,
}

impl Join {
    /// Keeps at most `limit` waiting halves. The example is at [`Join`].
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            transfers: Vec::new(),
            calls: Vec::new(),
            single: 0,
        }
    }

    /// Adds a record of `endpoint`. The example is at [`Join`].
    pub fn add(&mut self, endpoint: Address, record: &TraceRecord) {
        let (side, from, to) = match record.half {
            TraceHalf::Gave { .. } => (Side::Giver, endpoint, record.peer),
            TraceHalf::Took { .. } => (Side::Taker, record.peer, endpoint),
        };
        let has_number = match record.what {
            TraceWhat::Copy => {
                // Only the requester writes a record of a copy.
                self.transfers.push(Transfer::of(from, to, record, record));
                return;
            }
            TraceWhat::Notify => false,
            TraceWhat::Message(_) => true,
        };
        let direction = (from.0, to.0, has_number);
        let waiting = self.waiting.entry(direction).or_default();
        let (other, passed) = waiting.other_half(side, record);
        self.single += passed;
        if let Some(other) = other {
            let (gave, took) =
                if side == Side::Giver { (record, &other) } else { (&other, record) };
            return self.joined(Transfer::of(from, to, gave, took));
        }
        self.single += waiting.wait(side, *record);
        self.order.push_back((direction, side, record.sequence));
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > self.limit {
            let Some((direction, side, sequence)) = self.order.pop_front() else { return };
            let Some(waiting) = self.waiting.get_mut(&direction) else { continue };
            let queue = waiting.of(side);
            // The half may have found its other half long ago.
            if queue.front().is_some_and(|oldest| oldest.sequence == sequence) {
                queue.pop_front();
                self.single += 1;
            }
            if waiting.is_empty() {
                self.waiting.remove(&direction);
            }
        }
    }

    fn joined(&mut self, transfer: Transfer) {
        self.transfers.push(transfer);
        match transfer.what {
            TraceWhat::Message(MessageKind::Request) => {
                let waiting =
                    self.waiting.entry((transfer.from.0, transfer.to.0, true)).or_default();
                if waiting.requests.len() == REQUESTS {
                    waiting.requests.pop_front();
                }
                waiting.requests.push_back(transfer);
            }
            TraceWhat::Message(MessageKind::Reply) => {
                // An answer goes in the opposite direction of its request.
                let Some(waiting) = self.waiting.get_mut(&(transfer.to.0, transfer.from.0, true))
                else {
                    return;
                };
                let is_it = |request: &Transfer| request.sequence == transfer.answers;
                if let Some(at) = waiting.requests.iter().position(is_it) {
                    // The client gave up the requests before this one.
                    waiting.requests.drain(..at);
                    if let Some(request) = waiting.requests.pop_front() {
                        self.calls.push(Call { request, answer: transfer });
                    }
                }
            }
            _ => {}
        }
    }

    /// The messages that were joined since the last call. The example is at [`Join`].
    pub fn take_transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    /// The calls that were answered since the last call. Their messages are among the transfers
    /// too, in this order. The example is at [`Call`].
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// As [`Join::take_transfers`], and keeps the memory for the next messages. The example is at
    /// [`Join`].
    pub fn drain_transfers(&mut self) -> impl Iterator<Item = Transfer> + '_ {
        self.transfers.drain(..)
    }

    /// As [`Join::take_calls`], and keeps the memory for the next calls. The example is at
    /// [`Join`].
    pub fn drain_calls(&mut self) -> impl Iterator<Item = Call> + '_ {
        self.calls.drain(..)
    }

    /// Halves that were forgotten without their other half. The example is at [`Join`].
    #[must_use]
    pub fn single(&self) -> u64 {
        self.single
    }
}

#[cfg(test)]
mod tests;
