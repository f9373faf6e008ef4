//! The part of a ring that this process took from the system.
//!
//! The first access to a page of shared memory takes it from the system. Where there is none left,
//! the access ends the process (SIGBUS). A process therefore takes each part of a ring by a call
//! that can fail, and touches nothing else, whatever size the shared memory names.
//!
//! Each process keeps its own record. The memory is common: another process of this end gives the
//! memory of an idle ring back. It counts that in the half first, under the sender's lock. A record
//! of an earlier count is void.

use super::ring_half::RingHalf;
use crate::memory::layout::half;
use crate::protocol::HalfView;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bytes of one ring, from its start, that this process took from the system.
#[derive(Debug)]
pub struct Reservation {
    bytes: AtomicU32,
    /// The count of returns of memory for which `bytes` holds.
    give_backs: AtomicU64,
}

impl Reservation {
    /// None: all zeros.
    pub(super) const fn new() -> Self {
        Self { bytes: AtomicU32::new(0), give_backs: AtomicU64::new(0) }
    }

    /// Forgets the ring of an earlier pair.
    pub(super) fn forget(&self) {
        self.set(0);
    }

    /// Bytes that this process took, when it last looked.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    fn set(&self, bytes: usize) {
        self.bytes.store(u32::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether this process has so many bytes of the ring, without asking the system.
    #[inline]
    pub(super) fn has(&self, half: &RingHalf, size: usize) -> bool {
        self.bytes() >= size
            && half.load(half::GIVE_BACKS) == self.give_backs.load(Ordering::Relaxed)
    }

    /// Takes a ring of this size from the system, as far as this process does not have it; `false`
    /// where there is no memory. Under the lock of the sender or of the receiver.
    #[inline]
    pub(super) fn reserve(&self, half: &RingHalf, size: usize) -> bool {
        self.has(half, size) || self.reserve_more(half, size)
    }

    #[cold]
    fn reserve_more(&self, half: &RingHalf, size: usize) -> bool {
        let give_backs = half.load(half::GIVE_BACKS);
        if self.give_backs.load(Ordering::Relaxed) != give_backs {
            // In this order: a child by fork may begin with the values of any moment.
            self.set(0);
            self.give_backs.store(give_backs, Ordering::Release);
        }
        let is_reserved = half.reserve(self.bytes()..size).is_ok();
        if is_reserved {
            self.set(size);
        }
        is_reserved
    }

    /// Returns the memory of an empty ring to the system, from this byte on; `false` where the
    /// system keeps it, as it does for a process with locked memory. Under the sender's lock.
    pub(super) fn give_back(&self, half: &RingHalf, from: usize) -> bool {
        // Before the memory goes: all other records are void then.
        half.add(half::GIVE_BACKS, 1);
        let is_given = half.give_back(from).is_ok();
        if is_given {
            self.set(from);
        }
        self.give_backs.store(half.load(half::GIVE_BACKS), Ordering::Release);
        is_given
    }
}
