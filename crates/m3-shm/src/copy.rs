//! Copying bytes between private memory and a region, word by word.
//!
//! Words are relaxed atomics: a peer that writes meanwhile makes the copy
//! stale or mixed, never undefined. Order comes from the word that is
//! published before or after.

use crate::region::word;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use m3_sys::Mapping;

const WORD_BYTES: usize = 8;

#[inline]
pub(crate) fn write(mapping: &Mapping, mut offset: usize, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for chunk in words {
        word::<AtomicU64>(mapping, offset).store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        offset += WORD_BYTES;
    }
    for byte in rest {
        word::<AtomicU8>(mapping, offset).store(*byte, Ordering::Relaxed);
        offset += 1;
    }
}

#[inline]
pub(crate) fn read(mapping: &Mapping, mut offset: usize, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<WORD_BYTES>();
    for chunk in words {
        *chunk = word::<AtomicU64>(mapping, offset).load(Ordering::Relaxed).to_ne_bytes();
        offset += WORD_BYTES;
    }
    for byte in rest {
        *byte = word::<AtomicU8>(mapping, offset).load(Ordering::Relaxed);
        offset += 1;
    }
}
