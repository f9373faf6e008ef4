//! Children by fork: while a child lives, the sockets of both processes need wakeup bytes.

use crate::connection::armed_poller::ArmedPoller;
use crate::kernel::process;
use crate::process::descriptors;
use crate::process::notes::{self, SHARED};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Children that may still have sockets of ours; 0 is a free entry.
static CHILDREN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
/// Whether any child may still live.
static ANY: AtomicBool = AtomicBool::new(false);
/// Whether children were forgotten: this process never has its sockets alone again.
static TOO_MANY: AtomicBool = AtomicBool::new(false);
/// Armed pollers of the parent.
static PARENTS_POLLERS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
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

/// Begins a child: the children and the armed pollers of the parent are not its own.
pub(super) fn begin(parents: impl Iterator<Item = ArmedPoller>) {
    // Pollers of the grandparent stay in the list, because the parent has told it already.
    for entry in &CHILDREN {
        entry.store(0, Ordering::Relaxed);
    }
    ANY.store(false, Ordering::Relaxed);
    for (entry, poller) in PARENTS_POLLERS.iter().zip(parents) {
        entry.store(poller.word(), Ordering::Relaxed);
    }
}

/// Tells the parent that processes, which may outlive this one, get the descriptors that this
/// process inherited.
pub(super) fn pass_on() {
    let words = PARENTS_POLLERS.iter().map(|entry| entry.load(Ordering::Relaxed));
    words.filter_map(ArmedPoller::from_word).for_each(ArmedPoller::note_passed_on);
}

/// Whether the last child has just ended, so that this process has its sockets alone again. Asks
/// the kernel only now and then.
pub(super) fn have_ended(poller: Option<ArmedPoller>) -> bool {
    if !ANY.load(Ordering::Acquire) {
        return false;
    }
    if poller.is_some_and(ArmedPoller::is_passed_on) {
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
