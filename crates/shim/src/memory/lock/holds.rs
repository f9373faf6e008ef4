//! Locks that a thread holds no more although their words say so: a signal handler interrupted the
//! holder and left by siglongjmp.
//!
//! A handler that runs above the holder must not take the lock. Its frames lie deeper in the stack
//! than those of the holder, by a signal frame at least, or on a stack of its own. So a lock is
//! abandoned where this thread has jumped since it took the lock, and now calls from no deeper
//! frame of the same stack.

use crate::kernel::signal;
use crate::process::vfork;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;

/// Locks of one thread that are remembered.
const HOLDS: usize = 8;
/// Bytes of the smallest signal frame.
const SIGNAL_FRAME_BYTES: usize = 512;

/// The last time at which this thread took a lock.
#[derive(Clone, Copy)]
struct Hold {
    word: usize,
    frame: usize,
    jumps: u32,
}

const NONE: Hold = Hold { word: 0, frame: 0, jumps: 0 };

thread_local! {
    static JUMPS: Cell<u32> = const { Cell::new(0) };
    static LAST: [Cell<Hold>; HOLDS] = const { [const { Cell::new(NONE) }; HOLDS] };
}

fn place_of(word: &AtomicU64) -> (usize, usize) {
    let at = core::ptr::from_ref(word).addr();
    (at, (at >> 3 ^ at >> 6 ^ at >> 12) % HOLDS)
}

/// The address of the caller's frame, more or less.
#[inline]
fn frame() -> usize {
    let here = 0_u8;
    (&raw const here).addr()
}

/// Before a jump of this thread out of its frames.
pub fn note_jump() {
    if !vfork::in_child() {
        count_jump();
    }
}

// Never inlined, as the two below: the compiler may look for the variables of the thread ahead of
// the check of the caller.
#[inline(never)]
fn count_jump() {
    JUMPS.set(JUMPS.get().wrapping_add(1));
}

/// This thread has taken a lock.
#[inline]
pub(super) fn note(word: &AtomicU64) {
    if !vfork::in_child() {
        keep(word, frame());
    }
}

#[inline(never)]
fn keep(word: &AtomicU64, frame: usize) {
    let (at, index) = place_of(word);
    let hold = Hold { word: at, frame, jumps: JUMPS.get() };
    LAST.with(|last| last[index].set(hold));
}

/// Whether this thread, whose number is in the word, has left the holder by a jump.
#[cold]
pub(super) fn is_abandoned(word: &AtomicU64) -> bool {
    !vfork::in_child() && has_left(word, frame())
}

#[inline(never)]
fn has_left(word: &AtomicU64, frame: usize) -> bool {
    let (at, index) = place_of(word);
    let hold = LAST.with(|last| last[index].get());
    hold.word == at
        && hold.jumps != JUMPS.get()
        && frame + SIGNAL_FRAME_BYTES > hold.frame
        && !signal::on_own_stack()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(word: &AtomicU64) -> bool {
        let room = core::hint::black_box([0_u8; 4 * SIGNAL_FRAME_BYTES]);
        let abandoned = is_abandoned(word);
        core::hint::black_box(room);
        abandoned
    }

    #[test]
    fn a_jump_to_the_frames_of_the_holder_abandons_its_locks() {
        let (word, other) = (AtomicU64::new(0), AtomicU64::new(0));
        note(&word);
        assert!(!is_abandoned(&word), "no jump");
        note_jump();
        assert!(is_abandoned(&word) && !is_abandoned(&other));
        assert!(!deeper(&word), "a handler above the holder");
        note(&word);
        assert!(!is_abandoned(&word), "taken since");
    }
}
