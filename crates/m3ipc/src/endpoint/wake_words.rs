//! The wake words that an endpoint sleeps on, with their values before the last poll.

use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::WAIT_WORDS_MAX;

/// Links to sleep on and the values of their words.
#[derive(Debug)]
pub(super) struct WakeWords {
    list: [(u32, u32); WAIT_WORDS_MAX],
    count: usize,
}

impl WakeWords {
    /// No word.
    pub(super) fn none() -> Self {
        Self { list: [(0, 0); WAIT_WORDS_MAX], count: 0 }
    }

    /// Adds the word of a link with its present value, if there is room.
    pub(super) fn push(&mut self, index: u32, word: &AtomicU32) {
        if self.count + 1 < WAIT_WORDS_MAX {
            self.list[self.count] = (index, word.load(Ordering::SeqCst));
            self.count += 1;
        }
    }

    /// Links and values.
    pub(super) fn list(&self) -> &[(u32, u32)] {
        &self.list[..self.count]
    }
}
