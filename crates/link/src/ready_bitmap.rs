//! The ready bitmap: two levels of bits that name the links to poll.
//!
//! All peers of an endpoint write its bitmap, so only speed depends on it. A peer that clears the
//! bit of another peer delays that peer until the endpoint's next poll of all links.

use crate::status::PeerStatus;
use crate::words::{Page, View, Word64};
use core::sync::atomic::Ordering;
use m3ipc_shm::SharedPage;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of a ready bitmap in bytes.
pub const READY_BITMAP_BYTES: usize = m3ipc_shm::PAGE_BYTES;
const TOP_WORDS: usize = 7;
const LEAF_WORDS: usize = TOP_WORDS * 64;
const LEAVES: usize = 64;
/// Number of links that a bitmap has bits for. The endpoint finds the others by polls of all links.
pub const READY_BITMAP_LINKS: u32 = 64 * 448;

/// The ready bitmap of one endpoint: the own one, or a peer's.
#[derive(Debug)]
pub struct ReadyBitmap<P = SharedPage>(P);

impl ReadyBitmap {
    /// Maps a ready bitmap.
    ///
    /// # Errors
    /// Those of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }
}

impl<P: Page> ReadyBitmap<P> {
    /// The ready bitmap in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// Marks the link of this index as ready. Call it after the post.
    pub fn set(&self, index: u32) {
        if index >= READY_BITMAP_LINKS {
            return;
        }
        let leaf = (index / 64) as usize;
        self.raise(LEAVES + 8 * leaf, 1 << (index % 64));
        self.raise(8 * (leaf / 64), 1 << (leaf % 64));
    }

    /// Marks the link of this index as ready, unless the endpoint polls it anyway. Call it after
    /// the post.
    #[inline]
    pub fn set_unless_hot<V: View>(&self, index: u32, owner: &PeerStatus<V>) {
        if !owner.is_hot(index) {
            self.set(index);
        }
    }

    /// Sets a bit, and writes nothing if the bit is set: the owner clears a bit before it polls the
    /// link, so a set bit stands for a poll to come.
    fn raise(&self, offset: usize, bit: u64) {
        let word = self.0.word64(offset);
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
            // Pairs with the fences of `clear` (of the other level) and of `publish_mode`.
            word.fence_after_update();
        }
    }

    /// Whether any bit is set. Costs a few loads of one cache line.
    #[must_use]
    pub fn any(&self) -> bool {
        (0..TOP_WORDS).any(|at| self.0.word64(8 * at).load(Ordering::SeqCst) != 0)
    }

    /// Whether a bit of the first `links` links is set. Costs one load up to 4,096 links.
    #[must_use]
    #[inline(always)]
    pub fn any_of(&self, links: usize) -> bool {
        self.0.word64(0).load(Ordering::SeqCst) != 0 || links > 64 * 64 && self.any()
    }

    /// Clears all bits and calls `visit` with the index of each set bit. Bits are only claims of
    /// peers.
    pub fn drain(&self, mut visit: impl FnMut(u32)) {
        for (top, base) in (0..TOP_WORDS).zip((0_u32..).step_by(64)) {
            for_each_bit(self.clear(8 * top), |leaf_bit| {
                let leaf = base + leaf_bit;
                debug_assert!((leaf as usize) < LEAF_WORDS);
                for_each_bit(self.clear(LEAVES + 8 * leaf as usize), |bit| visit(leaf * 64 + bit));
            });
        }
    }

    fn clear(&self, offset: usize) -> u64 {
        let word = self.0.word64(offset);
        if word.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let bits = word.swap(0, Ordering::SeqCst);
        word.fence_after_update(); // pairs with the fence of `slot::post`, which precedes `raise`
        bits
    }
}

fn for_each_bit(mut bits: u64, mut visit: impl FnMut(u32)) {
    while bits != 0 {
        visit(bits.trailing_zeros());
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_found_once() {
        let bitmap = ReadyBitmap::map(m3ipc_sys::create_memory("m3-test", 4096).unwrap()).unwrap();
        let set = [0, 1, 63, 64, 4095, 4096, READY_BITMAP_LINKS - 1];
        set.iter().for_each(|index| bitmap.set(*index));
        bitmap.set(READY_BITMAP_LINKS);
        assert!(bitmap.any());
        let mut found = Vec::new();
        bitmap.drain(|index| found.push(index));
        assert_eq!(found, set);
        assert!(!bitmap.any());
    }
}
