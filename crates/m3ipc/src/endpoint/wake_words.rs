//! The wake words that an endpoint sleeps on, with their values before the last poll.

use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::WAIT_WORDS_MAX;

/// Words of links that a sleep holds without an allocation.
pub(super) const FEW_WORDS: usize = 3;

/// Links to sleep on and the values of their words.
#[derive(Debug, Default)]
pub(super) struct WakeWords {
    few: [(u32, u32); FEW_WORDS],
    /// The words of more links than `few` has room for.
    more: Vec<(u32, u32)>,
    count: usize,
}

impl WakeWords {
    /// No word.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Adds the word of a link with its present value, if there is room.
    pub(super) fn push(&mut self, index: u32, word: &AtomicU32) {
        // One word is left for the event word, and one for the daemon mark.
        if self.count + 2 >= WAIT_WORDS_MAX {
            return;
        }
        let entry = (index, word.load(Ordering::SeqCst));
        match self.few.get_mut(self.count) {
            Some(place) => *place = entry,
            None => self.more.push(entry),
        }
        self.count += 1;
    }

    /// Links and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.few.iter().take(self.count).chain(&self.more).copied()
    }

    /// The number of links.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}
