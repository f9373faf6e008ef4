//! Locks in shared memory that outlive their holders.
//!
//! The word is 0 or the number of the thread that holds the lock. A holder never sleeps in the
//! kernel, so it lets go within microseconds. A waiter finds out when the holder was killed, and
//! takes the lock over. One word publishes each change behind a lock, so the successor repairs
//! nothing but what its user names.
//!
//! | the word holds | the caller gets |
//! |---|---|
//! | 0 | `Held` |
//! | the caller's own thread, which a signal interrupted | `Own`: the handler may not wait |
//! | a thread that has ended | `Held`, recovered |
//! | a thread that runs and keeps the lock for ten seconds, or garbage | `Stuck` |

use crate::kernel::process;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::{ForkGuard, fork_generation};

/// Reads of the word before the waiter yields the CPU.
const SPINS: u32 = 200;
/// Yields of the CPU before the waiter checks the holder.
const YIELDS: u32 = 20;
/// Naps before the word counts as garbage: ten seconds.
const NAPS: u32 = 50_000;
const NAP_US: i64 = 200;
/// Naps between two checks of the holder.
const NAPS_PER_CHECK: u32 = 16;

thread_local! {
    /// The number of this thread, and the fork generation in which the kernel gave it.
    static THREAD: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Prepares [`fork_generation`]. Once, before the first lock.
pub fn prepare() {
    // Without the kernel's help the generation stays 0, and each lock asks for its thread.
    let _ = ForkGuard::new();
}

/// The number of this thread.
#[inline]
fn own_thread() -> u32 {
    let generation = fork_generation();
    THREAD
        .try_with(|thread| match thread.get() {
            (number, of) if number != 0 && of == generation && generation != 0 => number,
            _ => {
                let number = process::thread_id();
                thread.set((number, generation));
                number
            }
        })
        .unwrap_or_else(|_| process::thread_id())
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    word: &'a AtomicU64,
    own: u64,
    /// Whether the last holder died with the lock.
    pub recovered: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with `try_take`. This fails where a peer overwrote the word; the word is
        // the peer's then.
        let _ = self.word.compare_exchange(self.own, 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// The result of [`take`].
#[derive(Debug)]
pub enum LockResult<'a> {
    /// The caller holds the lock.
    Held(Held<'a>),
    /// The caller's own thread holds the lock: a signal interrupted it.
    Own,
    /// The lock stays taken.
    Stuck,
}

/// Takes a lock that is free.
#[inline]
pub fn try_take(word: &AtomicU64) -> Option<Held<'_>> {
    let own = u64::from(own_thread());
    // Acquire: pairs with the drop of `Held`.
    word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Held { word, own, recovered: false })
}

/// Takes a lock, and waits for its holder.
#[inline]
pub fn take(word: &AtomicU64) -> LockResult<'_> {
    match try_take(word) {
        Some(held) => LockResult::Held(held),
        None => take_slow(word),
    }
}

#[cold]
fn take_slow(word: &AtomicU64) -> LockResult<'_> {
    let own = u64::from(own_thread());
    let (mut spins, mut naps) = (0_u32, 0_u32);
    loop {
        let seen = word.load(Ordering::Relaxed);
        if seen == own {
            return LockResult::Own;
        }
        if seen == 0
            && let Some(held) = try_take(word)
        {
            return LockResult::Held(held);
        }
        spins += 1;
        if spins < SPINS {
            m3ipc_sys::relax();
        } else if spins < SPINS + YIELDS {
            m3ipc_sys::yield_cpu();
        } else {
            if naps.is_multiple_of(NAPS_PER_CHECK)
                && seen != 0
                && !u32::try_from(seen).is_ok_and(process::thread_runs)
                && word.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return LockResult::Held(Held { word, own, recovered: true });
            }
            naps += 1;
            if naps > NAPS {
                return LockResult::Stuck;
            }
            process::pause_us(NAP_US);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_dead_thread_is_taken_over() {
        prepare();
        let dead = std::thread::spawn(own_thread).join().unwrap();
        let word = AtomicU64::new(u64::from(dead));
        match take(&word) {
            LockResult::Held(held) => assert!(held.recovered),
            other => panic!("{other:?}"),
        }
        assert_eq!(word.load(Ordering::Relaxed), 0);
        let word = AtomicU64::new(u64::MAX);
        assert!(matches!(take(&word), LockResult::Held(_)), "garbage is no thread");
    }

    #[test]
    fn the_holder_gets_an_answer_instead_of_waiting_for_itself() {
        prepare();
        let word = AtomicU64::new(0);
        let held = try_take(&word);
        assert!(held.is_some() && matches!(take(&word), LockResult::Own));
        assert!(try_take(&word).is_none());
        drop(held);
        assert!(try_take(&word).is_some());
    }

    #[test]
    fn threads_exclude_each_other() {
        prepare();
        let (word, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let LockResult::Held(_held) = take(&word) else { panic!("not held") };
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 8000);
    }
}
