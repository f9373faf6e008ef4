//! Sleeps on words of shared memory, and wake-ups.
//!
//! All futexes are shared: the kernel identifies the word by its page, not by its address. Every
//! sleep has a limit, so that the sleeper can check from time to time that its peer lives.

use core::sync::atomic::AtomicU32;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, Timespec};

/// Highest number of words of one sleep.
pub const WAIT_WORDS_MAX: usize = 128;

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
    outcome(futex::wait(word, Flags::empty(), value, Some(&timespec(limit_ns))))
}

/// Sleeps while all words have their values, until `deadline_ns` nanoseconds of the monotonic
/// clock.
///
/// # Errors
/// `NOSYS` before Linux 5.16; `INVAL` without words or with more than [`WAIT_WORDS_MAX`].
///
/// # Source
/// futex(2), futex_waitv
pub fn wait_any(words: &[Expected<'_>], deadline_ns: u64) -> Result<WaitOutcome, Errno> {
    outcome(wait_for_one(words, deadline_ns).map(|_index| ()))
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
    let mut waiters = [futex::Wait::new(); WAIT_WORDS_MAX];
    let waiters = waiters.get_mut(..words.len()).ok_or(Errno::INVAL)?;
    for (waiter, (word, value)) in waiters.iter_mut().zip(words) {
        waiter.val = u64::from(*value);
        waiter.uaddr = WaitPtr::new(word.as_ptr().cast());
        waiter.flags = WaitFlags::SIZE_U32;
    }
    let deadline = timespec(deadline_ns);
    futex::waitv(waiters, WaitvFlags::empty(), Some(&deadline), ClockId::Monotonic)
}

/// Wakes the sleepers of the word: at most two, because only its two parties may sleep on it.
#[inline]
pub fn wake(word: &AtomicU32) {
    // A failed wake-up needs no action: the word is mapped, so the call can only find no sleeper.
    let _ = futex::wake(word, Flags::empty(), 2);
}
