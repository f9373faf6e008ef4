//! Descriptors under a `FILE` of the C library, beside those of the standard streams.
//!
//! The C library moves their bytes by itself. A program may put a socket in the place of such a
//! descriptor (dup2), or open a file over a socket before its connect.

use super::vfork;
use crate::kernel::memory::FdTable;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::RawFd;

const WRITES: u32 = 1;
const READS: u32 = 2;

/// 0 for a descriptor without a file.
static FILES: FdTable<AtomicU32> = FdTable::new();

/// Maps the table. Without it no descriptor has a file.
pub fn prepare() {
    FILES.map();
}

fn set(fd: RawFd, word: u32) {
    if !vfork::in_child()
        && let Some(file) = FILES.get(fd)
        && file.load(Ordering::Relaxed) != word
    {
        file.store(word, Ordering::Relaxed);
    }
}

/// The C library has opened a file over a descriptor, for these words of fopen(3).
pub fn note(fd: RawFd, mode: &[u8]) {
    let writes_only = matches!(mode.first(), Some(b'w' | b'a')) && !mode.contains(&b'+');
    set(fd, if writes_only { WRITES } else { READS });
}

/// The C library closes the file, or the number stands for anything else.
pub fn forget(fd: RawFd) {
    set(fd, 0);
}

/// Whether the C library has a file over a descriptor.
#[must_use]
pub fn any_over(fd: RawFd) -> bool {
    FILES.get(fd).is_some_and(|file| file.load(Ordering::Relaxed) != 0)
}

/// Whether the C library reads a descriptor.
#[must_use]
pub fn reads(fd: RawFd) -> bool {
    FILES.get(fd).is_some_and(|file| file.load(Ordering::Relaxed) == READS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_a_descriptor_reads_or_writes() {
        prepare();
        let fd = 900_040;
        assert!(!any_over(fd) && !reads(fd));
        for (mode, reads_it) in [("w", false), ("ae", false), ("r", true), ("w+", true)] {
            note(fd, mode.as_bytes());
            assert_eq!((any_over(fd), reads(fd)), (true, reads_it), "{mode}");
        }
        forget(fd);
        assert!(!any_over(fd) && !any_over(-1));
    }
}
