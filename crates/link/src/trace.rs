//! The trace ring: the latest halves of messages of one endpoint, each with its stamps.
//!
//! ```text
//! 0x000   head: records ever written       (the rest of the page is unused)
//! 0x1000  slot 0, slot 1, ...              one cache line each, a power of two of them
//!
//! a slot  number of the record + 1, 0 while it is written
//!         number of the message << 8 | what it is       number of the request it answers
//!         peer | type << 32          bytes | side << 32
//!         the stamp that all others of it are told by, and four distances from it
//! ```
//! Its owner alone writes it, and never looks at a reader: a full ring loses its oldest records, and
//! whoever reads too slowly counts them. The daemon seals it before anybody else may map it.
//! A reader believes nothing of it: it counts by itself, knows the ring's size from the memory, and
//! whatever a record says is what its owner says.

use crate::slot::MessageKind;
use crate::words::{Page, View, Word64};
use core::sync::atomic::{Ordering, fence};
use m3ipc_abi::Address;
use m3ipc_shm::{Observed, Shared};
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// The fewest and the most records that a ring may hold.
pub const TRACE_SLOTS: (u32, u32) = (64, 1 << 18);

const HEAD: usize = 0;
const SLOTS: usize = 0x1000;
const SLOT_BYTES: usize = 64;
/// Bits of the word that say what a message is.
const WHAT_BITS: u32 = 8;
const TOOK: u64 = 1 << 32;

/// Size in bytes of the ring for so many records; their number is cut to what is allowed and made a power of two.
#[must_use]
pub fn trace_bytes(slots: u32) -> u64 {
    let slots = slots.clamp(TRACE_SLOTS.0, TRACE_SLOTS.1).next_power_of_two();
    SLOTS as u64 + u64::from(slots) * SLOT_BYTES as u64
}

/// How many records a ring of this size holds; none where no ring has it.
fn slots_in(bytes: u64) -> Option<u64> {
    let slots = bytes.checked_sub(SLOTS as u64)? / SLOT_BYTES as u64;
    let whole = u32::try_from(slots).is_ok_and(|slots| trace_bytes(slots) == bytes);
    whole.then_some(slots)
}

/// What went from one endpoint to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceWhat {
    /// A message, by its kind.
    Message(MessageKind),
    /// A notification; it has no number.
    Notify,
    /// A copy between memories (vcopy); it has no number.
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
    /// Of who gave it.
    Gave {
        /// The call began.
        begun: u64,
        /// All was checked; the cell is about to be written.
        ready: u64,
        /// The message stands in the cell.
        published: u64,
        /// The wake-up of a sleeping peer: from, to.
        wake: Option<(u64, u64)>,
    },
    /// Of who took it.
    Took {
        /// The thread ran again, where it had slept.
        ran: Option<u64>,
        /// The look that found it began.
        looked: u64,
        /// It was found, and its sender may say it.
        found: u64,
        /// It was copied and taken.
        taken: u64,
        /// The call is about to return.
        done: u64,
    },
}

/// One half of a message, as its endpoint recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// What it was.
    pub what: TraceWhat,
    /// Its number in its direction of the link.
    pub sequence: u64,
    /// Of an answer: the number of the request.
    pub answers: u64,
    /// The other side.
    pub peer: Address,
    /// Its type.
    pub m_type: i32,
    /// Bytes beside the message: a long payload, a copy.
    pub bytes: u32,
    /// Its stamps.
    pub half: TraceHalf,
}

/// A distance of two stamps; what is longer counts as the longest.
fn distance(from: u64, to: u64) -> u64 {
    to.saturating_sub(from).min(u64::from(u32::MAX))
}

impl TraceRecord {
    fn words(&self) -> [u64; 7] {
        // 0 says that there is no such stamp, so a distance that is there is at least 1.
        let there = |distance: Option<u64>| distance.map_or(0, |ticks| ticks.max(1));
        let (took, base, distances) = match self.half {
            TraceHalf::Gave { begun, ready, published, wake } => {
                let wake =
                    wake.map(|(from, to)| (distance(published, from), distance(published, to)));
                let parts = [
                    distance(begun, published),
                    distance(ready, published),
                    there(wake.map(|(from, _)| from)),
                    there(wake.map(|(_, to)| to)),
                ];
                (0, published, parts)
            }
            TraceHalf::Took { ran, looked, found, taken, done } => {
                let parts = [
                    distance(looked, taken),
                    distance(found, taken),
                    there(ran.map(|ran| distance(ran, taken))),
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

    /// The record that these words are; `None` where they are none.
    fn from_words(words: [u64; 7]) -> Option<Self> {
        let [named, answers, who, size, base, first, second] = words;
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
            what: TraceWhat::decode(named & ((1 << WHAT_BITS) - 1))?,
            sequence: named >> WHAT_BITS,
            answers,
            peer: Address(((who & 0xffff_ffff) as u32).cast_signed()),
            m_type: ((who >> 32) as u32).cast_signed(),
            bytes: (size & 0xffff_ffff) as u32,
            half,
        })
    }
}

/// The owner's side.
#[derive(Debug)]
pub struct TraceRing<P = Shared> {
    page: P,
    mask: u64,
    next: u64,
}

impl TraceRing {
    /// Maps a ring, before the daemon seals it.
    ///
    /// # Errors
    /// `INVAL` where no ring has this size; of [`Shared::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        let bytes = m3ipc_sys::memory_bytes(&memory)?;
        let slots = slots_in(bytes).ok_or(Errno::INVAL)?;
        let bytes = usize::try_from(bytes).map_err(|_too_large| Errno::INVAL)?;
        Ok(Self { page: Shared::map(memory, bytes)?, mask: slots - 1, next: 0 })
    }
}

impl<P: Page> TraceRing<P> {
    /// Writes one record, over the oldest where the ring is full.
    pub fn write(&mut self, record: &TraceRecord) {
        let slot = slot_at(self.next & self.mask);
        let number = self.page.word64(slot);
        // Release: pairs with the fence of a reader that has seen one of the words below.
        number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (at, word) in record.words().into_iter().enumerate() {
            self.page.word64(slot + 8 + 8 * at).store(word, Ordering::Relaxed);
        }
        self.next += 1;
        number.store(self.next, Ordering::Release); // pairs with the first load of a reader
        self.page.word64(HEAD).store(self.next, Ordering::Release);
    }
}

#[inline]
fn slot_at(index: u64) -> usize {
    // Less than the ring's slots, which are few.
    SLOTS + usize::try_from(index).unwrap_or(0) * SLOT_BYTES
}

/// A reader's side.
#[derive(Debug)]
pub struct TraceView<V = Observed> {
    view: V,
    slots: u64,
    next: u64,
    lost: u64,
    broken: u64,
}

impl TraceView {
    /// Maps a ring for reading.
    ///
    /// # Errors
    /// `INVAL` where no ring has this size; of [`Observed::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        let bytes = m3ipc_sys::memory_bytes(&memory)?;
        let slots = slots_in(bytes).ok_or(Errno::INVAL)?;
        let bytes = usize::try_from(bytes).map_err(|_too_large| Errno::INVAL)?;
        Ok(Self { view: Observed::map(memory, bytes)?, slots, next: 0, lost: 0, broken: 0 })
    }
}

impl<V: View> TraceView<V> {
    /// Gives `take` what is new, oldest first, and at most one ring of it; returns how many those were.
    pub fn read(&mut self, mut take: impl FnMut(TraceRecord)) -> u64 {
        let head = self.view.load64(HEAD, Ordering::Acquire);
        if head < self.next {
            // No owner that keeps the rules counts back.
            self.broken = self.broken.saturating_add(1);
            self.next = head;
            return 0;
        }
        let oldest = head.saturating_sub(self.slots);
        if oldest > self.next {
            self.lost = self.lost.saturating_add(oldest - self.next);
            self.next = oldest;
        }
        let mut read = 0;
        while self.next < head {
            match self.read_one(self.next) {
                Found::Record(words) => match TraceRecord::from_words(words) {
                    Some(record) => {
                        read += 1;
                        take(record);
                    }
                    None => self.broken = self.broken.saturating_add(1),
                },
                Found::Overwritten => self.lost = self.lost.saturating_add(1),
            }
            self.next += 1;
        }
        read
    }

    fn read_one(&self, number: u64) -> Found {
        let slot = slot_at(number % self.slots);
        let written = |order| self.view.load64(slot, order) == number.wrapping_add(1);
        if !written(Ordering::Acquire) {
            return Found::Overwritten;
        }
        let words =
            core::array::from_fn(|at| self.view.load64(slot + 8 + 8 * at, Ordering::Relaxed));
        fence(Ordering::Acquire); // pairs with the fence of `write`
        if written(Ordering::Relaxed) { Found::Record(words) } else { Found::Overwritten }
    }

    /// Records that were overwritten before they could be read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What stood there and was no record: its owner breaks the rules.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.broken
    }
}

/// What a slot held when it was read.
enum Found {
    Record([u64; 7]),
    Overwritten,
}

#[cfg(test)]
mod tests;
