//! Copies between a program's buffers and shared memory.
//!
//! # Safety
//! The copy is assembly (on x86-64 one instruction) that the compiler does not look into: a peer that writes meanwhile makes the copy
//! stale or mixed, never undefined. Lengths are bounded by the caller's own numbers.
#![allow(unsafe_code)]

use libc::iovec;

/// Copies bytes. One of both may be memory that a peer writes.
///
/// # Safety
/// Both must be mapped for `bytes` bytes, the one for reading, the other for writing, and not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises; the direction flag is clear by convention.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies bytes. One of both may be memory that a peer writes.
///
/// # Safety
/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises; 16 bytes are moved where so many are left, then single ones.
    unsafe {
        core::arch::asm!(
            "2:", "cmp {left}, #16", "b.lo 3f",
            "ldp {one}, {two}, [{from}], #16", "stp {one}, {two}, [{to}], #16",
            "sub {left}, {left}, #16", "b 2b",
            "3:", "cbz {left}, 4f",
            "ldrb {one:w}, [{from}], #1", "strb {one:w}, [{to}], #1",
            "sub {left}, {left}, #1", "b 3b",
            "4:",
            left = inout(reg) bytes => _, from = inout(reg) from => _, to = inout(reg) to => _,
            one = out(reg) _, two = out(reg) _,
            options(nostack)
        );
    }
}

/// A place in a program's runs of bytes.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    parts: &'a [iovec],
    /// Bytes of the first run that are done.
    within: usize,
    left: usize,
}

/// Runs that one call of the kernel takes at once from a place that lies within a run.
pub(super) const PARTS_AT_ONCE: usize = 16;

impl<'a> Place<'a> {
    pub(super) fn new(parts: &'a [iovec]) -> Self {
        let left = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.iov_len));
        Self { parts, within: 0, left }
    }

    /// Bytes from here to the end.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The next run of at most `most` bytes, and the step over it.
    pub(super) fn next(&mut self, most: usize) -> Option<(*mut u8, usize)> {
        loop {
            let first = self.parts.first()?;
            let rest = first.iov_len.saturating_sub(self.within);
            if rest == 0 {
                self.parts = &self.parts[1..];
                self.within = 0;
                continue;
            }
            let bytes = rest.min(most);
            let at = first.iov_base.cast::<u8>().wrapping_add(self.within);
            self.within += bytes;
            self.left = self.left.saturating_sub(bytes);
            return Some((at, bytes));
        }
    }

    /// Steps over so many bytes.
    pub(super) fn skip(&mut self, mut bytes: usize) {
        while bytes > 0 {
            match self.next(bytes) {
                Some((_, stepped)) => bytes -= stepped,
                None => return,
            }
        }
    }

    /// What is left as runs for the kernel: all of it, or the first sixteen.
    pub(super) fn runs(&self, room: &'a mut [iovec; PARTS_AT_ONCE]) -> &'a [iovec] {
        if self.within == 0 {
            return self.parts;
        }
        let mut count = 0;
        for (to, from) in room.iter_mut().zip(self.parts) {
            *to = *from;
            count += 1;
        }
        if let Some(first) = room.first_mut() {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(self.within).cast();
            first.iov_len = first.iov_len.saturating_sub(self.within);
        }
        room.get(..count).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lists: &mut [Vec<u8>]) -> Vec<iovec> {
        lists.iter_mut().map(|list| crate::engine::raw::part(list)).collect()
    }

    #[test]
    fn a_place_steps_through_its_runs() {
        let mut lists = [vec![1; 3], vec![], vec![2; 5]];
        let parts = runs(&mut lists);
        let mut place = Place::new(&parts);
        assert_eq!(place.left(), 8);
        assert_eq!(place.next(2).map(|(_, n)| n), Some(2));
        assert_eq!(place.next(9).map(|(_, n)| n), Some(1));
        place.skip(1);
        let mut room = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS_AT_ONCE];
        let rest: usize = place.runs(&mut room).iter().map(|part| part.iov_len).sum();
        assert_eq!((place.left(), rest), (4, 4));
        place.skip(100);
        assert_eq!((place.left(), place.next(1)), (0, None));
    }

    #[test]
    fn a_copy_is_exact() {
        for length in [0, 1, 7, 8, 63, 64, 4097] {
            let from: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap_or(0)).collect();
            let mut to = vec![0; length];
            // SAFETY: both vectors are `length` bytes long.
            unsafe { bytes(from.as_ptr(), to.as_mut_ptr(), length) };
            assert_eq!(from, to);
        }
    }
}
