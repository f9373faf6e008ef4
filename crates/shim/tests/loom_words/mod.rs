//! The words of the models: of the checker, or plain ones.

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_link::Word64;
use m3ipc_shim::protocol::CountingWord;

/// A word of the checker; `fenced` says whether its fences count.
pub struct Word {
    value: AtomicU64,
    fenced: bool,
}

impl Word {
    pub fn new(value: u64, fenced: bool) -> Self {
        Self { value: AtomicU64::new(value), fenced }
    }
}

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.value.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.value.swap(value, order)
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.value.fetch_or(bits, order)
    }
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        self.value.fetch_add(number, order)
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.value.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
    }
    fn fence_after_update(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

/// A word that both threads use in turn without an order of its own: the checker need not try all
/// its interleavings.
pub enum AnyWord {
    Checked(Word),
    Plain(core::sync::atomic::AtomicU64),
}

impl Word64 for AnyWord {
    fn load(&self, order: Ordering) -> u64 {
        match self {
            Self::Checked(word) => word.load(order),
            Self::Plain(word) => word.load(Ordering::SeqCst),
        }
    }
    fn store(&self, value: u64, order: Ordering) {
        match self {
            Self::Checked(word) => word.store(value, order),
            Self::Plain(word) => word.store(value, Ordering::SeqCst),
        }
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        match self {
            Self::Checked(word) => word.swap(value, order),
            Self::Plain(word) => word.swap(value, Ordering::SeqCst),
        }
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        match self {
            Self::Checked(word) => word.fetch_or(bits, order),
            Self::Plain(word) => word.fetch_or(bits, Ordering::SeqCst),
        }
    }
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        match self {
            Self::Checked(word) => word.fetch_add(number, order),
            Self::Plain(word) => word.fetch_add(number, Ordering::SeqCst),
        }
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        match self {
            Self::Checked(word) => word.compare_exchange(old, new),
            Self::Plain(word) => {
                word.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
            }
        }
    }
    fn fence_after_update(&self) {
        if let Self::Checked(word) = self {
            word.fence_after_update();
        }
    }
}

impl CountingWord for AnyWord {
    fn add(&self, amount: u64) {
        match self {
            Self::Checked(word) => drop(word.value.fetch_add(amount, Ordering::AcqRel)),
            Self::Plain(word) => drop(word.fetch_add(amount, Ordering::AcqRel)),
        }
    }
    fn subtract(&self, amount: u64) {
        match self {
            Self::Checked(word) => drop(word.value.fetch_sub(amount, Ordering::AcqRel)),
            Self::Plain(word) => drop(word.fetch_sub(amount, Ordering::AcqRel)),
        }
    }
}
