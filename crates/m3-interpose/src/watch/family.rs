//! Forks and programs that come after this one: a socket that two processes have needs its tokens.

use super::note::{SHARED, TOKENS, add_note, need_tokens, note};
use super::set::ALL;
use crate::policy;
use crate::table::{self, Entry};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Children that may still have sockets of ours, and whether there were too many to remember.
static CHILDREN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
static ANY_SHARED: AtomicBool = AtomicBool::new(false);
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Before a fork: what both processes have from then on has tokens.
pub fn before_fork() {
    for set in ALL.iter().filter(|set| set.users.load(Ordering::Relaxed) > 0) {
        for place in 0..set.top() {
            set.uncover(place);
        }
    }
}

/// After it: in the child for ever, in the parent until the child is gone.
pub fn after_fork(child: libc::pid_t) {
    if child < 0 || !policy::on() {
        return;
    }
    let flags = if child == 0 { TOKENS } else { SHARED };
    for fd in 0..table::top() {
        if matches!(table::get(fd), Entry::Talk(_) | Entry::Born { .. } | Entry::Unknown) {
            add_note(fd, flags);
        }
    }
    if child == 0 {
        for set in &ALL {
            // It is the parent's.
            set.lookout.store(0, Ordering::Relaxed);
        }
        CHILDREN.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
        return;
    }
    let free = CHILDREN
        .iter()
        .any(|cell| cell.compare_exchange(0, child, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if !free {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    ANY_SHARED.store(true, Ordering::Release);
}

/// Whether all of them are gone, so that this process has its sockets for itself again; asked now and then.
fn children_are_gone() -> bool {
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

/// Before another program: what it inherits has tokens.
pub fn before_exec() {
    for (fd, talk) in table::talks() {
        if talk.is_looked_for() && table::is_cloexec(fd) == Some(false) {
            need_tokens(fd);
        }
    }
}

