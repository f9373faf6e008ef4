//! The words of a ledger, generic over the memory: mapped memory, or that of a model checker.

use core::sync::atomic::{Ordering, fence};
use m3ipc_shm::{Observed, Shared};

/// Words of a record: claim, span, reading, one unused word.
pub const RECORD_WORDS: usize = 4;
/// Index of the claim in its record.
pub const CLAIM: usize = 0;
/// Index of the span in its record. Only the allocator member writes it.
pub const SPAN: usize = 1;
/// Index of the reading in its record.
pub const READING: usize = 2;
/// Offsets and capacities of blocks are multiples of this unit: one cache line, in bytes.
pub const UNIT_BYTES: u64 = 64;

/// Block numbers of an area with this limit in bytes: one per KB, from 1,024 to 262,144.
#[must_use]
pub const fn numbers_of(limit_bytes: u64) -> u32 {
    let wanted = limit_bytes / 1024;
    if wanted < 1024 {
        1024
    } else if wanted > 262_144 {
        262_144
    } else {
        // The number is below 2^18, so the cast is exact.
        (wanted & 0xffff_ffff) as u32
    }
}

/// Size in bytes of a ledger with this number of block numbers.
#[must_use]
pub const fn ledger_bytes(numbers: u32) -> usize {
    numbers as usize * RECORD_WORDS * 8
}

/// A ledger that this process reads.
pub trait LedgerWords {
    /// Loads the word at this index with acquire order.
    fn load(&self, at: usize) -> u64;
}

/// The ledger that this process alone writes.
pub trait OwnLedgerWords: LedgerWords {
    /// Stores a word with release order.
    fn store(&self, at: usize, value: u64);
    /// Orders all earlier stores before every later load of other ledgers.
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
        // Release: pairs with `load` of the other members.
        self.word64(8 * at).store(value, Ordering::Release);
    }

    #[inline]
    fn fence(&self) {
        // Pairs with the same `fence` of another member that claims the block at the same time.
        fence(Ordering::SeqCst);
    }
}

/// Index in a ledger of a word of the record of this block number.
pub(crate) const fn word_index(number: u32, word: usize) -> usize {
    number as usize * RECORD_WORDS + word
}
