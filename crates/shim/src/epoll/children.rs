//! Children by fork: while a child lives, the sockets of both processes need wakeup bytes.

use crate::kernel::memory::FamilyWord;
use crate::kernel::process;
use crate::process::descriptors;
use crate::process::notes::{self, SHARED};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Children that may still have sockets of ours; 0 is a free entry.
static CHILDREN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
/// Whether any child may still live.
static ANY: AtomicBool = AtomicBool::new(false);
/// Whether children were forgotten: this process never has its sockets alone again.
static TOO_MANY: AtomicBool = AtomicBool::new(false);
/// Not 0: a child of this process passed on the descriptors that it inherited. The word is all that
/// a child can change in its parent.
static PASSED_ON: FamilyWord = FamilyWord::new();
/// The same words of the parent, of its parent, and so on.
static OF_PARENTS: [FamilyWord; 16] = [const { FamilyWord::new() }; 16];
/// Checks between two questions to the kernel.
const CHECKS_PER_QUESTION: u32 = 64;
static CHECKS: AtomicU32 = AtomicU32::new(0);

/// Remembers a child.
pub(super) fn remember(child: i32) {
    let has_room = CHILDREN
        .iter()
        .any(|entry| entry.compare_exchange(0, child, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if !has_room {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    ANY.store(true, Ordering::Release);
}

/// Before a fork: the child needs a word to report in.
pub(super) fn prepare() {
    if !PASSED_ON.map() {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
}

/// Begins a child: the children of the parent are not its own.
pub(super) fn begin() {
    // Words of the grandparent stay in the list, because the parent has reported to it already.
    PASSED_ON.move_to(&OF_PARENTS);
    for entry in &CHILDREN {
        entry.store(0, Ordering::Relaxed);
    }
    ANY.store(false, Ordering::Relaxed);
}

/// Tells the parent that processes, which may outlive this one, get the descriptors that this
/// process inherited.
pub(super) fn pass_on() {
    let words = OF_PARENTS.iter().filter_map(FamilyWord::get);
    words.for_each(|word| word.store(1, Ordering::Release));
}

/// Whether the last child has just ended, so that this process has its sockets alone again. Asks
/// the kernel only now and then.
pub(super) fn have_ended() -> bool {
    if !ANY.load(Ordering::Acquire) {
        return false;
    }
    if PASSED_ON.get().is_some_and(|word| word.load(Ordering::Acquire) != 0) {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    if TOO_MANY.load(Ordering::Relaxed)
        || !CHECKS.fetch_add(1, Ordering::Relaxed).is_multiple_of(CHECKS_PER_QUESTION)
    {
        return false;
    }
    for entry in &CHILDREN {
        let child = entry.load(Ordering::Acquire);
        if child != 0 && process::exists(child) {
            return false;
        }
        let _ = entry.compare_exchange(child, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    ANY.store(false, Ordering::Release);
    (0..descriptors::top()).for_each(|fd| notes::remove(fd, SHARED));
    true
}
