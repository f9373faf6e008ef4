//! Halves become messages, messages become calls.
//!
//! What one endpoint says that it gave and another that it took are halves of one message where sender,
//! receiver, kind and number agree; a request and the answer that names it are a call. Endpoints may lie
//! about their own halves, so all is bounded: what waits for its other half longest is forgotten first.

use super::phases::{CallPhases, Phases};
use m3_abi::Address;
use m3_link::{Kind, TraceHalf, TraceRecord, TraceWhat};
use std::collections::{HashMap, VecDeque};

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

/// What the two halves of a message have in common.
type Key = (Address, Address, TraceWhat, u64);

/// Puts halves together.
#[derive(Debug)]
pub struct Join {
    limit: usize,
    halves: HashMap<Key, (Side, TraceRecord)>,
    /// Keys in the order in which they came, to forget the oldest.
    order: VecDeque<Key>,
    /// Requests that await their answers, by client, server and number.
    requests: HashMap<(Address, Address, u64), Transfer>,
    requested: VecDeque<(Address, Address, u64)>,
    transfers: Vec<Transfer>,
    calls: Vec<Call>,
    single: u64,
}

impl Join {
    /// One that keeps at most so many halves, and so many requests, that wait for the rest of them.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            halves: HashMap::new(),
            order: VecDeque::new(),
            requests: HashMap::new(),
            requested: VecDeque::new(),
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
        if record.what == TraceWhat::Copy {
            // Its requester alone knows of it.
            self.transfers.push(transfer(from, to, record, record));
            return;
        }
        let key = (from, to, record.what, record.sequence);
        match self.halves.remove(&key) {
            Some((other, half)) if other != side => {
                let (gave, took) = if side == Side::Giver { (record, &half) } else { (&half, record) };
                self.joined(transfer(from, to, gave, took));
            }
            // The same half again: the former one will never find its other.
            former => {
                self.single += u64::from(former.is_some());
                if former.is_none() {
                    self.order.push_back(key);
                }
                self.halves.insert(key, (side, *record));
                self.forget_oldest();
            }
        }
    }

    fn forget_oldest(&mut self) {
        while self.order.len() > self.limit {
            // It may have found its other half long ago.
            if let Some(key) = self.order.pop_front()
                && self.halves.remove(&key).is_some()
            {
                self.single += 1;
            }
        }
    }

    fn joined(&mut self, transfer: Transfer) {
        self.transfers.push(transfer);
        match transfer.what {
            TraceWhat::Message(Kind::Request) => {
                let key = (transfer.from, transfer.to, transfer.sequence);
                if self.requests.insert(key, transfer).is_none() {
                    self.requested.push_back(key);
                }
                while self.requested.len() > self.limit {
                    if let Some(oldest) = self.requested.pop_front() {
                        self.requests.remove(&oldest);
                    }
                }
            }
            TraceWhat::Message(Kind::Reply) => {
                // What comes back goes the other way.
                let key = (transfer.to, transfer.from, transfer.answers);
                if let Some(request) = self.requests.remove(&key) {
                    self.calls.push(Call { request, answer: transfer });
                }
            }
            _ => {}
        }
    }

    /// The messages that were put together since the last time.
    pub fn take_transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    /// The calls that were answered since the last time; their messages are among the transfers too.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
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
