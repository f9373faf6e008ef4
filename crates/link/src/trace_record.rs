//! The record of a trace ring: one half of a message, with its stamps.

use crate::slot::MessageKind;
use m3ipc_abi::Address;

/// Bits of the first word that encode [`TraceWhat`].
const WHAT_BITS: u32 = 8;
/// Flag of a half of the receiver.
const TOOK: u64 = 1 << 32;

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceWhat {
    /// A message, by its kind.
    Message(MessageKind),
    /// A notification. It has no number.
    Notify,
    /// A copy between memories (vcopy). It has no number.
    Copy,
}

impl TraceWhat {
    fn encode(self) -> u64 {
        match self {
            Self::Message(kind) => kind as u64,
            Self::Notify => 16,
            Self::Copy => 17,
        }
    }

    fn decode(bits: u64) -> Option<Self> {
        match bits {
            16 => Some(Self::Notify),
            17 => Some(Self::Copy),
            _ => MessageKind::from_bits(bits).map(Self::Message),
        }
    }
}

/// The stamps of one half, in ticks of [`m3ipc_sys::stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceHalf {
    /// The half of the sender.
    Gave {
        /// The begin of the call.
        begun: u64,
        /// After all checks, before the write of the slot.
        ready: u64,
        /// After the publication of the message.
        published: u64,
        /// Begin and end of the wake-up of a sleeping peer.
        wake: Option<(u64, u64)>,
    },
    /// The half of the receiver.
    Took {
        /// The end of the receiver's sleep, if it slept.
        ran: Option<u64>,
        /// The begin of the poll that found the message.
        looked: u64,
        /// After the check of the sender.
        found: u64,
        /// After the copy and the take.
        taken: u64,
        /// Before the return of the call.
        done: u64,
    },
}

/// One half of a message, by the record of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The subject.
    pub what: TraceWhat,
    /// The number of the message in its direction of the link.
    pub sequence: u64,
    /// The number of the request, for an answer.
    pub answers: u64,
    /// The partner.
    pub peer: Address,
    /// The type of the message.
    pub m_type: i32,
    /// Bytes beyond the message: of a long payload or a copy.
    pub bytes: u32,
    /// The stamps.
    pub half: TraceHalf,
}

/// The distance of two stamps, clamped to 32 bits.
fn distance(from: u64, to: u64) -> u64 {
    to.saturating_sub(from).min(u64::from(u32::MAX))
}

impl TraceRecord {
    pub(crate) fn words(&self) -> [u64; 7] {
        // 0 means that there is no such stamp, so a present distance is at least 1.
        let present = |distance: Option<u64>| distance.map_or(0, |ticks| ticks.max(1));
        let (took, base, distances) = match self.half {
            TraceHalf::Gave { begun, ready, published, wake } => {
                let wake =
                    wake.map(|(from, to)| (distance(published, from), distance(published, to)));
                let parts = [
                    distance(begun, published),
                    distance(ready, published),
                    present(wake.map(|(from, _)| from)),
                    present(wake.map(|(_, to)| to)),
                ];
                (0, published, parts)
            }
            TraceHalf::Took { ran, looked, found, taken, done } => {
                let parts = [
                    distance(looked, taken),
                    distance(found, taken),
                    present(ran.map(|ran| distance(ran, taken))),
                    distance(taken, done),
                ];
                (TOOK, taken, parts)
            }
        };
        let [a, b, c, d] = distances;
        [
            self.sequence << WHAT_BITS | self.what.encode(),
            self.answers,
            u64::from(self.peer.0.cast_unsigned()) | u64::from(self.m_type.cast_unsigned()) << 32,
            u64::from(self.bytes) | took,
            base,
            a | b << 32,
            c | d << 32,
        ]
    }

    /// The record in these words; `None` if they are no record.
    pub(crate) fn from_words(words: [u64; 7]) -> Option<Self> {
        let [subject, answers, partner, size, base, first, second] = words;
        let low = |word: u64| word & u64::from(u32::MAX);
        let (a, b, c, d) = (low(first), first >> 32, low(second), second >> 32);
        let before = |ticks: u64| base.wrapping_sub(ticks);
        let half = match size & !u64::from(u32::MAX) {
            0 => TraceHalf::Gave {
                begun: before(a),
                ready: before(b),
                published: base,
                wake: (c > 0).then(|| (base.wrapping_add(c), base.wrapping_add(d))),
            },
            TOOK => TraceHalf::Took {
                ran: (c > 0).then(|| before(c)),
                looked: before(a),
                found: before(b),
                taken: base,
                done: base.wrapping_add(d),
            },
            _ => return None,
        };
        Some(Self {
            what: TraceWhat::decode(subject & ((1 << WHAT_BITS) - 1))?,
            sequence: subject >> WHAT_BITS,
            answers,
            peer: Address(((partner & 0xffff_ffff) as u32).cast_signed()),
            m_type: ((partner >> 32) as u32).cast_signed(),
            bytes: (size & 0xffff_ffff) as u32,
            half,
        })
    }
}
