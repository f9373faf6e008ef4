//! A pool: blocks of 8 KB for all connections of a pair, one way.
//!
//! The sender alone writes it, and alone knows which blocks are free: its bitmap is private, so nobody else can break it.
//! A block comes back when the receiver has read past it. Each connection has two blocks that no other can take;
//! of the rest it may have some, up to its credits.

use m3ipc_shm::Shared;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, SOCK_POOL_BLOCKS};
use std::sync::{Mutex, PoisonError};

const WORDS: usize = SOCK_POOL_BLOCKS / 64;
/// Blocks that each open connection can have at any time.
const OWN: usize = 2;

/// Which blocks are in use.
#[derive(Debug)]
struct Bitmap {
    used: [u64; WORDS],
    free: usize,
    /// Blocks that are free and kept for connections that have fewer than [`OWN`].
    kept: usize,
}

/// The pool that this process writes.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Shared,
    bitmap: Mutex<Bitmap>,
}

impl Pool {
    pub(crate) fn new(memory: Shared) -> Self {
        let bitmap = Bitmap { used: [0; WORDS], free: SOCK_POOL_BLOCKS, kept: 0 };
        Self { memory, bitmap: Mutex::new(bitmap) }
    }

    fn bitmap(&self) -> std::sync::MutexGuard<'_, Bitmap> {
        self.bitmap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection begins.
    pub(crate) fn open(&self) {
        self.bitmap().kept += OWN;
    }

    /// A connection ends that still has so many blocks.
    pub(crate) fn close(&self, held: usize) {
        let mut bitmap = self.bitmap();
        bitmap.kept = bitmap.kept.saturating_sub(OWN - held.min(OWN));
    }

    /// A block for a connection that has so many; the lowest that is free, which is likely in a cache.
    pub(crate) fn take(&self, held: usize) -> Option<u32> {
        let mut bitmap = self.bitmap();
        let own = held < OWN;
        if held >= SOCK_CREDITS || bitmap.free == 0 || (!own && bitmap.free <= bitmap.kept) {
            return None;
        }
        let at = bitmap.used.iter().position(|word| *word != u64::MAX)?;
        let bit = bitmap.used[at].trailing_ones();
        bitmap.used[at] |= 1 << bit;
        bitmap.free -= 1;
        bitmap.kept = bitmap.kept.saturating_sub(usize::from(own));
        u32::try_from(at * 64).ok().map(|first| first + bit)
    }

    /// A block comes back from a connection that has so many left; `None` from one that has ended.
    pub(crate) fn give(&self, block: u32, left: Option<usize>) {
        let mut bitmap = self.bitmap();
        let (at, bit) = (block as usize / 64, block % 64);
        if bitmap.used[at] & 1 << bit != 0 {
            bitmap.used[at] &= !(1 << bit);
            bitmap.free += 1;
            bitmap.kept += usize::from(left.is_some_and(|left| left < OWN));
        }
    }

    /// Writes into a block.
    #[inline]
    pub(crate) fn write(&self, block: u32, offset: usize, bytes: &[u8]) {
        self.memory.write(block as usize * SOCK_BLOCK_BYTES + offset, bytes);
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.bitmap().free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_wire::sock::SOCK_POOL_BYTES;

    fn pool() -> Pool {
        let memory = m3ipc_sys::create_sparse("m3-test", SOCK_POOL_BYTES as u64, false).unwrap();
        Pool::new(Shared::map_sparse(memory, SOCK_POOL_BYTES).unwrap())
    }

    #[test]
    fn nobody_takes_more_than_its_credits() {
        let pool = pool();
        pool.open();
        let mut held = 0;
        while pool.take(held).is_some() {
            held += 1;
        }
        assert_eq!((held, pool.free()), (SOCK_CREDITS, SOCK_POOL_BLOCKS - SOCK_CREDITS));
    }

    #[test]
    fn each_connection_has_two_blocks_whatever_the_others_take() {
        let pool = pool();
        (0..64).for_each(|_| pool.open());
        let mut greedy = 0;
        for _ in 0..63 {
            let mut held = 0;
            while pool.take(held).is_some() {
                held += 1;
            }
            assert!(held >= OWN);
            greedy += held;
        }
        assert_eq!(pool.free(), SOCK_POOL_BLOCKS - greedy);
        assert!(pool.take(0).is_some() && pool.take(1).is_some() && pool.take(2).is_none());
    }

    #[test]
    fn what_comes_back_is_there_again_and_once() {
        let pool = pool();
        pool.open();
        let block = pool.take(0).unwrap();
        pool.give(block, Some(0));
        pool.give(block, Some(0));
        assert_eq!((pool.free(), pool.take(0)), (SOCK_POOL_BLOCKS, Some(block)));
        pool.close(1);
        pool.give(block, None);
        pool.open();
        assert_eq!(pool.free(), SOCK_POOL_BLOCKS);
    }
}
