//! Threads with descriptors of their own (`unshare` of `CLONE_FILES`): the table is about those of
//! all other threads.

use super::vfork;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether any thread of this process has descriptors of its own.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// This thread has descriptors of its own from now on.
pub fn note() {
    let _ = IS_APART.try_with(|is_apart| is_apart.set(true));
    ANY.store(true, Ordering::SeqCst);
}

/// Whether this thread has descriptors of its own.
#[inline]
#[must_use]
pub fn is_apart() -> bool {
    ANY.load(Ordering::Relaxed) && (vfork::in_child() || own())
}

// Never inlined: the compiler may look for the variable ahead of the check of the caller.
#[inline(never)]
fn own() -> bool {
    IS_APART.try_with(Cell::get).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::descriptors::{self, Entry};

    #[test]
    fn a_thread_apart_neither_reads_nor_writes_the_table() {
        descriptors::prepare();
        let fd = 900_030;
        descriptors::replace(fd, Entry::Pinned);
        std::thread::spawn(move || {
            note();
            assert_eq!(descriptors::get(fd), Entry::Plain);
            assert!(descriptors::replace(fd, Entry::File).is_none());
            assert!(descriptors::begin_close(fd).is_none());
        })
        .join()
        .unwrap();
        assert!(!is_apart());
        assert_eq!(descriptors::get(fd), Entry::Pinned);
        descriptors::replace(fd, Entry::Unknown);
    }
}
