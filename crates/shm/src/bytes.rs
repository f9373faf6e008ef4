//! Runs of bytes at any offset, in and out of a region.
//!
//! # Safety
//! The range is checked against the mapping before anything is touched. Short runs move by relaxed atomics; long ones by
//! machine code, which is no access of the language: a peer that writes meanwhile makes
//! the copy mixed, never undefined. Order comes from the word that is published before or after.
#![allow(unsafe_code)]

use crate::region::{Observed, Shared};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Below this relaxed atomics are as fast as machine code, in bytes; at least a line of [`copy_long`].
const LONG_BYTES: usize = 128;
/// What one turn of [`copy_long`] copies, in bytes.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// How far ahead a copy into a region asks for the lines that it will write, in bytes: a reader on another CPU has them in its cache.
/// Measured between 2 CPUs: 16 KB took 1.05 to 1.3 us, without it 2.1 us; asking for lines that are read changed nothing.
const AHEAD_BYTES: usize = 768;
/// Nothing is asked for: what is written to is the caller's own.
const NOT_AHEAD: usize = usize::MAX / 2;
const WORD_BYTES: usize = 8;

/// Checks that a run lies inside.
///
/// # Panics
/// Where it does not: offsets are our own constants and checked numbers, never a peer's.
#[inline]
fn run(start: *mut u8, length: usize, offset: usize, bytes: usize) -> *mut u8 {
    assert!(
        offset.checked_add(bytes).is_some_and(|end| end <= length),
        "bytes outside their region"
    );
    start.wrapping_add(offset)
}

impl Shared {
    /// Copies bytes in, at any offset. A reader may see them in any order until a word is published with release
    /// order afterwards.
    ///
    /// # Panics
    /// Where they do not fit.
    #[inline]
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let to = run(self.first(), self.length(), offset, bytes.len());
        if bytes.len() < LONG_BYTES {
            return put_short(to, bytes);
        }
        // SAFETY: `to` and what follows lie inside the mapping (just checked), which is writable and lives; `bytes` is ours.
        unsafe { copy_long(to, bytes.as_ptr(), bytes.len(), AHEAD_BYTES) };
    }
}

impl Observed {
    /// Copies bytes out, from any offset; what another writes meanwhile may be in them or not.
    ///
    /// # Panics
    /// Where they do not lie inside.
    #[inline]
    pub fn get(&self, offset: usize, bytes: &mut [u8]) {
        let from = run(self.first(), self.length(), offset, bytes.len());
        if bytes.len() < LONG_BYTES {
            return get_short(from, bytes);
        }
        // SAFETY: `from` and what follows lie inside the mapping (just checked), which lives; `bytes` is ours alone.
        unsafe { copy_long(bytes.as_mut_ptr(), from, bytes.len(), NOT_AHEAD) };
    }
}

fn put_short(mut to: *mut u8, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let aligned = to.addr().is_multiple_of(WORD_BYTES);
    if aligned {
        for chunk in words {
            // SAFETY: inside the checked run, aligned, only reached through atomics.
            unsafe { &*to.cast::<AtomicU64>() }
                .store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            to = to.wrapping_add(WORD_BYTES);
        }
    }
    for byte in if aligned { rest } else { bytes } {
        // SAFETY: as above.
        unsafe { &*to.cast::<AtomicU8>() }.store(*byte, Ordering::Relaxed);
        to = to.wrapping_add(1);
    }
}

fn get_short(mut from: *mut u8, bytes: &mut [u8]) {
    let aligned = from.addr().is_multiple_of(WORD_BYTES);
    let words = if aligned { bytes.len() / WORD_BYTES * WORD_BYTES } else { 0 };
    let (words, rest) = bytes.split_at_mut(words);
    for chunk in words.as_chunks_mut::<WORD_BYTES>().0 {
        // SAFETY: inside the checked run, aligned, only reached through atomics.
        *chunk = unsafe { &*from.cast::<AtomicU64>() }.load(Ordering::Relaxed).to_ne_bytes();
        from = from.wrapping_add(WORD_BYTES);
    }
    for byte in rest {
        // SAFETY: as above.
        *byte = unsafe { &*from.cast::<AtomicU8>() }.load(Ordering::Relaxed);
        from = from.wrapping_add(1);
    }
}

/// Copies by lines of 64 bytes in four registers, the last of them up to the end, over what was copied before. Not by the string
/// instruction: where the destination lies a few bytes behind the source, modulo a page, that copies 2.7 GB/s instead
/// of 50 on CPUs of today, and a page that is read into a buffer from malloc(3) is just that.
///
/// Lines of the destination are asked for, to be written, so many bytes ahead, and none beyond the end: those are another's.
///
/// # Safety
/// `count` bytes from `from` can be read, as many from `to` written, at least a line; the two do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_long(to: *mut u8, from: *const u8, count: usize, ahead: usize) {
    debug_assert!(count >= LINE_BYTES);
    let last = count - LINE_BYTES;
    // SAFETY: by the caller: the lines at 0, 64 and so on below `last`, and the one at `last`, lie within the `count` bytes.
    // SSE2 is of every x86-64, and `prefetchw` asks or does nothing. Without `nomem` it is a barrier for the compiler.
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

/// Copies byte by byte, each once.
///
/// # Safety
/// As on x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_long(to: *mut u8, from: *const u8, count: usize, _ahead: usize) {
    for at in 0..count {
        // SAFETY: by the caller.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_any_length_at_any_offset_come_out_as_they_went_in() {
        let memory = m3ipc_sys::create_memory("m3-test", 8192).unwrap();
        let (writer, reader) =
            (Shared::map(&memory, 8192).unwrap(), Observed::map(&memory, 8192).unwrap());
        for length in (0..70).chain(126..200).chain([255, 256, 257, 1000, 4096]) {
            for offset in [0, 1, 7, 8, 4090] {
                let sent: Vec<u8> = (1..=251).cycle().step_by(7).take(length).collect();
                writer.put(offset, &[0; 4100]);
                writer.put(offset, &sent);
                let mut got = vec![0; length + 1];
                reader.get(offset, &mut got);
                assert!(
                    got[..length] == sent[..] && got[length] == 0,
                    "{length} bytes at {offset}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "bytes outside their region")]
    fn a_run_beyond_the_end_is_refused() {
        let memory = m3ipc_sys::create_memory("m3-test", 4096).unwrap();
        Shared::map(&memory, 4096).unwrap().put(4090, &[0; 7]);
    }
}
