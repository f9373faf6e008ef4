//! Halves become messages, messages become calls.
//!
//! What one endpoint says that it gave and another that it took are halves of one message where sender,
//! receiver, kind and number agree; a request and the answer that names it are a call. Endpoints may lie
//! about their own halves, so all is bounded: what waits for its other half longest is forgotten first.

use super::phases::{CallPhases, Phases};
use m3ipc_abi::Address;
use m3ipc_link::{MessageKind, TraceHalf, TraceRecord, TraceWhat};
use std::collections::{BTreeMap, VecDeque};

/// Which half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Who gave it.
    Giver,
    /// Who took it.
    Taker,
}

/// A message, with the stamps of both sides in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who gave it.
    pub from: Address,
    /// Who took it.
    pub to: Address,
    /// What it was.
    pub what: TraceWhat,
    /// Its number in its direction of the link.
    pub sequence: u64,
    /// Of an answer: the number of the request.
    pub answers: u64,
    /// Its type.
    pub m_type: i32,
    /// Bytes beside the message.
    pub bytes: u32,
    /// The giver's call began.
    pub begun: u64,
    /// All was checked.
    pub ready: u64,
    /// It was published.
    pub published: u64,
    /// The taker was woken: from, to.
    pub wake: Option<(u64, u64)>,
    /// The taker ran again.
    pub ran: Option<u64>,
    /// The look that found it began.
    pub looked: u64,
    /// It was found.
    pub found: u64,
    /// It was copied and taken.
    pub taken: u64,
    /// The taker's call was about to return.
    pub done: u64,
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub request: Transfer,
    /// The answer.
    pub answer: Transfer,
}

impl Call {
    /// From the client's call to its return, in ticks.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.answer.done.saturating_sub(self.request.begun)
    }

    /// Where that time went.
    #[must_use]
    pub fn phases(&self) -> CallPhases {
        CallPhases {
            request: Phases::of(&self.request),
            server: self.answer.begun.saturating_sub(self.request.done),
            answer: Phases::of(&self.answer),
        }
    }
}

/// A direction of a link; what has no number there waits apart from what has one.
type Way = (i32, i32, bool);

/// Requests of one direction that may await their answers: a client waits for one, and may have given others up.
const REQUESTS: usize = 64;

/// What waits in one direction: who gives and who takes each say it in the order of their numbers.
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

    /// The other half of this, which `side` says; and how many were passed by that will never find theirs.
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

    /// Lets a half wait; gives how many of its side will never find theirs: numbers that begin anew, or are said again.
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

/// Puts halves together.
#[derive(Debug)]
pub struct Join {
    limit: usize,
    waiting: BTreeMap<Way, Waiting>,
    /// Halves in the order in which they began to wait, to forget the oldest.
    order: VecDeque<(Way, Side, u64)>,
    transfers: Vec<Transfer>,
    calls: Vec<Call>,
    single: u64,
}

impl Join {
    /// One that keeps at most so many halves that wait for the rest of them.
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

    /// Takes up what `endpoint` says.
    pub fn add(&mut self, endpoint: Address, record: &TraceRecord) {
        let (side, from, to) = match record.half {
            TraceHalf::Gave { .. } => (Side::Giver, endpoint, record.peer),
            TraceHalf::Took { .. } => (Side::Taker, record.peer, endpoint),
        };
        let has_number = match record.what {
            TraceWhat::Copy => {
                // Its requester alone knows of it.
                self.transfers.push(transfer(from, to, record, record));
                return;
            }
            TraceWhat::Notify => false,
            TraceWhat::Message(_) => true,
        };
        let way = (from.0, to.0, has_number);
        let waiting = self.waiting.entry(way).or_default();
        let (other, passed) = waiting.other_half(side, record);
        self.single += passed;
        if let Some(other) = other {
            let (gave, took) =
                if side == Side::Giver { (record, &other) } else { (&other, record) };
            return self.joined(transfer(from, to, gave, took));
        }
        self.single += waiting.wait(side, *record);
        self.order.push_back((way, side, record.sequence));
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > self.limit {
            let Some((way, side, sequence)) = self.order.pop_front() else { return };
            let Some(waiting) = self.waiting.get_mut(&way) else { continue };
            let queue = waiting.of(side);
            // It may have found its other half long ago.
            if queue.front().is_some_and(|oldest| oldest.sequence == sequence) {
                queue.pop_front();
                self.single += 1;
            }
            if waiting.is_empty() {
                self.waiting.remove(&way);
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
                // What comes back goes the other way.
                let Some(waiting) = self.waiting.get_mut(&(transfer.to.0, transfer.from.0, true))
                else {
                    return;
                };
                let is_it = |request: &Transfer| request.sequence == transfer.answers;
                if let Some(at) = waiting.requests.iter().position(is_it) {
                    // Those before it were given up.
                    waiting.requests.drain(..at);
                    if let Some(request) = waiting.requests.pop_front() {
                        self.calls.push(Call { request, answer: transfer });
                    }
                }
            }
            _ => {}
        }
    }

    /// The messages that were put together since the last time.
    pub fn take_transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    /// The calls that were answered since the last time; their messages are among the transfers too, in this order.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// As [`Join::take_transfers`], for who asks often: the room for the next ones stays.
    pub fn drain_transfers(&mut self) -> impl Iterator<Item = Transfer> + '_ {
        self.transfers.drain(..)
    }

    /// As [`Join::take_calls`], likewise.
    pub fn drain_calls(&mut self) -> impl Iterator<Item = Call> + '_ {
        self.calls.drain(..)
    }

    /// Halves that were forgotten without their other.
    #[must_use]
    pub fn single(&self) -> u64 {
        self.single
    }
}

fn transfer(from: Address, to: Address, gave: &TraceRecord, took: &TraceRecord) -> Transfer {
    let (begun, ready, published, wake) = match gave.half {
        TraceHalf::Gave { begun, ready, published, wake } => (begun, ready, published, wake),
        TraceHalf::Took { taken, .. } => (taken, taken, taken, None),
    };
    let (ran, looked, found, taken, done) = match took.half {
        TraceHalf::Took { ran, looked, found, taken, done } => (ran, looked, found, taken, done),
        TraceHalf::Gave { published, .. } => (None, published, published, published, published),
    };
    Transfer {
        from,
        to,
        what: gave.what,
        sequence: gave.sequence,
        answers: gave.answers,
        m_type: gave.m_type,
        bytes: gave.bytes.max(took.bytes),
        begun,
        ready,
        published,
        wake,
        ran,
        looked,
        found,
        taken,
        done,
    }
}

#[cfg(test)]
mod tests;
