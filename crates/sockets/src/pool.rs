//! A pool: 8 KB blocks for all connections of a pair, in one direction.
//!
//! Only the sender writes the pool, and only the sender knows the free blocks. The bitmap is
//! private memory, so no peer can break it. A block returns when the receiver has read past it.
//! Each connection has two blocks that no other connection can take, and shares the rest up to its
//! credits.

use m3ipc_shm::Shared;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, SOCK_POOL_BLOCKS, SOCK_POOL_BYTES};
use std::sync::{Mutex, PoisonError};

const WORDS: usize = SOCK_POOL_BLOCKS / 64;
/// Blocks that each open connection can always have.
const RESERVED_BLOCKS: usize = 2;

/// The blocks in use.
#[derive(Debug)]
struct Bitmap {
    used: [u64; WORDS],
    free: usize,
    /// Free blocks that are reserved for connections with fewer than [`RESERVED_BLOCKS`].
    reserved: usize,
}

/// The pool that this process writes.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Shared,
    bitmap: Mutex<Bitmap>,
}

impl Pool {
    pub(crate) fn new(memory: Shared) -> Self {
        let bitmap = Bitmap { used: [0; WORDS], free: SOCK_POOL_BLOCKS, reserved: 0 };
        Self { memory, bitmap: Mutex::new(bitmap) }
    }

    fn bitmap(&self) -> std::sync::MutexGuard<'_, Bitmap> {
        self.bitmap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the blocks of a new connection.
    pub(crate) fn reserve(&self) {
        self.bitmap().reserved += RESERVED_BLOCKS;
    }

    /// Ends the reservation of a connection that still holds this many blocks.
    pub(crate) fn unreserve(&self, held: usize) {
        let mut bitmap = self.bitmap();
        bitmap.reserved =
            bitmap.reserved.saturating_sub(RESERVED_BLOCKS - held.min(RESERVED_BLOCKS));
    }

    /// Takes the lowest free block for a connection that holds `held`; a cache likely has that
    /// block.
    pub(crate) fn allocate(&self, held: usize) -> Option<u32> {
        let mut bitmap = self.bitmap();
        let own = held < RESERVED_BLOCKS;
        if held >= SOCK_CREDITS || bitmap.free == 0 || (!own && bitmap.free <= bitmap.reserved) {
            return None;
        }
        let at = bitmap.used.iter().position(|word| *word != u64::MAX)?;
        let bit = bitmap.used[at].trailing_ones();
        bitmap.used[at] |= 1 << bit;
        bitmap.free -= 1;
        bitmap.reserved = bitmap.reserved.saturating_sub(usize::from(own));
        u32::try_from(at * 64).ok().map(|first| first + bit)
    }

    /// Frees a block of a connection that keeps `left` blocks; `None` means a closed connection.
    pub(crate) fn free_block(&self, block: u32, left: Option<usize>) {
        let mut bitmap = self.bitmap();
        let (at, bit) = (block as usize / 64, block % 64);
        if bitmap.used[at] & 1 << bit != 0 {
            bitmap.used[at] &= !(1 << bit);
            bitmap.free += 1;
            bitmap.reserved += usize::from(left.is_some_and(|left| left < RESERVED_BLOCKS));
        }
    }

    /// Writes into a block.
    #[inline]
    pub(crate) fn write(&self, block: u32, offset: usize, bytes: &[u8]) {
        self.memory.write(block as usize * SOCK_BLOCK_BYTES + offset, bytes);
    }

    /// Writes into a block, past the caches.
    #[inline]
    pub(crate) fn write_past_caches(&self, block: u32, offset: usize, bytes: &[u8]) {
        self.memory.write_past_caches(block as usize * SOCK_BLOCK_BYTES + offset, bytes);
    }

    /// Asks the CPU for the line at this offset.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        m3ipc_sys::prefetch(self.memory.word64((offset % SOCK_POOL_BYTES) & !7));
    }

    #[cfg(test)]
    pub(crate) fn free_blocks(&self) -> usize {
        self.bitmap().free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        let memory = m3ipc_sys::create_sparse("m3-test", SOCK_POOL_BYTES as u64, false).unwrap();
        Pool::new(Shared::map_sparse(memory, SOCK_POOL_BYTES).unwrap())
    }

    #[test]
    fn nobody_takes_more_than_its_credits() {
        let pool = pool();
        pool.reserve();
        let mut held = 0;
        while pool.allocate(held).is_some() {
            held += 1;
        }
        assert_eq!((held, pool.free_blocks()), (SOCK_CREDITS, SOCK_POOL_BLOCKS - SOCK_CREDITS));
    }

    #[test]
    fn each_connection_has_two_blocks_whatever_the_others_take() {
        let pool = pool();
        (0..64).for_each(|_| pool.reserve());
        let mut greedy = 0;
        for _ in 0..63 {
            let mut held = 0;
            while pool.allocate(held).is_some() {
                held += 1;
            }
            assert!(held >= RESERVED_BLOCKS);
            greedy += held;
        }
        assert_eq!(pool.free_blocks(), SOCK_POOL_BLOCKS - greedy);
        assert!(
            pool.allocate(0).is_some() && pool.allocate(1).is_some() && pool.allocate(2).is_none()
        );
    }

    #[test]
    fn what_comes_back_is_there_again_and_once() {
        let pool = pool();
        pool.reserve();
        let block = pool.allocate(0).unwrap();
        pool.free_block(block, Some(0));
        pool.free_block(block, Some(0));
        assert_eq!((pool.free_blocks(), pool.allocate(0)), (SOCK_POOL_BLOCKS, Some(block)));
        pool.unreserve(1);
        pool.free_block(block, None);
        pool.reserve();
        assert_eq!(pool.free_blocks(), SOCK_POOL_BLOCKS);
    }
}
