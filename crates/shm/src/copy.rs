//! The copy routine of shared memory: bytes between private memory and memory that a peer writes.
//!
//! The routine is machine code, which is no memory access in the sense of the language. A message
//! of constant, aligned words uses relaxed atomics instead. A peer that writes meanwhile makes the
//! copy mixed; the behaviour stays defined. Each byte is read once and written once. A copy has no
//! order: publish or load a word before or after it.
//!
//! # Safety
//! Every caller checks its range against a live mapping before it calls a function of this file.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one turn of a long copy moves.
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
    // SAFETY: the promise of the caller.
    unsafe { copy(to, from, count, PREFETCH_BYTES) };
}

/// Copies private bytes into shared memory.
///
/// # Safety
/// `bytes.len()` bytes at `to` are mapped for writing, and `bytes` does not lie in them.
#[inline]
pub(crate) unsafe fn copy_in(to: *mut u8, bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    if bytes.len() >= LINE_BYTES || !rest.is_empty() || !to.addr().is_multiple_of(WORD_BYTES) {
        // SAFETY: `to` is mapped for that many bytes, as the caller promises.
        return unsafe { copy(to, bytes.as_ptr(), bytes.len(), PREFETCH_BYTES) };
    }
    for (at, word) in words.iter().enumerate() {
        // SAFETY: inside the caller's range, aligned, and any bits are valid.
        unsafe { &*to.cast::<AtomicU64>().add(at) }
            .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
}

/// Copies shared memory into private bytes.
///
/// # Safety
/// `bytes.len()` bytes at `from` are mapped for reading, and `bytes` does not lie in them.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, bytes: &mut [u8]) {
    let length = bytes.len();
    let (words, rest) = bytes.as_chunks_mut::<WORD_BYTES>();
    if length >= LINE_BYTES || !rest.is_empty() || !from.addr().is_multiple_of(WORD_BYTES) {
        // SAFETY: `from` is mapped for that many bytes, as the caller promises.
        return unsafe { copy(bytes.as_mut_ptr(), from, length, NO_PREFETCH) };
    }
    for (at, word) in words.iter_mut().enumerate() {
        // SAFETY: inside the caller's range, aligned, and any bits are valid.
        *word = unsafe { &*from.cast::<AtomicU64>().add(at) }.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies bytes past the caches: the lines of `to` are in no cache afterwards. They are visible
/// before any later store of this CPU.
///
/// A reader on another CPU then takes them from memory. It would have to take them from the cache
/// of this CPU, and this CPU would have to take them back before the next copy. Edges that are no
/// whole lines go through the caches.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub unsafe fn copy_bytes_past_caches(to: *mut u8, from: *const u8, count: usize) {
    let edge = to.addr().next_multiple_of(LINE_BYTES) - to.addr();
    let lines = count.saturating_sub(edge) / LINE_BYTES * LINE_BYTES;
    if lines == 0 || !std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the promise of the caller.
        return unsafe { copy_bytes(to, from, count) };
    }
    let behind = edge + lines;
    // SAFETY: the three parts follow each other, and their bytes are `count` together. The middle
    // one begins at a line and has whole lines, at least one; the CPU has AVX.
    unsafe {
        copy_bytes(to, from, edge);
        stream_lines_avx(to.wrapping_add(edge), from.wrapping_add(edge), lines);
        copy_bytes(to.wrapping_add(behind), from.wrapping_add(behind), count - behind);
    }
}

/// The same for other CPUs and for Miri: through the caches.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub unsafe fn copy_bytes_past_caches(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the promise of the caller.
    unsafe { copy_bytes(to, from, count) };
}

/// Copies between two ranges of shared memory that may overlap.
///
/// # Safety
/// As [`copy_bytes`], but the ranges may overlap.
#[inline]
pub(crate) unsafe fn copy_overlapping(to: *mut u8, from: *const u8, count: usize) {
    if to.addr().abs_diff(from.addr()) >= count {
        // SAFETY: the ranges do not overlap; the rest is the promise of the caller.
        unsafe { copy_bytes(to, from, count) };
    } else {
        // SAFETY: the promise of the caller.
        unsafe { copy_by_pieces(to, from, count) };
    }
}

/// The same through private memory.
///
/// # Safety
/// As [`copy_overlapping`].
#[cold]
#[inline(never)]
unsafe fn copy_by_pieces(to: *mut u8, from: *const u8, count: usize) {
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

/// Copies whole lines, then the rest. Most copies have only one of both.
///
/// # Safety
/// As [`copy_bytes`]. `ahead` is as in [`copy_lines`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, count: usize, ahead: usize) {
    let lines = count / LINE_BYTES * LINE_BYTES;
    // SAFETY: the promise of the caller; both parts lie inside its ranges.
    unsafe {
        if lines > 0 {
            copy_lines(to, from, lines, ahead);
        }
        if lines < count {
            copy_short(to.wrapping_add(lines), from.wrapping_add(lines), count - lines);
        }
    }
}

/// Copies 16 bytes a turn, then at most one piece each of 8, 4, 2 and 1 bytes.
///
/// The string instruction is not used: for up to 64 bytes it took 3.3 ns, and this copy 2.0 to 2.9.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_short(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the pieces follow each other and are `count` bytes together, which both ranges of
    // the caller have. SSE2 is part of x86-64. Without `nomem` the block is a barrier for the
    // compiler.
    unsafe {
        core::arch::asm!(
            "cmp {left}, 16",
            "jb 3f",
            "2:",
            "movups {line}, [{from}]",
            "movups [{to}], {line}",
            "add {from}, 16",
            "add {to}, 16",
            "sub {left}, 16",
            "cmp {left}, 16",
            "jae 2b",
            "3:",
            "test {left:l}, 8",
            "jz 4f",
            "mov {word}, [{from}]",
            "mov [{to}], {word}",
            "add {from}, 8",
            "add {to}, 8",
            "4:",
            "test {left:l}, 7",
            "jz 7f",
            "test {left:l}, 4",
            "jz 5f",
            "mov {word:e}, [{from}]",
            "mov [{to}], {word:e}",
            "add {from}, 4",
            "add {to}, 4",
            "5:",
            "test {left:l}, 2",
            "jz 6f",
            "movzx {word:e}, word ptr [{from}]",
            "mov [{to}], {word:x}",
            "add {from}, 2",
            "add {to}, 2",
            "6:",
            "test {left:l}, 1",
            "jz 7f",
            "movzx {word:e}, byte ptr [{from}]",
            "mov [{to}], {word:l}",
            "7:",
            left = inout(reg) count => _, from = inout(reg) from => _, to = inout(reg) to => _,
            word = out(reg) _, line = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Copies lines of 64 bytes.
///
/// The string instruction is not used. If the destination lies a few bytes behind the source,
/// modulo a page, it copies 2.7 GB/s instead of 50 on present CPUs. A page that is read into a
/// buffer from malloc(3) is such a case.
///
/// The copy prefetches lines of the destination `ahead` bytes ahead, and none beyond the end:
/// those lines belong to another range.
///
/// # Safety
/// `count` bytes at `from` are readable and `count` bytes at `to` writable. `count` is a multiple
/// of [`LINE_BYTES`] and not 0. The two ranges do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, count: usize, ahead: usize) {
    debug_assert!(count > 0 && count.is_multiple_of(LINE_BYTES));
    // The lines below `near` prefetch, the others do not.
    let near = count.saturating_sub(ahead);
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the promise of the caller; the CPU has AVX.
        unsafe { copy_lines_avx(to, from, count, near, ahead) };
    } else {
        // SAFETY: the promise of the caller.
        unsafe { copy_lines_sse(to, from, count, near, ahead) };
    }
}

/// Copies lines in two registers of 32 bytes. A copy between first-level caches takes about half
/// the time of [`copy_lines_sse`].
///
/// # Safety
/// As [`copy_lines`], and the CPU has AVX. `near` is at most `count`, and `near + ahead` is `count`
/// unless `near` is 0.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_lines_avx(to: *mut u8, from: *const u8, count: usize, near: usize, ahead: usize) {
    // SAFETY: each line begins at a multiple of 64 below `count`, so each lies within the `count`
    // bytes that the caller promises. `prefetchw` is only a hint. Without `nomem` the block is a
    // barrier for the compiler. All registers are outputs: `vzeroupper` clears their upper
    // halves.
    unsafe {
        core::arch::asm!(
            "cmp {at}, {near}",
            "jae 3f",
            "2:",
            "prefetchw [{ahead} + {at}]",
            "vmovups ymm0, [{from} + {at}]",
            "vmovups ymm1, [{from} + {at} + 32]",
            "vmovups [{to} + {at}], ymm0",
            "vmovups [{to} + {at} + 32], ymm1",
            "add {at}, 64",
            "cmp {at}, {near}",
            "jb 2b",
            "cmp {at}, {count}",
            "jae 4f",
            "3:",
            "vmovups ymm0, [{from} + {at}]",
            "vmovups ymm1, [{from} + {at} + 32]",
            "vmovups [{to} + {at}], ymm0",
            "vmovups [{to} + {at} + 32], ymm1",
            "add {at}, 64",
            "cmp {at}, {count}",
            "jb 3b",
            "4:",
            "vzeroupper",
            at = inout(reg) 0_usize => _, count = in(reg) count, near = in(reg) near,
            from = in(reg) from, to = in(reg) to, ahead = in(reg) to.wrapping_add(ahead),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack)
        );
    }
}

/// Copies lines by stores that pass the caches. A fence ends the copy.
///
/// # Safety
/// As [`copy_lines`], and the CPU has AVX. `to` is a multiple of [`LINE_BYTES`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream_lines_avx(to: *mut u8, from: *const u8, count: usize) {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES));
    // SAFETY: each line begins at a multiple of 64 below `count`, so each lies within the `count`
    // bytes that the caller promises; the stores are aligned. Without `nomem` the block is a
    // barrier for the compiler. All registers are outputs: `vzeroupper` clears their upper
    // halves.
    unsafe {
        core::arch::asm!(
            "2:",
            "vmovups ymm0, [{from} + {at}]",
            "vmovups ymm1, [{from} + {at} + 32]",
            "vmovntps [{to} + {at}], ymm0",
            "vmovntps [{to} + {at} + 32], ymm1",
            "add {at}, 64",
            "cmp {at}, {count}",
            "jb 2b",
            "sfence",
            "vzeroupper",
            at = inout(reg) 0_usize => _, count = in(reg) count,
            from = in(reg) from, to = in(reg) to,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack)
        );
    }
}

/// Copies lines in four registers of 16 bytes.
///
/// # Safety
/// As [`copy_lines_avx`], but the CPU needs no AVX.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_lines_sse(to: *mut u8, from: *const u8, count: usize, near: usize, ahead: usize) {
    // SAFETY: as in `copy_lines_avx`. SSE2 is part of x86-64.
    unsafe {
        core::arch::asm!(
            "2:",
            "cmp {at}, {near}",
            "jae 3f",
            "prefetchw [{ahead} + {at}]",
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
            at = inout(reg) 0_usize => _, count = in(reg) count, near = in(reg) near,
            from = in(reg) from, to = in(reg) to, ahead = in(reg) to.wrapping_add(ahead),
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Copies 16 bytes a turn, then at most one piece each of 8, 4, 2 and 1 bytes.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, count: usize, _ahead: usize) {
    // SAFETY: the pieces follow each other and are `count` bytes together, which both ranges of
    // the caller have. Without `nomem` the block is a barrier for the compiler.
    unsafe {
        core::arch::asm!(
            "2:", "cmp {left}, #16", "b.lo 3f",
            "ldp {one}, {two}, [{from}], #16", "stp {one}, {two}, [{to}], #16",
            "sub {left}, {left}, #16", "b 2b",
            "3:", "tbz {left}, #3, 4f",
            "ldr {one}, [{from}], #8", "str {one}, [{to}], #8",
            "4:", "tbz {left}, #2, 5f",
            "ldr {one:w}, [{from}], #4", "str {one:w}, [{to}], #4",
            "5:", "tbz {left}, #1, 6f",
            "ldrh {one:w}, [{from}], #2", "strh {one:w}, [{to}], #2",
            "6:", "tbz {left}, #0, 7f",
            "ldrb {one:w}, [{from}]", "strb {one:w}, [{to}]",
            "7:",
            left = inout(reg) count => _, from = inout(reg) from => _, to = inout(reg) to => _,
            one = out(reg) _, two = out(reg) _,
            options(nostack)
        );
    }
}

/// Copies words where both sides are aligned, then single bytes, each once.
///
/// # Safety
/// As [`copy_bytes`].
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, count: usize, _ahead: usize) {
    let aligned = (to.addr() | from.addr()).is_multiple_of(WORD_BYTES);
    let words = if aligned { count / WORD_BYTES } else { 0 };
    for at in 0..words {
        // SAFETY: the word lies within the caller's ranges, and both sides are aligned.
        unsafe {
            let word = from.cast::<u64>().add(at).read_volatile();
            to.cast::<u64>().add(at).write_volatile(word);
        }
    }
    for at in words * WORD_BYTES..count {
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
    fn a_copy_past_the_caches_is_exact_at_any_length_and_offset() {
        for length in (0..200).chain([1000, 4096 + 17]).step_by(if cfg!(miri) { 41 } else { 1 }) {
            for (to, from) in [(0, 0), (1, 0), (0, 3), (8, 16), (63, 5)] {
                let sent = pattern(length + from);
                let mut got = vec![0_u8; length + to + 1];
                let (into, out_of) = (got[to..].as_mut_ptr(), sent[from..].as_ptr());
                // SAFETY: both vectors hold `length` bytes behind their offsets.
                unsafe { copy_bytes_past_caches(into, out_of, length) };
                assert!(got[to..to + length] == sent[from..], "{length} bytes at {to}, {from}");
                let (before, behind) = (&got[..to], got[to + length]);
                assert!(before.iter().all(|byte| *byte == 0) && behind == 0, "beyond the range");
            }
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn no_byte_beyond_either_end_is_accessed() {
        let page_bytes = usize::try_from(m3ipc_sys::page_bytes()).unwrap();
        let memory = m3ipc_sys::create_sparse("m3-test", 1 << 20, false).unwrap();
        let region = crate::FixedRegion::map_at(memory, 0x5910_5000_0000, 1 << 20, true).unwrap();
        for forbidden in [0, 2 * page_bytes] {
            let lease = region.lease(forbidden as u64, page_bytes as u64, true).unwrap();
            lease.protect().map_err(|(_, errno)| errno).unwrap();
        }
        let page = region.start().as_ptr().wrapping_add(page_bytes);
        let mut private = pattern(400);
        for length in 0..private.len() {
            for at in [page, page.wrapping_add(page_bytes - length)] {
                // SAFETY: the page is mapped and no reference covers it. An access beyond it would
                // end the test by a signal, which is what the test is for.
                unsafe {
                    copy_bytes(at, private.as_ptr(), length);
                    copy_bytes(private.as_mut_ptr(), at, length);
                    copy_in(at, &private[..length]);
                    copy_bytes_past_caches(at, private.as_ptr(), length);
                    copy_bytes_past_caches(private.as_mut_ptr(), at, length);
                    copy_out(at, &mut private[..length]);
                }
            }
        }
        assert!(private == pattern(400), "all copies were exact");
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
