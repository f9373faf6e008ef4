//! A message as both of its records show it.

use m3ipc_abi::Address;
use m3ipc_link::{TraceHalf, TraceRecord, TraceWhat};

/// The side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// The sender.
    Giver,
    /// The receiver.
    Taker,
}

/// A message with the stamps of both sides, in ticks. The example is at [`Join`](super::Join).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    /// The kind of record.
    pub what: TraceWhat,
    /// The number of the message in its direction of the link.
    pub sequence: u64,
    /// For an answer: the number of the request.
    pub answers: u64,
    /// The type of the message.
    pub m_type: i32,
    /// Bytes beside the message.
    pub bytes: u32,
    /// The sender's call began.
    pub begun: u64,
    /// Every check had passed.
    pub ready: u64,
    /// The message was published.
    pub published: u64,
    /// The wake-up of the receiver: begin and end.
    pub wake: Option<(u64, u64)>,
    /// The receiver ran again.
    pub ran: Option<u64>,
    /// The poll that found the message began.
    pub looked: u64,
    /// The message was found.
    pub found: u64,
    /// The message was copied and taken.
    pub taken: u64,
    /// The receiver's call was about to return.
    pub done: u64,
}

impl Transfer {
    pub(super) fn of(from: Address, to: Address, gave: &TraceRecord, took: &TraceRecord) -> Self {
        let (begun, ready, published, wake) = match gave.half {
            TraceHalf::Gave { begun, ready, published, wake } => (begun, ready, published, wake),
            TraceHalf::Took { taken, .. } => (taken, taken, taken, None),
        };
        let (ran, looked, found, taken, done) = match took.half {
            TraceHalf::Took { ran, looked, found, taken, done } => {
                (ran, looked, found, taken, done)
            }
            TraceHalf::Gave { published, .. } => (None, published, published, published, published),
        };
        Self {
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
}
