//! The hints: a bitmap in two levels that tells an endpoint where to look.
//!
//! All its peers write it, so nothing but speed depends on it: a peer that
//! clears another's hint delays it until the endpoint's next full look.

use crate::words::{Page, Word64};
use core::sync::atomic::Ordering;
use m3ipc_shm::SharedPage;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of the hints in bytes.
pub const READY_BITMAP_BYTES: usize = m3ipc_shm::PAGE_BYTES;
const TOP_WORDS: usize = 7;
const LEAF_WORDS: usize = TOP_WORDS * 64;
const LEAVES: usize = 64;
/// The number of links that hints can tell apart; those beyond are found by full looks.
pub const READY_BITMAP_LINKS: u32 = 64 * 448;

/// The hints of one endpoint: its own, or a peer's.
#[derive(Debug)]
pub struct ReadyBitmap<P = SharedPage>(P);

impl ReadyBitmap {
    /// Maps a page of hints.
    ///
    /// # Errors
    /// Of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }
}

impl<P: Page> ReadyBitmap<P> {
    /// The hints in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// Tells the endpoint to look at the link of this index.
    pub fn set(&self, index: u32) {
        if index >= READY_BITMAP_LINKS {
            return;
        }
        let leaf = (index / 64) as usize;
        self.raise(LEAVES + 8 * leaf, 1 << (index % 64));
        self.raise(8 * (leaf / 64), 1 << (leaf % 64));
    }

    /// Sets a bit, without writing where it is set: the owner clears it before
    /// it looks, so a bit seen set is a look to come.
    fn raise(&self, offset: usize, bit: u64) {
        let word = self.0.word64(offset);
        if word.load(Ordering::SeqCst) & bit == 0 {
            word.fetch_or(bit, Ordering::SeqCst);
            word.fence_after_update(); // pairs with `clear` of the other level, and with `publish_mode`
        }
    }

    /// Whether any hint is set: a few loads of one line.
    #[must_use]
    #[inline]
    pub fn any(&self) -> bool {
        (0..TOP_WORDS).any(|at| self.0.word64(8 * at).load(Ordering::SeqCst) != 0)
    }

    /// Takes all hints and calls `visit` with each index. Which are set is the peers' claim.
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
        word.fence_after_update(); // pairs with `post` before `raise`
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
    fn hints_are_found_once_each() {
        let hints = ReadyBitmap::map(m3ipc_sys::create_memory("m3-test", 4096).unwrap()).unwrap();
        let set = [0, 1, 63, 64, 4095, 4096, READY_BITMAP_LINKS - 1];
        set.iter().for_each(|index| hints.set(*index));
        hints.set(READY_BITMAP_LINKS);
        assert!(hints.any());
        let mut found = Vec::new();
        hints.drain(|index| found.push(index));
        assert_eq!(found, set);
        assert!(!hints.any());
    }
}
