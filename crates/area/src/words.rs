//! The words of a ledger: what the rules run on, mapped or modelled.

use core::sync::atomic::{Ordering, fence};
use m3ipc_shm::{Observed, Shared};

/// Words of a record: claim, place, reading, one to spare.
pub const RECORD_WORDS: usize = 4;
/// Where in its record the claim stands.
pub const CLAIM: usize = 0;
/// Where in its record the place stands; of a block's home only.
pub const SPAN: usize = 1;
/// Where in its record the reading stands.
pub const READING: usize = 2;
/// Offsets and capacities of blocks are multiples of this, in bytes: a cache line.
pub const UNIT_BYTES: u64 = 64;

/// Block numbers of an area of this limit in bytes: one per KB, within 1,024 to 262,144.
#[must_use]
pub const fn numbers_of(limit_bytes: u64) -> u32 {
    let wanted = limit_bytes / 1024;
    if wanted < 1024 {
        1024
    } else if wanted > 262_144 {
        262_144
    } else {
        // Below 2^18: nothing is lost.
        (wanted & 0xffff_ffff) as u32
    }
}

/// Size of a ledger of so many block numbers, in bytes.
#[must_use]
pub const fn ledger_bytes(numbers: u32) -> usize {
    numbers as usize * RECORD_WORDS * 8
}

/// A ledger as anybody sees it.
pub trait LedgerWords {
    /// The word at this index, and all that its writer wrote before it (acquire).
    fn load(&self, at: usize) -> u64;
}

/// A ledger as its one writer sees it.
pub trait OwnLedgerWords: LedgerWords {
    /// Stores a word after all that was written before (release).
    fn store(&self, at: usize, value: u64);
    /// Orders the stores before every later load of others' words.
    fn fence(&self);
}

impl LedgerWords for Observed {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        // Acquire: pairs with `store` of the ledger's owner.
        self.load64(8 * at, Ordering::Acquire)
    }
}

impl LedgerWords for Shared {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.word64(8 * at).load(Ordering::Acquire)
    }
}

impl OwnLedgerWords for Shared {
    #[inline]
    fn store(&self, at: usize, value: u64) {
        // Release: pairs with `load` of everybody else.
        self.word64(8 * at).store(value, Ordering::Release);
    }

    #[inline]
    fn fence(&self) {
        // Pairs with the fence of whoever claims the same block at the same time.
        fence(Ordering::SeqCst);
    }
}
