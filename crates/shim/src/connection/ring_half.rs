//! One direction of a connection: a ring and the words beside it.
//!
//! ```text
//!   switches even   KERNEL   wakeup bytes of before, then bytes   each send is the kernel's
//!   switches odd    RING     wakeup bytes alone                   each send is a copy
//! ```
//!
//! The sender switches. For a switch to the ring it also takes the receiver's lock, and the kernel
//! must hold no unread byte. No position in the stream has to be agreed upon. A switch to the
//! kernel needs no consent: the bytes of the ring come before the bytes of the kernel. Wakeup bytes
//! are counted, so the receiver takes exactly as many as were sent.

use crate::buffers::{IovCursor, Piece};
use crate::kernel::Errno;
use crate::memory::layout::{half, pair};
use crate::memory::window::{HalfWords, PairMemory, RingMemory};
use crate::protocol::{HalfView, RingState};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A send.
    Send = 0,
    /// A receive.
    Receive = 1,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct RingHalf {
    words: &'static HalfWords,
    ring: RingMemory,
    memory: PairMemory,
}

impl HalfView for RingHalf {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words[(offset / 8) % (half::BYTES / 8)]
    }
}

impl RingHalf {
    /// The half of a pair on which this side sends.
    #[must_use]
    #[inline]
    pub fn new(memory: PairMemory, side: usize) -> Self {
        Self { words: memory.half_words(side), ring: memory.ring(side), memory }
    }

    /// Whether the pair is out of reach: the socket is closed in this process.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.memory.word(pair::COOKIES[1]).load(Ordering::Relaxed) == 0
    }

    /// The lock of the senders (`SEND_LOCK`) or of the receivers (`RECEIVE_LOCK`).
    #[must_use]
    #[inline]
    pub fn lock(&self, offset: usize) -> &'static AtomicU64 {
        &self.words[offset / 8 % self.words.len()]
    }

    /// Takes memory from the system for some bytes of the ring, see [`Reservation`].
    ///
    /// [`Reservation`]: super::reservation::Reservation
    ///
    /// # Errors
    /// Of madvise(2).
    pub(super) fn reserve(&self, part: Range<usize>) -> Result<(), Errno> {
        self.ring.reserve(part)
    }

    /// Returns memory of the ring to the system, from this byte on.
    ///
    /// # Errors
    /// Of madvise(2): the memory stays.
    pub(super) fn give_back(&self, from: usize) -> Result<(), Errno> {
        self.ring.give_back(from)
    }

    /// Copies bytes behind the tail, without publishing them: as many as fit, at most `most`.
    #[inline]
    pub fn write(&self, state: RingState, cursor: &mut IovCursor<'_>, most: usize) -> usize {
        let room = (state.size - state.filled).min(most);
        self.each_piece(state.size, state.tail, room, cursor, RingMemory::copy_in)
    }

    /// Copies bytes from the head on, without taking them: as many as are there and wanted. With
    /// `discard` the bytes are counted and not copied.
    #[inline]
    pub fn read(&self, state: RingState, cursor: &mut IovCursor<'_>, discard: bool) -> usize {
        if discard {
            let bytes = state.filled.min(cursor.left());
            cursor.skip(bytes);
            return bytes;
        }
        self.each_piece(state.size, state.head, state.filled, cursor, RingMemory::copy_out)
    }

    /// Walks along the ring and the program's runs together, for `most` bytes at most.
    #[inline]
    fn each_piece(
        &self,
        size: usize,
        from: u64,
        most: usize,
        cursor: &mut IovCursor<'_>,
        copy: impl Fn(RingMemory, usize, Piece<'_>),
    ) -> usize {
        let mut done = 0;
        while done < most {
            let at = usize::try_from(from.wrapping_add(done as u64)).unwrap_or(0) & (size - 1);
            let Some(piece) = cursor.next((size - at).min(most - done)) else { break };
            copy(self.ring, at, piece);
            done += piece.bytes();
        }
        done
    }
}
