//! How often this process passed its descriptors on: by fork, vfork, exec or a spawn.
//!
//! A socket that this process made belongs to it alone as long as the count stays. Raw system calls
//! are not seen.

use super::vfork;
use crate::kernel::memory::FdTable;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::RawFd;

static COUNT: AtomicU32 = AtomicU32::new(0);
/// One more than the count when this process made the socket; 0 for any other descriptor.
static MADE_AT: FdTable<AtomicU32> = FdTable::new();

/// Maps the table. Without it no socket counts as one of this process alone.
pub fn prepare() {
    MADE_AT.map();
}

/// Before descriptors are passed on.
pub fn note() {
    COUNT.fetch_add(1, Ordering::SeqCst);
}

/// One more than the count so far; never 0.
#[must_use]
pub fn next() -> u32 {
    COUNT.load(Ordering::SeqCst).saturating_add(1)
}

/// This process made a socket.
pub fn note_made(fd: RawFd) {
    if !vfork::in_child()
        && let Some(made_at) = MADE_AT.get(fd)
    {
        made_at.store(next(), Ordering::Relaxed);
    }
}

/// A descriptor is closed, or stands for anything else.
pub fn forget(fd: RawFd) {
    if !vfork::in_child()
        && let Some(made_at) = MADE_AT.get(fd)
        && made_at.load(Ordering::Relaxed) != 0
    {
        made_at.store(0, Ordering::Relaxed);
    }
}

/// Whether this process alone has the socket of a descriptor.
#[must_use]
pub fn is_sole(fd: RawFd) -> bool {
    MADE_AT.get(fd).is_some_and(|made_at| made_at.load(Ordering::Relaxed) == next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_belongs_to_its_maker_alone_until_a_fork() {
        prepare();
        let fd = 900_020;
        assert!(!is_sole(fd) && !is_sole(-1));
        note_made(fd);
        assert!(is_sole(fd));
        note();
        assert!(!is_sole(fd));
        note_made(fd);
        forget(fd);
        assert!(!is_sole(fd));
    }
}
