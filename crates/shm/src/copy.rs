//! The copy routine of shared memory: bytes between private memory and memory that a peer writes.
//!
//! Short copies use relaxed atomics. Long copies use machine code, which is no memory access in
//! the sense of the language. A peer that writes meanwhile makes the copy mixed; the behaviour
//! stays defined. A copy has no order: publish or load a word before or after it.
//!
//! # Safety
//! Every caller checks its range against a live mapping before it calls a function of this file.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Copies below this length use atomics, in bytes: there, atomics are as fast as machine code.
/// It is at least [`LINE_BYTES`], the minimum of [`copy_long`].
const LONG_BYTES: usize = 128;
/// Bytes that one turn of [`copy_long`] copies.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE_BYTES: usize = 64;
/// Distance at which a copy into a region prefetches the lines that it will write, in bytes. A
/// reader on another CPU has these lines in its cache. Measured between 2 CPUs: 16 KB took 1.05 to
/// 1.3 us with it and 2.1 us without it. A prefetch of the lines to be read changed nothing.
const PREFETCH_BYTES: usize = 768;
/// No prefetch: the destination is private memory.
const NO_PREFETCH: usize = usize::MAX / 2;
/// Size of the private buffer for ranges that overlap, in bytes.
const OVERLAP_BYTES: usize = 4096;
const WORD_BYTES: usize = 8;

/// Copies `count` bytes, of which either side may be memory that a peer writes meanwhile.
///
/// # Safety
/// `count` bytes at `from` are mapped for reading and `count` bytes at `to` for writing. The two
/// ranges do not overlap. No reference of this process covers `to`; none to `from` is exclusive.
#[inline]
pub unsafe fn copy_bytes(to: *mut u8, from: *const u8, count: usize) {
    if count < LONG_BYTES {
        let mut private = [0; LONG_BYTES];
        for (at, byte) in private[..count].iter_mut().enumerate() {
            // SAFETY: `at` is below `count`, so the byte is mapped. The access is volatile and not
            // atomic, because `from` may be behind a shared reference of this process.
            *byte = unsafe { from.add(at).read_volatile() };
        }
        // SAFETY: `to` is mapped for `count` bytes, as the caller promises.
        unsafe { store_short(to, &private[..count]) };
        return;
    }
    // SAFETY: the promise of the caller; `count` is at least one line.
    unsafe { copy_long(to, from, count, PREFETCH_BYTES) };
}

/// Copies private bytes into shared memory.
///
/// # Safety
/// `bytes.len()` bytes at `to` are mapped for writing, and `bytes` does not lie in them.
#[inline]
pub(crate) unsafe fn copy_in(to: *mut u8, bytes: &[u8]) {
    if bytes.len() < LONG_BYTES {
        // SAFETY: `to` is mapped for that many bytes, as the caller promises.
        return unsafe { store_short(to, bytes) };
    }
    // SAFETY: the promise of the caller; `bytes` is readable and at least one line long.
    unsafe { copy_long(to, bytes.as_ptr(), bytes.len(), PREFETCH_BYTES) };
}

/// Copies shared memory into private bytes.
///
/// # Safety
/// `bytes.len()` bytes at `from` are mapped for reading, and `bytes` does not lie in them.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, bytes: &mut [u8]) {
    if bytes.len() < LONG_BYTES {
        // SAFETY: `from` is mapped for that many bytes, as the caller promises.
        return unsafe { load_short(from, bytes) };
    }
    // SAFETY: the promise of the caller; `bytes` is writable and at least one line long.
    unsafe { copy_long(bytes.as_mut_ptr(), from, bytes.len(), NO_PREFETCH) };
}

/// Copies between two ranges of shared memory that may overlap.
///
/// # Safety
/// As [`copy_bytes`], but the ranges may overlap.
pub(crate) unsafe fn copy_overlapping(to: *mut u8, from: *const u8, count: usize) {
    if to.addr().abs_diff(from.addr()) >= count {
        // SAFETY: the ranges do not overlap; the rest is the promise of the caller.
        return unsafe { copy_bytes(to, from, count) };
    }
    let mut private = [0; OVERLAP_BYTES];
    let mut done = 0;
    while done < count {
        let piece = OVERLAP_BYTES.min(count - done);
        // A copy to a higher address runs backwards, so that it reads each byte before it writes
        // it.
        let at = if to.addr() > from.addr() { count - done - piece } else { done };
        // SAFETY: `at + piece` is at most `count`, so both pieces lie inside the caller's ranges.
        unsafe {
            copy_out(from.wrapping_add(at), &mut private[..piece]);
            copy_in(to.wrapping_add(at), &private[..piece]);
        }
        done += piece;
    }
}

/// # Safety
/// `bytes.len()` bytes at `to` are mapped for writing.
#[inline]
unsafe fn store_short(mut to: *mut u8, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let aligned = to.addr().is_multiple_of(WORD_BYTES);
    if aligned {
        for chunk in words {
            // SAFETY: inside the caller's range, aligned, and any bits are valid.
            unsafe { &*to.cast::<AtomicU64>() }
                .store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            to = to.wrapping_add(WORD_BYTES);
        }
    }
    for byte in if aligned { rest } else { bytes } {
        // SAFETY: inside the caller's range; any bits are valid.
        unsafe { &*to.cast::<AtomicU8>() }.store(*byte, Ordering::Relaxed);
        to = to.wrapping_add(1);
    }
}

/// # Safety
/// `bytes.len()` bytes at `from` are mapped for reading.
#[inline]
unsafe fn load_short(mut from: *const u8, bytes: &mut [u8]) {
    let aligned = from.addr().is_multiple_of(WORD_BYTES);
    let words = if aligned { bytes.len() / WORD_BYTES * WORD_BYTES } else { 0 };
    let (words, rest) = bytes.split_at_mut(words);
    for chunk in words.as_chunks_mut::<WORD_BYTES>().0 {
        // SAFETY: inside the caller's range, aligned, and any bits are valid.
        *chunk = unsafe { &*from.cast::<AtomicU64>() }.load(Ordering::Relaxed).to_ne_bytes();
        from = from.wrapping_add(WORD_BYTES);
    }
    for byte in rest {
        // SAFETY: inside the caller's range; any bits are valid.
        *byte = unsafe { &*from.cast::<AtomicU8>() }.load(Ordering::Relaxed);
        from = from.wrapping_add(1);
    }
}

/// Copies by lines of 64 bytes in four registers. The last line ends at the end of the range and
/// may cover bytes that are already copied.
///
/// The string instruction is not used. If the destination lies a few bytes behind the source,
/// modulo a page, it copies 2.7 GB/s instead of 50 on present CPUs. A page that is read into a
/// buffer from malloc(3) is such a case.
///
/// The copy prefetches lines of the destination `ahead` bytes ahead, and none beyond the end:
/// those lines belong to another range.
///
/// # Safety
/// `count` bytes at `from` are readable and `count` bytes at `to` writable. `count` is at least
/// [`LINE_BYTES`]. The two ranges do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_long(to: *mut u8, from: *const u8, count: usize, ahead: usize) {
    debug_assert!(count >= LINE_BYTES);
    let last = count - LINE_BYTES;
    // SAFETY: each line begins at 0, 64, ... below `last`, or at `last`, so each lies within the
    // `count` bytes that the caller promises. SSE2 is part of x86-64. `prefetchw` is only a hint.
    // Without `nomem` the block is a barrier for the compiler.
    unsafe {
        core::arch::asm!(
            "2:",
            "cmp {at}, {last}",
            "cmovae {at}, {last}",
            "lea {next}, [{at} + {ahead}]",
            "cmp {next}, {count}",
            "jae 3f",
            "prefetchw [{to} + {next}]",
            "3:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}",
            "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}",
            "movups [{to} + {at} + 48], {d}",
            "add {at}, 64",
            "cmp {at}, {count}",
            "jb 2b",
            at = inout(reg) 0_usize => _, last = in(reg) last, count = in(reg) count,
            from = in(reg) from, to = in(reg) to, ahead = in(reg) ahead, next = out(reg) _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Copies 16 bytes a turn, then single bytes.
///
/// # Safety
/// As on x86-64.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
unsafe fn copy_long(to: *mut u8, from: *const u8, count: usize, _ahead: usize) {
    // SAFETY: `left` counts down from `count`, so each access lies within the caller's ranges.
    // Without `nomem` the block is a barrier for the compiler.
    unsafe {
        core::arch::asm!(
            "2:", "cmp {left}, #16", "b.lo 3f",
            "ldp {one}, {two}, [{from}], #16", "stp {one}, {two}, [{to}], #16",
            "sub {left}, {left}, #16", "b 2b",
            "3:", "cbz {left}, 4f",
            "ldrb {one:w}, [{from}], #1", "strb {one:w}, [{to}], #1",
            "sub {left}, {left}, #1", "b 3b",
            "4:",
            left = inout(reg) count => _, from = inout(reg) from => _, to = inout(reg) to => _,
            one = out(reg) _, two = out(reg) _,
            options(nostack)
        );
    }
}

/// Copies single bytes, each once.
///
/// # Safety
/// As on x86-64.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline]
unsafe fn copy_long(to: *mut u8, from: *const u8, count: usize, _ahead: usize) {
    for at in 0..count {
        // SAFETY: `at` is below `count`, so both bytes lie within the caller's ranges.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(bytes: usize) -> Vec<u8> {
        (1..=251).cycle().step_by(7).take(bytes).collect()
    }

    #[test]
    fn any_length_and_offset_is_copied_exactly() {
        let lengths = (0..70).chain(126..200).chain([255, 256, 257, 1000]);
        for length in lengths.step_by(if cfg!(miri) { 41 } else { 1 }) {
            for (to, from) in [(0, 0), (1, 0), (0, 3), (8, 16), (7, 5)] {
                let sent = pattern(length + from);
                let mut got = vec![0_u8; length + to + 1];
                // SAFETY: both vectors hold `length` bytes behind their offsets.
                unsafe { copy_bytes(got[to..].as_mut_ptr(), sent[from..].as_ptr(), length) };
                assert!(got[to..to + length] == sent[from..], "{length} bytes at {to}, {from}");
                assert_eq!(got[to + length], 0, "no byte behind the range is written");
            }
        }
    }

    #[test]
    fn overlapping_ranges_are_copied_either_way() {
        // Longer than the private buffer, so that the direction of the copy matters.
        let count = OVERLAP_BYTES + 100;
        for (to, from) in [(0_usize, 5_usize), (5, 0), (0, count), (count, 0), (3, 3)] {
            let mut memory = pattern(2 * count);
            let mut expected = memory.clone();
            expected.copy_within(from..from + count, to);
            let start = memory.as_mut_ptr();
            // SAFETY: both ranges lie inside the vector, which no reference covers meanwhile.
            unsafe { copy_overlapping(start.add(to), start.add(from), count) };
            assert!(memory == expected, "from {from} to {to}");
        }
    }
}
