//! Children by fork: while one of them lives, what both have needs its tokens.

use super::note::{SHARED, note};
use crate::table;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use m3ipc_shim::engine::Lookout;

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

/// Lookouts of the process that this one is a child of.
static PARENTS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// In a child: its parent's children are not its own, and its parent's lookouts are not either.
pub(super) fn begin(lookouts: impl Iterator<Item = Lookout>) {
    // Those of its parent's parent know of it already.
    for cell in &CHILDREN {
        cell.store(0, Ordering::Relaxed);
    }
    ANY_SHARED.store(false, Ordering::Relaxed);
    for (cell, lookout) in PARENTS.iter().zip(lookouts) {
        cell.store(lookout.word(), Ordering::Relaxed);
    }
}

/// What this process inherited others will have, too, who may outlive it: the parent must know.
pub(super) fn hand_on() {
    for lookout in PARENTS.iter().filter_map(|cell| Lookout::of(cell.load(Ordering::Relaxed))) {
        lookout.hand_on();
    }
}

/// Whether all of them are gone, so that this process has its sockets for itself again; asked now and then.
pub(super) fn are_gone(lookout: Option<Lookout>) -> bool {
    if !ANY_SHARED.load(Ordering::Acquire) {
        return false;
    }
    static TURN: AtomicU32 = AtomicU32::new(0);
    if lookout.is_some_and(Lookout::is_handed_on) {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    if TOO_MANY.load(Ordering::Relaxed) || !TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(64)
    {
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
