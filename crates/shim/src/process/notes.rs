//! One more word for each descriptor: its poller slot, and why senders must send wakeup bytes.

use crate::kernel::memory::FdTable;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::RawFd;

/// The number of the epoll set plus one; 0 is none.
const SET_MASK: u32 = 0xff;
const SLOT_SHIFT: u32 = 8;
const SLOT_MASK: u32 = 0x3fff;

/// An epoll set watches the socket for edges, which has no connection yet.
pub const EDGES: u32 = 1 << 26;
/// Exec closed the descriptor until the program said that the next one is to have it.
pub const PASSED_ON: u32 = 1 << 27;
/// The socket was armed once: its ring may hold unsignalled bytes.
pub const WAS_ARMED: u32 = 1 << 28;
/// A child by fork has the descriptor, too.
pub const SHARED: u32 = 1 << 29;
/// Other waits than that of one epoll set may concern the socket: it is never armed again.
pub const NEEDS_WAKEUPS: u32 = 1 << 30;

static NOTES: FdTable<AtomicU32> = FdTable::new();

/// Maps the table. Without it no socket is armed.
pub fn prepare() {
    NOTES.map();
}

/// The note of a descriptor.
#[must_use]
pub fn get(fd: RawFd) -> u32 {
    NOTES.get(fd).map_or(NEEDS_WAKEUPS, |note| note.load(Ordering::Relaxed))
}

/// Whether a note has any of these flags.
#[must_use]
pub fn has(fd: RawFd, flags: u32) -> bool {
    get(fd) & flags != 0
}

/// Adds flags; the note before, `None` for a descriptor without a note.
pub fn add(fd: RawFd, flags: u32) -> Option<u32> {
    NOTES.get(fd).map(|note| note.fetch_or(flags, Ordering::Relaxed))
}

/// Removes flags.
pub fn remove(fd: RawFd, flags: u32) {
    if let Some(note) = NOTES.get(fd)
        && note.load(Ordering::Relaxed) & flags != 0
    {
        note.fetch_and(!flags, Ordering::Relaxed);
    }
}

/// Forgets all of a descriptor.
pub fn clear(fd: RawFd) {
    if let Some(note) = NOTES.get(fd) {
        note.store(0, Ordering::Relaxed);
    }
}

/// The epoll set and the poller slot of a descriptor.
#[must_use]
pub fn slot(fd: RawFd) -> Option<(usize, usize)> {
    slot_of(get(fd))
}

/// The epoll set and the poller slot in a note.
#[must_use]
pub fn slot_of(note: u32) -> Option<(usize, usize)> {
    let set = ((note & SET_MASK) as usize).checked_sub(1)?;
    Some((set, (note >> SLOT_SHIFT & SLOT_MASK) as usize))
}

/// Notes a poller slot, unless there is one already.
pub fn set_slot(fd: RawFd, set: usize, slot: usize) {
    if get(fd) & SET_MASK == 0
        && let (Ok(set), Ok(slot)) = (u32::try_from(set), u32::try_from(slot))
    {
        add(fd, ((set + 1) & SET_MASK) | (slot & SLOT_MASK) << SLOT_SHIFT);
    }
}

/// Removes a poller slot of this set.
pub fn remove_slot(fd: RawFd, set: usize) {
    if slot(fd).is_some_and(|(of, _slot)| of == set) {
        remove(fd, SET_MASK | SLOT_MASK << SLOT_SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_flags_and_one_slot() {
        prepare();
        let fd = 900_010;
        assert_eq!((slot(fd), has(fd, WAS_ARMED)), (None, false));
        set_slot(fd, 0, 16_383);
        set_slot(fd, 5, 6);
        assert_eq!(add(fd, WAS_ARMED).map(slot_of), Some(Some((0, 16_383))));
        remove_slot(fd, 5);
        assert_eq!(slot(fd), Some((0, 16_383)), "the slot of another set stays");
        remove_slot(fd, 0);
        assert!(slot(fd).is_none() && has(fd, WAS_ARMED));
        clear(fd);
        assert_eq!(get(fd), 0);
        assert!(has(-1, NEEDS_WAKEUPS), "a descriptor without a note is never armed");
    }
}
