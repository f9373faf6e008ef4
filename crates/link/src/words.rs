//! Atomic words and the memory that holds them: what the protocol runs on.
//!
//! Everything here is generic over both, so that the very same steps run on
//! mapped pages and in a model checker (`tests/loom`), which brings its own words.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_shm::{Observed, ObservedPage, Shared, SharedPage};

/// A 64-bit atomic word.
pub trait Word64 {
    /// Loads it.
    #[cfg_attr(loom, track_caller)]
    fn load(&self, order: Ordering) -> u64;
    /// Stores it.
    #[cfg_attr(loom, track_caller)]
    fn store(&self, value: u64, order: Ordering);
    /// Replaces it, and tells what it was.
    #[cfg_attr(loom, track_caller)]
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// Sets bits, and tells what it was.
    #[cfg_attr(loom, track_caller)]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// Replaces `old` by `new`, or tells what it is instead.
    ///
    /// # Errors
    /// The value found.
    #[cfg_attr(loom, track_caller)]
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64>;
    /// Orders an update of this word (a locked instruction) before every later load.
    #[cfg_attr(loom, track_caller)]
    fn fence_after_update(&self) {
        fence_after_update();
    }
}

/// A 32-bit atomic word.
pub trait Word32 {
    /// Loads it.
    #[cfg_attr(loom, track_caller)]
    fn load(&self, order: Ordering) -> u32;
    /// Stores it.
    #[cfg_attr(loom, track_caller)]
    fn store(&self, value: u32, order: Ordering);
    /// Replaces it, and tells what it was.
    #[cfg_attr(loom, track_caller)]
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Sets bits, and tells what it was.
    #[cfg_attr(loom, track_caller)]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    /// Keeps only these bits, and tells what it was.
    #[cfg_attr(loom, track_caller)]
    fn fetch_and(&self, bits: u32, order: Ordering) -> u32;
    /// Replaces `old` by `new`, or tells what it is instead.
    ///
    /// # Errors
    /// The value found.
    #[cfg_attr(loom, track_caller)]
    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, u32>;
    /// Adds one.
    #[cfg_attr(loom, track_caller)]
    fn bump(&self);
    /// Orders an update of this word (a locked instruction) before every later load.
    #[cfg_attr(loom, track_caller)]
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

/// Memory that holds words at offsets: a mapped region, or a model of one.
pub trait Page {
    /// Its 64-bit words.
    type Word64: Word64;
    /// Its 32-bit words.
    type Word32: Word32;
    /// The word at this offset.
    fn word64(&self, offset: usize) -> &Self::Word64;
    /// The word at this offset.
    fn word32(&self, offset: usize) -> &Self::Word32;
    /// Copies bytes in, in no order.
    fn write(&self, offset: usize, bytes: &[u8]);
    /// Copies bytes out, in no order.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Wakes who sleeps on this word.
    fn wake(&self, word: &Self::Word32);
}

/// A mapped region is such memory.
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

/// Memory that can only be looked at.
pub trait View {
    /// The word at this offset, now.
    #[cfg_attr(loom, track_caller)]
    fn load32(&self, offset: usize, order: Ordering) -> u32;
    /// The word at this offset, now.
    #[cfg_attr(loom, track_caller)]
    fn load64(&self, offset: usize, order: Ordering) -> u64;
}

/// A mapped region that others write is such memory.
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

/// Orders an atomic update (a locked instruction) before every later load.
///
/// One side publishes a message and then looks whether the other sleeps; the
/// other says that it sleeps and then looks for a message. At least one must
/// see the other. On x86-64 the locked update is that fence already, so only
/// the compiler has to be told.
#[cfg(target_arch = "x86_64")]
#[inline]
fn fence_after_update() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Orders an atomic update before every later load.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fence_after_update() {
    core::sync::atomic::fence(Ordering::SeqCst);
}
