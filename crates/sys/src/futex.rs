//! Sleeps on words of shared memory, and wake-ups.
//!
//! All futexes are shared: the kernel identifies the word by its page, not by its address. Every
//! sleep has a limit, so that the sleeper can check from time to time that its peer lives.

use crate::cpu::refill_returns;
use crate::held_signals::HeldSignals;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, Timespec};

/// Highest number of words of one sleep.
pub const WAIT_WORDS_MAX: usize = 128;
/// Words of a sleep that costs less.
const FEW_WORDS: usize = 4;
/// Returns from a sleep or a wake-up to the caller of a verb, and some more.
const RETURNS: usize = 16;

/// The end of a sleep. `Changed` may be spurious: poll again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A wake-up, or a word had changed already.
    Changed,
    /// The limit passed.
    Limit,
    /// A signal was handled.
    Signal,
}

/// A word, and the value that it must have at the beginning of the sleep.
pub type Expected<'a> = (&'a AtomicU32, u32);

fn timespec(limit_ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(limit_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (limit_ns % 1_000_000_000).cast_signed(),
    }
}

fn outcome(result: Result<(), Errno>) -> Result<WaitOutcome, Errno> {
    match result {
        Ok(()) | Err(Errno::AGAIN) => Ok(WaitOutcome::Changed),
        Err(Errno::TIMEDOUT) => Ok(WaitOutcome::Limit),
        Err(Errno::INTR) => Ok(WaitOutcome::Signal),
        Err(other) => Err(other),
    }
}

/// Sleeps while the word has this value, for at most `limit_ns` nanoseconds.
///
/// # Errors
/// `FAULT`, `INVAL`: a defect of the caller.
///
/// # Source
/// futex(2), `FUTEX_WAIT`
pub fn wait(word: &AtomicU32, value: u32, limit_ns: u64) -> Result<WaitOutcome, Errno> {
    let waited = futex::wait(word, Flags::empty(), value, Some(&timespec(limit_ns)));
    refill_returns::<RETURNS>();
    outcome(waited)
}

/// Sleeps while all words have their values, until `deadline_ns` nanoseconds of the monotonic
/// clock.
///
/// Without `futex_waitv` (before Linux 5.16, under a seccomp filter that lacks it, or under
/// valgrind) the sleep watches the last word and looks at the others once a millisecond.
///
/// # Errors
/// `INVAL` without words or with more than [`WAIT_WORDS_MAX`].
///
/// # Source
/// futex(2), futex_waitv
pub fn wait_any(words: &[Expected<'_>], deadline_ns: u64) -> Result<WaitOutcome, Errno> {
    if !LACKS_WAITV.load(Ordering::Relaxed) {
        let waited = wait_for_one(words, deadline_ns);
        if !matches!(waited, Err(Errno::NOSYS | Errno::PERM)) {
            return outcome(waited.map(|_index| ()));
        }
        LACKS_WAITV.store(true, Ordering::Relaxed);
    }
    wait_in_slices(words, deadline_ns)
}

/// Whether the kernel or a seccomp filter refused `futex_waitv` to this process.
static LACKS_WAITV: AtomicBool = AtomicBool::new(false);
/// The longest time that a sleep without `futex_waitv` watches one word alone, in nanoseconds.
const SLICE_NS: u64 = 1_000_000;

/// Whether this process may use `futex_waitv`, without a sleep.
///
/// # Errors
/// `NOSYS` before Linux 5.16; `PERM`, `NOSYS` or another error of a seccomp filter.
pub fn try_wait_any() -> Result<(), Errno> {
    // The word differs from the expected value, so the call returns at once.
    match wait_for_one(&[(&AtomicU32::new(0), 1)], crate::monotonic_ns()) {
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Sleeps on the last word, and looks at the others between slices of time. Signals run at the end
/// of a slice, so that each of them ends the sleep.
pub(crate) fn wait_in_slices(
    words: &[Expected<'_>],
    deadline_ns: u64,
) -> Result<WaitOutcome, Errno> {
    let Some((watched, value)) = words.last().filter(|_| words.len() <= WAIT_WORDS_MAX) else {
        return Err(Errno::INVAL);
    };
    let is_whole = words.len() == 1;
    let held = if is_whole { None } else { HeldSignals::hold() };
    loop {
        if words.iter().any(|(word, value)| word.load(Ordering::SeqCst) != *value) {
            return Ok(WaitOutcome::Changed);
        }
        let now_ns = crate::monotonic_ns();
        if now_ns >= deadline_ns {
            return Ok(WaitOutcome::Limit);
        }
        if held.as_ref().is_some_and(HeldSignals::deliver) {
            return Ok(WaitOutcome::Signal);
        }
        let slice_ns = if is_whole { u64::MAX } else { SLICE_NS };
        let waited = wait(watched, *value, slice_ns.min(deadline_ns - now_ns));
        if !matches!(waited, Ok(WaitOutcome::Limit)) {
            return waited;
        }
    }
}

/// As [`wait_any`], and returns the index of the word whose wake-up ended the sleep. `None`: a word
/// had changed already, the limit passed, or a signal was handled.
///
/// # Errors
/// Those of [`wait_any`].
pub fn wait_any_woken(words: &[Expected<'_>], deadline_ns: u64) -> Result<Option<usize>, Errno> {
    let woken = wait_for_one(words, deadline_ns);
    match woken {
        Ok(index) => Ok(Some(index)),
        Err(errno) => outcome(Err(errno)).map(|_not_woken| None),
    }
}

fn wait_for_one(words: &[Expected<'_>], deadline_ns: u64) -> Result<usize, Errno> {
    if words.len() <= FEW_WORDS {
        wait_for_one_of::<FEW_WORDS>(words, deadline_ns)
    } else {
        wait_for_one_of::<WAIT_WORDS_MAX>(words, deadline_ns)
    }
}

/// Sleeps on at most `N` words. A record of the kernel for each of them is cleared first.
fn wait_for_one_of<const N: usize>(
    words: &[Expected<'_>],
    deadline_ns: u64,
) -> Result<usize, Errno> {
    let mut waiters = [futex::Wait::new(); N];
    let waiters = waiters.get_mut(..words.len()).ok_or(Errno::INVAL)?;
    for (waiter, (word, value)) in waiters.iter_mut().zip(words) {
        waiter.val = u64::from(*value);
        waiter.uaddr = WaitPtr::new(word.as_ptr().cast());
        waiter.flags = WaitFlags::SIZE_U32;
    }
    let deadline = timespec(deadline_ns);
    let waited = futex::waitv(waiters, WaitvFlags::empty(), Some(&deadline), ClockId::Monotonic);
    refill_returns::<RETURNS>();
    waited
}

/// Wakes the sleepers of the word: at most two, because only its two parties may sleep on it.
#[inline]
pub fn wake(word: &AtomicU32) {
    // A failed wake-up needs no action: the word is mapped, so the call can only find no sleeper.
    let _ = futex::wake(word, Flags::empty(), 2);
    // The woken thread may have run before this one goes on.
    refill_returns::<RETURNS>();
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_without_waitv_ends_by_each_word_and_by_its_limit() {
        let words = [AtomicU32::new(1), AtomicU32::new(2)];
        let expected = [(&words[0], 1), (&words[1], 2)];
        let soon = || crate::monotonic_ns() + 3_000_000;
        assert_eq!(wait_in_slices(&expected, soon()), Ok(WaitOutcome::Limit));
        assert_eq!(wait_in_slices(&expected[..1], soon()), Ok(WaitOutcome::Limit));
        for changed in &words {
            let former = changed.load(Ordering::SeqCst);
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| wait_in_slices(&expected, u64::MAX));
                changed.store(9, Ordering::SeqCst);
                wake(changed);
                assert_eq!(sleeper.join().unwrap(), Ok(WaitOutcome::Changed));
            });
            changed.store(former, Ordering::SeqCst);
        }
        assert_eq!(wait_in_slices(&[], soon()), Err(Errno::INVAL));
    }
}
