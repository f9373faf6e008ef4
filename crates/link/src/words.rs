//! Atomic words, and the memory that holds them.
//!
//! The rules are generic over both. So the same steps run on mapped pages and on the words of a
//! model checker (`tests/loom.rs`). The checker finds each access by the location of its caller.

use crate::layout::PAYLOAD;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_abi::PAYLOAD_BYTES;
use m3ipc_shm::{Observed, ObservedPage, Shared, SharedLine, SharedPage};

/// A 64-bit atomic word.
pub trait Word64 {
    /// Loads the value.
    #[track_caller]
    fn load(&self, order: Ordering) -> u64;
    /// Stores a value.
    #[track_caller]
    fn store(&self, value: u64, order: Ordering);
    /// Replaces the value, and returns the former one.
    #[track_caller]
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// Sets bits, and returns the former value.
    #[track_caller]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// Adds a number, and returns the former value. The sum wraps.
    #[track_caller]
    fn fetch_add(&self, number: u64, order: Ordering) -> u64;
    /// Replaces `old` by `new`, and returns the former value.
    ///
    /// # Errors
    /// The present value, if it is not `old`.
    #[track_caller]
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64>;
    /// A full fence between an update of this word (a locked instruction) and every later load.
    #[track_caller]
    fn fence_after_update(&self) {
        fence_after_update();
    }
}

/// A 32-bit atomic word.
pub trait Word32 {
    /// Loads the value.
    #[track_caller]
    fn load(&self, order: Ordering) -> u32;
    /// Stores a value.
    #[track_caller]
    fn store(&self, value: u32, order: Ordering);
    /// Replaces the value, and returns the former one.
    #[track_caller]
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Sets bits, and returns the former value.
    #[track_caller]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    /// Clears all other bits, and returns the former value.
    #[track_caller]
    fn fetch_and(&self, bits: u32, order: Ordering) -> u32;
    /// Replaces `old` by `new`, and returns the former value.
    ///
    /// # Errors
    /// The present value, if it is not `old`.
    #[track_caller]
    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, u32>;
    /// Adds one.
    #[track_caller]
    fn bump(&self);
    /// A full fence between an update of this word (a locked instruction) and every later load.
    #[track_caller]
    fn fence_after_update(&self) {
        fence_after_update();
    }
}

impl Word64 for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }
    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }
    #[inline]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        Self::swap(self, value, order)
    }
    #[inline]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        Self::fetch_or(self, bits, order)
    }
    #[inline]
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        Self::fetch_add(self, number, order)
    }
    #[inline]
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        Self::compare_exchange(self, old, new, Ordering::SeqCst, Ordering::Acquire)
    }
}

impl Word32 for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        Self::load(self, order)
    }
    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        Self::store(self, value, order);
    }
    #[inline]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        Self::swap(self, value, order)
    }
    #[inline]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        Self::fetch_or(self, bits, order)
    }
    #[inline]
    fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
        Self::fetch_and(self, bits, order)
    }
    #[inline]
    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, u32> {
        Self::compare_exchange(self, old, new, Ordering::SeqCst, Ordering::Acquire)
    }
    #[inline]
    fn bump(&self) {
        self.fetch_add(1, Ordering::SeqCst);
    }
}

/// Memory with words at offsets: a mapped region, or a model of one.
pub trait Page {
    /// The type of its 64-bit words.
    type Word64: Word64;
    /// The type of its 32-bit words.
    type Word32: Word32;
    /// The word at this offset.
    fn word64(&self, offset: usize) -> &Self::Word64;
    /// The word at this offset.
    fn word32(&self, offset: usize) -> &Self::Word32;
    /// Copies bytes in, without any order.
    fn write(&self, offset: usize, bytes: &[u8]);
    /// Copies bytes out, without any order.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Wakes the sleepers of this word.
    fn wake(&self, word: &Self::Word32);
}

/// Memory with lines of 64 bytes: the page of a link. A line is found once, and used often.
pub trait LinePage: Page {
    /// A line of this page.
    type Line;
    /// The line at this offset.
    fn line(&self, offset: usize) -> Self::Line;
    /// The word of a line at this offset in it.
    fn word_in<'a>(&'a self, line: &'a Self::Line, at: usize) -> &'a Self::Word64;
    /// Writes the payload of a message. The slot has this line and this offset.
    #[inline]
    fn write_payload(&self, _line: &Self::Line, slot: usize, payload: &[u8; PAYLOAD_BYTES]) {
        self.write(slot + PAYLOAD, payload);
    }
    /// Reads the payload of the message in a slot.
    #[inline]
    fn read_payload(&self, _line: &Self::Line, slot: usize) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        self.read(slot + PAYLOAD, &mut payload);
        payload
    }
}

/// Implements [`Page`] for a mapped region.
macro_rules! page {
    ($region:ty) => {
        impl Page for $region {
            type Word64 = AtomicU64;
            type Word32 = AtomicU32;

            #[inline]
            fn word64(&self, offset: usize) -> &AtomicU64 {
                Self::word64(self, offset)
            }
            #[inline]
            fn word32(&self, offset: usize) -> &AtomicU32 {
                Self::word32(self, offset)
            }
            #[inline]
            fn write(&self, offset: usize, bytes: &[u8]) {
                Self::write(self, offset, bytes);
            }
            #[inline]
            fn read(&self, offset: usize, bytes: &mut [u8]) {
                Self::read(self, offset, bytes);
            }
            #[inline]
            fn wake(&self, word: &AtomicU32) {
                m3ipc_sys::wake(word);
            }
        }
    };
}

page!(SharedPage);
page!(Shared);

/// A line of a region is found anew each time.
impl LinePage for Shared {
    type Line = usize;

    fn line(&self, offset: usize) -> usize {
        offset
    }
    fn word_in<'a>(&'a self, line: &'a usize, at: usize) -> &'a AtomicU64 {
        Self::word64(self, line + at)
    }
}

impl LinePage for SharedPage {
    type Line = SharedLine;

    fn line(&self, offset: usize) -> SharedLine {
        Self::line(self, offset)
    }
    #[inline(always)]
    fn word_in<'a>(&'a self, line: &'a SharedLine, at: usize) -> &'a AtomicU64 {
        &line.words()[at / size_of::<u64>()]
    }
    // Under miri, regions copy by bytes, and it has no atomics of mixed sizes.
    #[cfg(not(miri))]
    #[inline(always)]
    fn write_payload(&self, line: &SharedLine, _slot: usize, payload: &[u8; PAYLOAD_BYTES]) {
        let (words, _) = payload.as_chunks();
        for (to, word) in line.words()[PAYLOAD / 8..].iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }
    #[cfg(not(miri))]
    #[inline(always)]
    fn read_payload(&self, line: &SharedLine, _slot: usize) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        let (words, _) = payload.as_chunks_mut();
        for (word, of) in words.iter_mut().zip(&line.words()[PAYLOAD / 8..]) {
            *word = of.load(Ordering::Relaxed).to_ne_bytes();
        }
        payload
    }
}

/// Memory that this process only reads.
pub trait View {
    /// The present value of the word at this offset.
    #[track_caller]
    fn load32(&self, offset: usize, order: Ordering) -> u32;
    /// The present value of the word at this offset.
    #[track_caller]
    fn load64(&self, offset: usize, order: Ordering) -> u64;
}

/// Implements [`View`] for a mapped region.
macro_rules! view {
    ($region:ty) => {
        impl View for $region {
            #[inline]
            fn load32(&self, offset: usize, order: Ordering) -> u32 {
                Self::load32(self, offset, order)
            }
            #[inline]
            fn load64(&self, offset: usize, order: Ordering) -> u64 {
                Self::load64(self, offset, order)
            }
        }
    };
}

view!(ObservedPage);
view!(Observed);

/// A full fence between an atomic update (a locked instruction) and every later load.
///
/// A sender publishes a message and then reads the wait mode. A receiver publishes its wait mode
/// and then polls. At least one of the two must see the other. On x86-64 the locked update is a
/// full fence, so a fence of the compiler is enough.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn fence_after_update() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full fence between an atomic update and every later load.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn fence_after_update() {
    core::sync::atomic::fence(Ordering::SeqCst);
}
