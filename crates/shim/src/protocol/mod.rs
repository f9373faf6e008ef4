//! The order of steps on shared words that sender and receiver rely on.
//!
//! The steps are generic over the words and over the kernel's socket. The same code therefore runs
//! on shared memory and in the loom models (`tests/loom.rs`), which bring words and a socket of
//! their own.
//!
//! The invariant: *outside of a call of the receiver, the ring holds bytes if and only if a wakeup
//! byte lies in the kernel's socket, or a bit stands for them in an armed poller in which no thread
//! sleeps.*

pub mod armed;
pub mod pass;
pub mod publish;
pub mod pull;
pub mod settle;

use crate::memory::layout::{RING_BYTES_MAX, RING_BYTES_MIN, half};
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_link::Word64;

/// A 64-bit word that also counts.
pub trait CountingWord: Word64 {
    /// Adds to the word.
    fn add(&self, amount: u64);
    /// Subtracts from the word.
    fn subtract(&self, amount: u64);
}

impl CountingWord for AtomicU64 {
    #[inline]
    fn add(&self, amount: u64) {
        self.fetch_add(amount, Ordering::AcqRel);
    }
    #[inline]
    fn subtract(&self, amount: u64) {
        self.fetch_sub(amount, Ordering::AcqRel);
    }
}

/// The bit of `SWITCHES` that keeps a direction in the kernel; a multiple of two, as all counts of
/// switches that end in the kernel.
pub const SEALED: u64 = 1 << 63;

/// A peer broke the rules of the shared memory: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// A ring as one moment showed it.
#[derive(Clone, Copy, Debug)]
pub struct RingState {
    /// Bytes of the ring: a power of two.
    pub size: usize,
    /// Bytes that were taken, ever.
    pub head: u64,
    /// Bytes that were put in, ever.
    pub tail: u64,
    /// Bytes in the ring, at most `size`.
    pub filled: usize,
}

/// The words of one half of a pair, by their offsets in [`half`].
pub trait HalfView {
    /// A word.
    type Word: CountingWord;

    /// The word at an offset.
    fn word(&self, offset: usize) -> &Self::Word;

    /// The value of a word, before all later reads.
    #[inline]
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Sets a word, after all earlier writes.
    #[inline]
    fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Adds to a word.
    #[inline]
    fn add(&self, offset: usize, amount: u64) {
        self.word(offset).add(amount);
    }

    /// Whether there is a ring: there is none before the first switch to it.
    #[inline]
    fn has_ring(&self) -> bool {
        self.load(half::RING_BYTES) != 0
    }

    /// Whether bytes go through the ring.
    #[inline]
    fn in_ring(&self) -> bool {
        self.load(half::SWITCHES) & 1 == 1
    }

    /// The ring now.
    ///
    /// # Errors
    /// [`Corrupt`] where size or positions are impossible.
    #[inline]
    fn ring(&self) -> Result<RingState, Corrupt> {
        let head = self.load(half::HEAD);
        // SeqCst: pairs with `m3ipc_link::notification::publish_tail`.
        let tail = self.word(half::TAIL).load(Ordering::SeqCst);
        // The sender changes the size of an empty ring, and then moves the tail. So the size that
        // is read last is that of the bytes up to this tail.
        let size = usize::try_from(self.load(half::RING_BYTES)).map_err(|_| Corrupt)?;
        if !size.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&size) {
            return Err(Corrupt);
        }
        let filled = usize::try_from(tail.wrapping_sub(head)).map_err(|_| Corrupt)?;
        if filled > size {
            return Err(Corrupt);
        }
        Ok(RingState { size, head, tail, filled })
    }

    /// Switches to the kernel, under the sender's lock; whether the ring was in use.
    fn switch_to_kernel(&self) -> bool {
        let switches = self.load(half::SWITCHES);
        if switches & 1 == 1 {
            // SeqCst: pairs with `ask_kernel`, which reads the switches after the kernel's answer.
            self.word(half::SWITCHES).store(switches.wrapping_add(1), Ordering::SeqCst);
        }
        switches & 1 == 1
    }

    /// Switches to the ring, under both locks, with no unread byte in the kernel. `false` where a
    /// party without a lock has sealed the direction.
    fn switch_to_ring(&self) -> bool {
        let switches = self.load(half::SWITCHES);
        // SeqCst: pairs with `in_ring`, which each party asks without the lock of the other, and
        // with `seal`. The sender's next reads, of the poller slot and of suppression, do not pass
        // the switch.
        switches & (SEALED | 1) == 0
            && self.word(half::SWITCHES).compare_exchange(switches, switches + 1).is_ok()
    }

    /// Whether the kernel keeps the route for good, so that a send needs no lock.
    #[inline]
    fn is_sealed(&self) -> bool {
        self.load(half::SWITCHES) & SEALED != 0
    }

    /// Whether the kernel has all bytes of the direction, from the first to the last.
    #[inline]
    fn is_sealed_unused(&self) -> bool {
        self.load(half::SWITCHES) == SEALED
    }

    /// Seals a direction that is not in the ring, without a lock: no switch to the ring succeeds
    /// from now on. Whether it is sealed.
    fn seal(&self) -> bool {
        let mut seen = self.load(half::SWITCHES);
        while seen & (SEALED | 1) == 0 {
            match self.word(half::SWITCHES).compare_exchange(seen, seen | SEALED) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        seen & SEALED != 0
    }

    /// The same for a direction whose ring was never used.
    fn seal_unused(&self) -> bool {
        self.is_sealed_unused() || self.word(half::SWITCHES).compare_exchange(0, SEALED).is_ok()
    }

    /// Wakeup bytes that lie in the kernel, or will be there at once.
    #[inline]
    fn wakeups_in_kernel(&self) -> u64 {
        self.load(half::WAKEUPS).wrapping_sub(self.load(half::WAKEUPS_TAKEN))
    }

    /// Whether the ring holds bytes for which no wakeup byte lies in the kernel.
    fn has_unsignalled(&self) -> bool {
        self.has_ring()
            && self.load(half::WAKEUPS) == self.load(half::WAKEUPS_TAKEN)
            && self.ring().is_ok_and(|ring| ring.filled > 0)
    }
}
