//! Locks in shared memory that outlive their holders.
//!
//! The word is 0, or the number of the thread that holds the lock and a time in the life of that
//! thread. A holder never sleeps in the kernel, so it lets go within microseconds. A waiter finds
//! out when the holder was killed, and takes the lock over. One word publishes each change behind a
//! lock, so the successor repairs nothing but what its user names.
//!
//! | the word holds | the caller gets |
//! |---|---|
//! | 0 | `Held` |
//! | the caller's own thread, which a signal interrupted | `Own`: the handler may not wait |
//! | the same, but the handler left by siglongjmp | `Held`, recovered: see `holds` |
//! | a thread that has ended, or that began after the time | `Held`, recovered |
//! | a thread that runs, for longer than the caller waits | `Busy` |
//!
//! A peer can write the number of any living thread. So each wait has a limit, and each caller has
//! an answer to `Busy`: see `Blocked` in `connection`.

mod holds;

pub use holds::note_jump;

use crate::counters::{self, Counter, process_of, process_word};
use crate::kernel::process;
use crate::memory::user_directory::namespaces;
use crate::process::vfork;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::{ForkGuard, fork_generation, monotonic_ns};

/// Reads of the word before the waiter yields the CPU.
const SPINS: u32 = 200;
/// Yields of the CPU before the waiter checks the holder.
const YIELDS: u32 = 1;
const NAP_US: i64 = 50;
/// Naps between two checks of the holder.
const NAPS_PER_CHECK: u32 = 16;

/// Reads of the word before a process gives up that may make no system call.
const QUIET_SPINS: u32 = 20_000;

/// The word of a thread of this process, for threads that may not ask for their own number.
static PREPARED: AtomicU64 = AtomicU64::new(0);

/// The longest wait of a call that does not block.
pub const SHORT_NS: u64 = 20_000_000;
/// The longest wait of any call.
pub const LONG_NS: u64 = 2_000_000_000;

/// A moment until which several waits for locks may last together.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end_ns: u64,
}

impl Deadline {
    /// A moment that has passed: no wait at all.
    pub const PASSED: Self = Self { end_ns: 0 };

    /// The moment after so many nanoseconds from now.
    #[must_use]
    pub fn after(limit_ns: u64) -> Self {
        Self { end_ns: monotonic_ns().saturating_add(limit_ns) }
    }

    /// The time until then.
    #[must_use]
    pub fn left_ns(self) -> u64 {
        if self.end_ns == 0 { 0 } else { self.end_ns.saturating_sub(monotonic_ns()) }
    }
}

thread_local! {
    /// The word of this thread, and the fork generation of its number.
    static OWN: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The namespaces in which this program began, and the time of that moment; 0 where they are not
/// known.
static HOME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// A number that some process has in each PID namespace, as long as that lives.
const EVERYWHERE: u32 = 1;

/// Whether this is a child by fork in another PID namespace or another time namespace than its
/// program began in. The numbers and times of locks mean other threads here.
fn is_abroad() -> bool {
    let home = HOME[0].load(Ordering::Relaxed);
    home != 0 && namespaces() != Ok(home)
}

/// The word of a thread, which the processes of this program take for the holder's. A child in
/// other namespaces counts as a thread that always runs: no one takes its locks over.
fn word_of_caller() -> u64 {
    if is_abroad() {
        return process_word(EVERYWHERE, HOME[1].load(Ordering::Relaxed));
    }
    process_word(process::thread_id(), process::now_ticks())
}

/// Prepares [`fork_generation`]. Once, before the first lock.
pub fn prepare() {
    HOME[1].store(process::now_ticks(), Ordering::Relaxed);
    HOME[0].store(namespaces().unwrap_or(0), Ordering::Relaxed);
    // Without the kernel's help the generation stays 0, and each lock asks for its thread.
    let _ = ForkGuard::new();
}

/// The word of this thread while it holds a lock.
#[inline]
fn own_word() -> u64 {
    let generation = fork_generation();
    // The number of such a child is another one, and its variables may be nowhere.
    if vfork::in_child() { word_of_caller() } else { remembered_word(generation) }
}

/// The word of this thread, from its variable. Never inlined: the compiler may look for the
/// variable ahead of the check of its caller.
#[inline(never)]
fn remembered_word(generation: u32) -> u64 {
    OWN.try_with(|own| match own.get() {
        (word, of) if word != 0 && of == generation && generation != 0 => word,
        _ => {
            let word = word_of_caller();
            own.set((word, generation));
            word
        }
    })
    .unwrap_or_else(|_| {
        let thread = process::thread_id();
        process_word(thread, process::start_ticks_of_thread(thread).unwrap_or(0))
    })
}

/// Before the process limits its system calls: prepares [`take_quietly`].
pub fn prepare_quiet() {
    PREPARED.store(own_word(), Ordering::Relaxed);
}

/// As [`remembered_word`], as far as it is known.
#[inline(never)]
fn remembered() -> Option<(u64, u32)> {
    OWN.try_with(Cell::get).ok()
}

/// The word of this thread as far as it is known; else that of another thread of this process, or
/// of its parent.
fn known_word() -> u64 {
    let known = if vfork::in_child() { None } else { remembered() };
    let known =
        known.map_or(0, |(word, of)| if of == fork_generation() && of != 0 { word } else { 0 });
    if known != 0 { known } else { PREPARED.load(Ordering::Relaxed) }
}

/// Whether the thread of a word may hold a lock.
fn may_hold(word: u64) -> bool {
    let (thread, at_ticks) = process_of(word);
    if is_abroad() {
        return true;
    }
    if !process::thread_runs(thread) {
        return false;
    }
    // The thread noted a time of its own life. A later thread has its number now, or the word is
    // garbage. Where the start is not known, the thread counts.
    let started_before = process::start_ticks_of_thread(thread).is_none_or(|at| at <= at_ticks);
    started_before && at_ticks <= process::now_ticks()
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
    /// Another thread kept the lock for too long, or the word holds its number falsely.
    Busy,
}

/// Takes a lock that is free.
#[inline]
pub fn try_take(word: &AtomicU64) -> Option<Held<'_>> {
    let own = own_word();
    // Acquire: pairs with the drop of `Held`.
    word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).ok()?;
    holds::note(word);
    Some(Held { word, own, recovered: false })
}

/// Takes a lock that is free, or becomes free within a short spin, without any system call. A dead
/// thread keeps its lock.
pub fn take_quietly(word: &AtomicU64) -> Option<Held<'_>> {
    let own = known_word();
    if own == 0 {
        return None;
    }
    for _ in 0..QUIET_SPINS {
        // Acquire: pairs with the drop of `Held`.
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Some(Held { word, own, recovered: false });
        }
        m3ipc_sys::relax();
    }
    None
}

/// Takes a lock, and waits for its holder for so many nanoseconds at most. `limit_ns` is asked only
/// where the wait is long.
#[inline]
pub fn take(word: &AtomicU64, limit_ns: impl FnOnce() -> u64) -> LockResult<'_> {
    match try_take(word) {
        Some(held) => LockResult::Held(held),
        None => take_slow(word, limit_ns),
    }
}

#[cold]
fn take_slow(word: &AtomicU64, limit_ns: impl FnOnce() -> u64) -> LockResult<'_> {
    let own = own_word();
    let (mut spins, mut naps, mut end_ns) = (0_u32, 0_u32, 0);
    let mut limit_ns = Some(limit_ns);
    loop {
        let seen = word.load(Ordering::Relaxed);
        if seen == own {
            if holds::is_abandoned(word) {
                holds::note(word);
                return LockResult::Held(Held { word, own, recovered: true });
            }
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
            continue;
        }
        if spins < SPINS + YIELDS {
            m3ipc_sys::yield_cpu();
            continue;
        }
        if naps.is_multiple_of(NAPS_PER_CHECK)
            && seen != 0
            && !may_hold(seen)
            && word.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            holds::note(word);
            return LockResult::Held(Held { word, own, recovered: true });
        }
        let now_ns = monotonic_ns();
        if let Some(limit_ns) = limit_ns.take() {
            end_ns = now_ns + limit_ns();
        } else if now_ns >= end_ns {
            counters::add(Counter::LockTimeouts, 1);
            return LockResult::Busy;
        }
        naps += 1;
        process::pause_us(NAP_US);
    }
}

/// After a wait of a close without result: the time for which no other close waits.
const GAP_NS: u64 = 1_000_000_000;

/// The moment from which on a close may wait.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// Before a close takes the memory of a lock away: lets a call of another thread of this process
/// end that has the lock. A peer may have written the number of that thread, so the wait lasts
/// [`SHORT_NS`] at most, and after a wait without result no close waits for a second: all closes
/// together lose two hundredths of their time to hostile peers.
pub fn let_own_threads_end(word: &AtomicU64) {
    let (own, start_ns) = (own_word(), monotonic_ns());
    let mut spins = 0_u32;
    loop {
        let seen = word.load(Ordering::Acquire);
        if seen == 0 || seen == own {
            return;
        }
        spins += 1;
        if spins < SPINS {
            m3ipc_sys::relax();
            continue;
        }
        let now_ns = monotonic_ns();
        // Another process has the memory itself.
        if now_ns < NEXT_WAIT_NS.load(Ordering::Relaxed) || !process::has_thread(process_of(seen).0)
        {
            return;
        }
        if now_ns.saturating_sub(start_ns) >= SHORT_NS {
            NEXT_WAIT_NS.store(now_ns + GAP_NS, Ordering::Relaxed);
            counters::add(Counter::LockTimeouts, 1);
            return;
        }
        process::pause_us(NAP_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word_of(thread: u32, at_ticks: u64) -> AtomicU64 {
        AtomicU64::new(process_word(thread, at_ticks))
    }

    /// Keeps tests apart that compare the counter of the process, or wait in vain and so count.
    fn alone() -> std::sync::MutexGuard<'static, ()> {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[test]
    fn the_lock_of_a_dead_thread_is_taken_over() {
        prepare();
        let dead = std::thread::spawn(own_word).join().unwrap();
        for value in [dead, u64::MAX, 1] {
            let word = AtomicU64::new(value);
            match take(&word, || LONG_NS) {
                LockResult::Held(held) => assert!(held.recovered),
                other => panic!("{other:?}"),
            }
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_thread_that_began_later_does_not_hold_the_lock_of_an_earlier_one() {
        prepare();
        let _alone = alone();
        let parent = std::os::unix::process::parent_id();
        let start = process::start_ticks_of_thread(parent).unwrap();
        let taken =
            |at_ticks| matches!(take(&word_of(parent, at_ticks), || 1), LockResult::Held(_));
        assert!(taken(start - 1), "the number was another thread's");
        assert!(!taken(start), "the thread may have taken the lock when it began");
        assert!(!taken(process::now_ticks()));
        assert!(taken(process::now_ticks() + 1000), "a time that is yet to come");
    }

    /// Runs in a process of its own: it changes what the whole process takes for its home.
    #[test]
    fn child_in_other_namespaces() {
        if std::env::var_os("M3_TEST_ABROAD").is_none() {
            return;
        }
        prepare();
        let home = HOME[0].load(Ordering::Relaxed);
        let dead = std::thread::spawn(own_word).join().unwrap();
        HOME[0].store(home ^ 1, Ordering::Relaxed);
        let word = AtomicU64::new(dead);
        assert!(matches!(take(&word, || 1), LockResult::Busy), "it cannot know the holder");
        word.store(0, Ordering::Relaxed);
        let own = std::thread::spawn(own_word).join().unwrap();
        assert_eq!(process_of(own).0, EVERYWHERE);
        // At home, the lock of a child abroad stays its own.
        HOME[0].store(home, Ordering::Relaxed);
        word.store(own, Ordering::Relaxed);
        // A thread keeps its word, so this one would take the lock for its own.
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(matches!(take(&word, || 1), LockResult::Busy)));
        });
        std::process::exit(7);
    }

    #[test]
    fn no_lock_is_taken_over_from_or_in_other_namespaces() {
        if namespaces().is_err() {
            println!("SKIP: this system shows no namespaces");
            return;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "memory::lock::tests::child_in_other_namespaces", "--nocapture"]);
        let status = child.env("M3_TEST_ABROAD", "1").status().unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_wait_for_a_living_thread_ends() {
        prepare();
        let word = word_of(std::os::unix::process::parent_id(), process::now_ticks());
        let _alone = alone();
        let before = counters::read(Counter::LockTimeouts);
        assert!(matches!(take(&word, || 1_000_000), LockResult::Busy));
        assert!(counters::read(Counter::LockTimeouts) > before);
    }

    #[test]
    fn a_close_waits_for_threads_of_its_process_and_seldom_in_vain() {
        prepare();
        let _alone = alone();
        let before = counters::read(Counter::LockTimeouts);
        let_own_threads_end(&word_of(std::os::unix::process::parent_id(), process::now_ticks()));
        assert_eq!(counters::read(Counter::LockTimeouts), before, "the lock of another process");
        let (ready, end) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let word = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = try_take(&word);
                ready.wait();
                end.wait();
                drop(held);
            });
            ready.wait();
            let_own_threads_end(&word);
            let after = counters::read(Counter::LockTimeouts);
            (0..50).for_each(|_| let_own_threads_end(&word));
            let at_end = counters::read(Counter::LockTimeouts);
            // A failed assertion before this would leave the thread at its barrier.
            end.wait();
            assert_eq!(after, before + 1);
            assert!(NEXT_WAIT_NS.load(Ordering::Relaxed) > 0);
            assert!(at_end <= after + 1, "no wait for a second");
        });
        let_own_threads_end(&word);
    }

    #[test]
    fn a_quiet_caller_takes_free_locks_alone() {
        prepare();
        prepare_quiet();
        let dead = std::thread::spawn(own_word).join().unwrap();
        let word = AtomicU64::new(dead);
        assert!(take_quietly(&word).is_none());
        assert_eq!(word.load(Ordering::Relaxed), dead);
        word.store(0, Ordering::Relaxed);
        let held = take_quietly(&word);
        assert!(held.is_some() && take_quietly(&word).is_none());
        drop(held);
        assert_eq!(word.load(Ordering::Relaxed), 0);
        // A thread that never took a lock.
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(take_quietly(&word).is_some()));
        });
    }

    #[test]
    fn the_holder_gets_an_answer_instead_of_waiting_for_itself() {
        prepare();
        let word = AtomicU64::new(0);
        let held = try_take(&word);
        assert!(held.is_some() && matches!(take(&word, || LONG_NS), LockResult::Own));
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
                        let held = loop {
                            match take(&word, || LONG_NS) {
                                LockResult::Held(held) => break held,
                                LockResult::Busy => {}
                                LockResult::Own => panic!("not held"),
                            }
                        };
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 8000);
    }
}
