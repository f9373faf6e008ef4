//! Atomic words, so that the protocol runs alike on shared memory and under loom.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A 64-bit atomic word.
pub trait Word64 {
    /// Loads it.
    fn load(&self, order: Ordering) -> u64;
    /// Stores it.
    fn store(&self, value: u64, order: Ordering);
    /// Replaces it, and tells what it was.
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// Replaces `old` by `new`, or tells what it is instead.
    ///
    /// # Errors
    /// The value found.
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64>;
}

/// A 32-bit atomic word.
pub trait Word32 {
    /// Loads it.
    fn load(&self, order: Ordering) -> u32;
    /// Replaces it, and tells what it was.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Adds one.
    fn bump(&self);
}

macro_rules! words {
    ($word64:ty, $word32:ty) => {
        impl Word64 for $word64 {
            #[inline]
            fn load(&self, order: Ordering) -> u64 {
                <$word64>::load(self, order)
            }
            #[inline]
            fn store(&self, value: u64, order: Ordering) {
                <$word64>::store(self, value, order);
            }
            #[inline]
            fn swap(&self, value: u64, order: Ordering) -> u64 {
                <$word64>::swap(self, value, order)
            }
            #[inline]
            fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
                <$word64>::compare_exchange(self, old, new, Ordering::SeqCst, Ordering::Acquire)
            }
        }

        impl Word32 for $word32 {
            #[inline]
            fn load(&self, order: Ordering) -> u32 {
                <$word32>::load(self, order)
            }
            #[inline]
            fn swap(&self, value: u32, order: Ordering) -> u32 {
                <$word32>::swap(self, value, order)
            }
            #[inline]
            fn bump(&self) {
                <$word32>::fetch_add(self, 1, Ordering::SeqCst);
            }
        }
    };
}

words!(AtomicU64, AtomicU32);

#[cfg(loom)]
words!(loom::sync::atomic::AtomicU64, loom::sync::atomic::AtomicU32);

/// Orders an atomic update (a locked instruction) before every later load.
///
/// One side publishes a message and then looks whether the other sleeps; the
/// other says that it sleeps and then looks for a message. At least one must
/// see the other. On x86-64 the locked update is that fence already, so only
/// the compiler has to be told.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline]
pub fn fence_after_update() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Orders an atomic update before every later load.
#[cfg(all(not(target_arch = "x86_64"), not(loom)))]
#[inline]
pub fn fence_after_update() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// Orders an atomic update before every later load.
#[cfg(loom)]
pub fn fence_after_update() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}
