//! Locks in shared memory that outlive their holders.
//!
//! The word is 0, or the thread that holds it. Nobody sleeps in the kernel while holding one, so a holder that runs lets
//! go within microseconds, and one that was killed is found out and succeeded. What a lock guards is
//! right at every step (one word publishes each change), so a successor has nothing to repair but what its user says.
//!
//! | who wants it | sees | gets |
//! |---|---|---|
//! | anybody | 0 | `Held` |
//! | a signal handler whose own thread holds it | its own number | `Own`: it may not wait |
//! | anybody | a thread that has ended | `Held`, recovered |
//! | anybody | a thread that runs and does not let go for ten seconds, or nonsense | `Stuck` |

use super::raw;
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Looks before the CPU is handed over.
const LOOKS: u32 = 200;
/// Times that the CPU is handed over before the holder is checked.
const YIELDS: u32 = 20;
/// Naps of 200 us before the word is taken for nonsense: ten seconds.
const NAPS: u32 = 50_000;
const NAP_US: i64 = 200;
/// Naps between two checks of the holder.
const NAPS_PER_CHECK: u32 = 16;

thread_local! {
    /// This thread's number, and the line of forks it was asked in.
    static THREAD: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// A page that the kernel wipes in children by fork.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static LINE: AtomicU32 = AtomicU32::new(1);

/// A number that differs between a process and its children by fork; 0 where the kernel does not help.
#[allow(unsafe_code)]
pub(super) fn line() -> u32 {
    let page = WIPED.load(Ordering::Acquire);
    if page.is_null() {
        return 0;
    }
    // SAFETY: set once to a page that is never unmapped.
    let word = unsafe { &*page };
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = LINE.fetch_add(1, Ordering::Relaxed) + 1;
            match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(other) => other,
            }
        }
        line => line,
    }
}

/// Maps the page. Once, before the first lock.
#[allow(unsafe_code)]
pub(super) fn begin() {
    if !WIPED.load(Ordering::Acquire).is_null() {
        return;
    }
    let (protection, flags) = (
        raw::reg(libc::PROT_READ | libc::PROT_WRITE),
        raw::reg(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
    );
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let page = unsafe {
        raw::call(libc::SYS_mmap, [0, super::words::PAGE, protection, flags, usize::MAX, 0])
    };
    let Ok(page) = page else { return };
    let advice = raw::reg(libc::MADV_WIPEONFORK);
    // SAFETY: exactly the new mapping.
    if unsafe { raw::call(libc::SYS_madvise, [page, super::words::PAGE, advice, 0, 0, 0]) }.is_ok()
    {
        WIPED.store(page as *mut AtomicU32, Ordering::Release);
    }
}

/// This thread's number.
#[inline]
pub(super) fn own() -> u32 {
    let line = line();
    THREAD
        .try_with(|thread| match thread.get() {
            (number, of) if number != 0 && of == line && line != 0 => number,
            _ => {
                let number = raw::thread();
                thread.set((number, line));
                number
            }
        })
        .unwrap_or_else(|_| raw::thread())
}

/// A lock that is held, until dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    word: &'a AtomicU64,
    own: u64,
    /// Its last holder died with it.
    pub recovered: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with `take`. Fails where somebody wrote nonsense: then it is his.
        let _ = self.word.compare_exchange(self.own, 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// What came of wanting a lock.
#[derive(Debug)]
pub(super) enum Grip<'a> {
    Held(Held<'a>),
    /// This very thread holds it: it was interrupted by the signal whose handler asks.
    Own,
    Stuck,
}

/// Takes a lock if nobody has it.
#[inline]
pub(super) fn try_take(word: &AtomicU64) -> Option<Held<'_>> {
    let own = u64::from(own());
    // Acquire: pairs with the drop of `Held`.
    word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Held { word, own, recovered: false })
}

/// Takes a lock, waiting for its holder.
#[inline]
pub(super) fn take(word: &AtomicU64) -> Grip<'_> {
    match try_take(word) {
        Some(held) => Grip::Held(held),
        None => take_slow(word),
    }
}

#[cold]
fn take_slow(word: &AtomicU64) -> Grip<'_> {
    let own = u64::from(own());
    let (mut looks, mut naps) = (0_u32, 0_u32);
    loop {
        let seen = word.load(Ordering::Relaxed);
        if seen == own {
            return Grip::Own;
        }
        if seen == 0
            && let Some(held) = try_take(word)
        {
            return Grip::Held(held);
        }
        looks += 1;
        if looks < LOOKS {
            m3ipc_sys::relax();
        } else if looks < LOOKS + YIELDS {
            m3ipc_sys::yield_cpu();
        } else {
            if naps.is_multiple_of(NAPS_PER_CHECK)
                && seen != 0
                && !u32::try_from(seen).is_ok_and(raw::thread_runs)
                && word.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Grip::Held(Held { word, own, recovered: true });
            }
            naps += 1;
            if naps > NAPS {
                return Grip::Stuck;
            }
            raw::pause_us(NAP_US);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_dead_thread_is_succeeded() {
        begin();
        let dead = std::thread::spawn(own).join().unwrap();
        let word = AtomicU64::new(u64::from(dead));
        match take(&word) {
            Grip::Held(held) => assert!(held.recovered),
            other => panic!("{other:?}"),
        }
        assert_eq!(word.load(Ordering::Relaxed), 0);
        let word = AtomicU64::new(u64::MAX);
        assert!(matches!(take(&word), Grip::Held(_)), "nonsense is no thread");
    }

    #[test]
    fn who_holds_it_is_told_so_instead_of_waiting() {
        begin();
        let word = AtomicU64::new(0);
        let held = try_take(&word);
        assert!(held.is_some() && matches!(take(&word), Grip::Own) && try_take(&word).is_none());
        drop(held);
        assert!(try_take(&word).is_some());
    }

    #[test]
    fn threads_take_turns() {
        begin();
        let (word, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let Grip::Held(_held) = take(&word) else { panic!("not held") };
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 8000);
    }
}
