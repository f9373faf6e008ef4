//! The marks of a set: a bit for each slot to report.

use crate::connection::armed_poller::BIT_WORDS;
use core::sync::atomic::{AtomicU64, Ordering};

/// A bit for each slot.
#[derive(Debug)]
pub(super) struct Marks([AtomicU64; BIT_WORDS]);

impl Marks {
    /// No marks.
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BIT_WORDS])
    }

    /// Removes all marks of a set that no descriptor refers to.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Marks a slot.
    pub(super) fn add(&self, slot: usize) {
        self.0[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
    }

    /// Takes the marks of one word.
    pub(super) fn take(&self, word: usize) -> u64 {
        let word = &self.0[word];
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::SeqCst) }
    }

    /// Whether any slot of the first words is marked.
    pub(super) fn any(&self, words: usize) -> bool {
        self.0[..words].iter().any(|word| word.load(Ordering::SeqCst) != 0)
    }
}
