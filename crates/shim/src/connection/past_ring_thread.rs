//! The thread that receives past the ring.
//!
//! Such a receive counts in the pair, and keeps both directions out of their rings. A thread that
//! is cancelled in the call never takes its count back, so a later receive does that after the end
//! of the thread. A thread that leaves the call by `longjmp` lives on: nothing tells whether it
//! comes back, so its count stays.

use crate::process::vfork;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::{fork_generation, known_thread_id, thread_id};

const GENERATION_SHIFT: u32 = 32;

/// One thread of this process that receives past the ring, where there is any; others that do the
/// same at that time are not known.
#[derive(Debug)]
pub struct PastRingThread {
    /// The number of the thread, below the fork generation of its process; 0 is none.
    word: AtomicU64,
}

/// This thread's number. Never inlined: the compiler may look for the variable of the thread ahead
/// of the check of its caller.
#[inline(never)]
fn known_thread() -> i32 {
    known_thread_id()
}

/// This thread as a word; 0 where forks are not counted.
fn own() -> u64 {
    match fork_generation() {
        0 => 0,
        generation => {
            // The variables of such a child may be nowhere.
            let in_child = vfork::in_child();
            let thread = if in_child { thread_id() } else { known_thread() };
            u64::from(generation) << GENERATION_SHIFT | u64::from(thread.unsigned_abs())
        }
    }
}

impl PastRingThread {
    /// None.
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Forgets the thread of an earlier socket.
    pub(super) fn reset(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// This thread begins a receive past the ring.
    #[inline]
    pub(super) fn begin(&self) {
        if self.word.load(Ordering::Relaxed) == 0 {
            self.word.store(own(), Ordering::Relaxed);
        }
    }

    /// This thread ends such a receive.
    #[inline]
    pub(super) fn end(&self) {
        // No other thread writes in place of this one.
        if self.word.load(Ordering::Relaxed) == own() {
            self.word.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the known thread has ended within its receive; true once. A process that was forked
    /// from the one with the thread cannot tell.
    pub(super) fn has_ended(&self, runs: impl Fn(u32) -> bool) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        let is_other =
            seen != 0 && seen != own() && seen >> GENERATION_SHIFT == u64::from(fork_generation());
        is_other
            && !runs(u32::try_from(seen & 0xffff_ffff).unwrap_or(0))
            && self.word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_thread_in_its_receive_is_noticed_once() {
        let _guard = m3ipc_sys::ForkGuard::new().unwrap();
        let thread = PastRingThread::new();
        assert!(!thread.has_ended(|_| false), "there is none");
        thread.begin();
        assert!(!thread.has_ended(|_| false), "this thread lives");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!thread.has_ended(|_| true));
                thread.end();
                assert!(thread.has_ended(|_| false), "the other thread has begun");
                assert!(!thread.has_ended(|_| false));
                thread.begin();
                thread.end();
                assert!(!thread.has_ended(|_| false), "this one has come back");
            });
        });
    }
}
