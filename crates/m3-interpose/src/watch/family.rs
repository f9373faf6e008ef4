//! Children by fork: while one of them lives, what both have needs its tokens.

use super::note::{SHARED, note};
use crate::table;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Children that may still have sockets of ours, and whether there were too many to remember.
static CHILDREN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
static ANY_SHARED: AtomicBool = AtomicBool::new(false);
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// One more child has what this process has.
pub(super) fn remember(child: libc::pid_t) {
    let free = CHILDREN
        .iter()
        .any(|cell| cell.compare_exchange(0, child, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if !free {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    ANY_SHARED.store(true, Ordering::Release);
}

/// In a child: its parent's children are not its own.
pub(super) fn forget() {
    CHILDREN.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
}

/// Whether all of them are gone, so that this process has its sockets for itself again; asked now and then.
pub(super) fn are_gone() -> bool {
    if !ANY_SHARED.load(Ordering::Acquire) {
        return false;
    }
    static TURN: AtomicU32 = AtomicU32::new(0);
    if TOO_MANY.load(Ordering::Relaxed) || !TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
        return false;
    }
    for cell in &CHILDREN {
        let child = cell.load(Ordering::Acquire);
        let gone =
            || unsafe { crate::raw(libc::SYS_kill, [child as usize, 0, 0, 0, 0, 0]) } == Err(libc::ESRCH);
        if child != 0 && !gone() {
            return false;
        }
        let _ = cell.compare_exchange(child, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    ANY_SHARED.store(false, Ordering::Release);
    for fd in 0..table::top() {
        if let Some(note) = note(fd).filter(|note| note.load(Ordering::Relaxed) & SHARED != 0) {
            note.fetch_and(!SHARED, Ordering::Relaxed);
        }
    }
    true
}
