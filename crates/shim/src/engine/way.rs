//! One way of a connection: a ring, the words beside it, and what the kernel's stream carries meanwhile.
//!
//! ```text
//!   turn even   KERNEL   tokens of before, then bytes            every send is the kernel's
//!   turn odd    RING     tokens alone                            every send is a copy, and a token where the door asks for one
//! ```
//!
//! The sender turns; the receiver's lock must be free for a turn to RING, and nothing may lie unread in the kernel then, so no
//! position in the stream needs to be agreed upon. A turn to KERNEL needs nobody: what lies in the ring comes before
//! what lies in the kernel. Tokens are counted, so a receiver takes exactly as many bytes for tokens as were sent.
//!
//! # Safety
//! A way is made for memory that lives for ever and is as long as its layout says; ring positions are masked with a size
//! that was read once and checked against [`RING_MAX`].
#![allow(unsafe_code)]

use super::copy::{self, Place};
use super::words::{RING_MAX, RING_MIN, way};
use core::sync::atomic::{AtomicU64, Ordering};

/// The peer broke the rules of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// One way of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    words: *mut u8,
    ring: *mut u8,
}

/// A ring as it was seen at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub size: usize,
    pub head: u64,
    pub tail: u64,
    /// Bytes in it, at most `size`.
    pub filled: usize,
}

impl Way {
    /// A way over this memory.
    ///
    /// # Safety
    /// `words` is aligned to eight and good for 512 bytes, `ring` for [`RING_MAX`], both for ever.
    pub(super) unsafe fn new(words: *mut u8, ring: *mut u8) -> Self {
        Self { words, ring }
    }

    /// One of its words.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &'static AtomicU64 {
        debug_assert!(offset < 512 && offset.is_multiple_of(8));
        // SAFETY: offsets are the constants of `words::way`; the memory is as `new` demands.
        unsafe { &*self.words.add(offset & 0x1f8).cast::<AtomicU64>() }
    }

    /// A word's value, before anything that is read later.
    #[inline]
    pub(super) fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Sets a word, after anything that was written before.
    #[inline]
    pub(super) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Adds to a word.
    #[inline]
    pub(super) fn add(&self, offset: usize, amount: u64) {
        self.word(offset).fetch_add(amount, Ordering::AcqRel);
    }

    /// Whether there is a ring; there is none before the first turn to it.
    #[inline]
    pub(super) fn has_ring(&self) -> bool {
        self.load(way::RING_BYTES) != 0
    }

    /// Whether bytes go through the ring.
    #[inline]
    pub(super) fn in_ring(&self) -> bool {
        self.load(way::TURN) & 1 == 1
    }

    /// The ring now. The tail is read with the strongest order: pairs with the door's fences.
    #[inline]
    pub(super) fn look(&self) -> Result<Seen, Nonsense> {
        let size = usize::try_from(self.load(way::RING_BYTES)).map_err(|_| Nonsense)?;
        if !size.is_power_of_two() || !(RING_MIN..=RING_MAX).contains(&size) {
            return Err(Nonsense);
        }
        let head = self.load(way::HEAD);
        let tail = self.word(way::TAIL).load(Ordering::SeqCst);
        let filled = usize::try_from(tail.wrapping_sub(head)).map_err(|_| Nonsense)?;
        if filled > size {
            return Err(Nonsense);
        }
        Ok(Seen { size, head, tail, filled })
    }

    /// Copies bytes behind the tail; they are not published yet. How many: what fits, `most` at most.
    #[inline]
    pub(super) fn write(&self, seen: Seen, place: &mut Place<'_>, most: usize) -> usize {
        let room = (seen.size - seen.filled).min(most);
        self.each(seen.size, seen.tail, room, place, |ring, program, bytes| {
            // SAFETY: the ring's part lies within its size (`each`); the program's is its own to lend.
            unsafe { copy::bytes(program, ring, bytes) };
        })
    }

    /// Copies bytes from behind the head; they are not taken yet. How many: what is there, and asked for.
    #[inline]
    pub(super) fn read(&self, seen: Seen, place: &mut Place<'_>, discard: bool) -> usize {
        if discard {
            let bytes = seen.filled.min(place.left());
            place.skip(bytes);
            return bytes;
        }
        self.each(seen.size, seen.head, seen.filled, place, |ring, program, bytes| {
            // SAFETY: as in `write`, the other way round.
            unsafe { copy::bytes(ring, program, bytes) };
        })
    }

    /// Walks along the ring and the program's runs at once, for `most` bytes at most.
    #[inline]
    fn each(
        &self,
        size: usize,
        from: u64,
        most: usize,
        place: &mut Place<'_>,
        mut copy: impl FnMut(*mut u8, *mut u8, usize),
    ) -> usize {
        let mut done = 0;
        while done < most {
            let at = usize::try_from(from.wrapping_add(done as u64)).unwrap_or(0) & (size - 1);
            let Some((program, bytes)) = place.next((size - at).min(most - done)) else { break };
            copy(self.ring.wrapping_add(at), program, bytes);
            done += bytes;
        }
        done
    }
}
