//! Copying bytes between private memory and a region, word by word.
//!
//! Words are relaxed atomics: a peer that writes meanwhile makes the copy
//! stale or mixed, never undefined. Order comes from the word that is
//! published before or after.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD_BYTES: usize = 8;

#[inline]
pub(crate) fn write<'a>(
    word: impl Fn(usize) -> &'a AtomicU64,
    byte: impl Fn(usize) -> &'a AtomicU8,
    mut offset: usize,
    bytes: &[u8],
) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for chunk in words {
        word(offset).store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        offset += WORD_BYTES;
    }
    for last in rest {
        byte(offset).store(*last, Ordering::Relaxed);
        offset += 1;
    }
}

#[inline]
pub(crate) fn read<'a>(
    word: impl Fn(usize) -> &'a AtomicU64,
    byte: impl Fn(usize) -> &'a AtomicU8,
    mut offset: usize,
    bytes: &mut [u8],
) {
    let (words, rest) = bytes.as_chunks_mut::<WORD_BYTES>();
    for chunk in words {
        *chunk = word(offset).load(Ordering::Relaxed).to_ne_bytes();
        offset += WORD_BYTES;
    }
    for last in rest {
        *last = byte(offset).load(Ordering::Relaxed);
        offset += 1;
    }
}
