//! Signals held back between the parts of a sleep.
//!
//! A sleep in parts runs code of its own between two of them. A handler that ran there would not
//! end the sleep. So the thread holds its signals back, and lets them run where it sees them.
//!
//! # Safety
//! Signal sets and actions are locals; the C library fills each before its first use. Signals of
//! faults are never held back: the kernel would end the process.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr::null;
use libc::{c_int, sigset_t};

/// The signals of faults.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// The highest number of a signal.
const SIGNAL_MAX: c_int = 64;

/// Holds the signals of this thread back until it is dropped.
pub(crate) struct HeldSignals {
    former: sigset_t,
    held: sigset_t,
}

impl HeldSignals {
    /// Holds all signals back; `None` if the C library or a filter of system calls refuses that.
    pub(crate) fn hold() -> Option<Self> {
        let mut held = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: `held` is a live local, which sigfillset fills; all the signals exist.
        let held = unsafe {
            libc::sigfillset(held.as_mut_ptr());
            FAULTS.iter().for_each(|fault| {
                libc::sigdelset(held.as_mut_ptr(), *fault);
            });
            held.assume_init()
        };
        let former = set_mask(&held)?;
        Some(Self { former, held })
    }

    /// Lets pending signals run. Whether one of them has a handler.
    pub(crate) fn deliver(&self) -> bool {
        let mut pending = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: the call fills the live local, if it succeeds.
        if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: sigpending has filled it.
        let pending = unsafe { pending.assume_init() };
        let is_in = |set: &sigset_t, signal| {
            // SAFETY: the set is initialised; a number without a signal gives -1.
            unsafe { libc::sigismember(set, signal) == 1 }
        };
        let due: Vec<c_int> = (1..=SIGNAL_MAX)
            .filter(|signal| is_in(&pending, *signal) && !is_in(&self.former, *signal))
            .collect();
        if due.is_empty() {
            return false;
        }
        let is_handled = due.into_iter().any(has_handler);
        set_mask(&self.former);
        set_mask(&self.held);
        is_handled
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        set_mask(&self.former);
    }
}

/// Sets the mask of this thread; the former one.
fn set_mask(mask: &sigset_t) -> Option<sigset_t> {
    let mut former = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: both sets live through the call, which fills `former` if it succeeds.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, former.as_mut_ptr()) };
    // SAFETY: pthread_sigmask has filled it.
    (failed == 0).then(|| unsafe { former.assume_init() })
}

fn has_handler(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call reads no new action, and fills the live local if it succeeds.
    if unsafe { libc::sigaction(signal, null::<libc::sigaction>(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: sigaction has filled it.
    let handler = unsafe { action.assume_init() }.sa_sigaction;
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::WaitOutcome;
    use crate::futex::wait_in_slices;
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

    const ROUNDS: u32 = 2_000;

    /// How often a signal was handled: each test has one of its own, for both run side by side.
    fn handled(signal: c_int) -> &'static AtomicU32 {
        static OF_USR1: AtomicU32 = AtomicU32::new(0);
        static OF_USR2: AtomicU32 = AtomicU32::new(0);
        if signal == libc::SIGUSR1 { &OF_USR1 } else { &OF_USR2 }
    }

    extern "C" fn count(signal: c_int) {
        handled(signal).fetch_add(1, Ordering::SeqCst);
    }

    fn set_handler(signal: c_int, handler: libc::sighandler_t) {
        // SAFETY: all zeros is a valid action without flags; the handler only counts.
        let done = unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler;
            libc::sigaction(signal, &raw const action, null_mut())
        };
        assert_eq!(done, 0);
    }

    fn send(thread: i32, signal: c_int) {
        // SAFETY: three integers.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, crate::process_id(), thread, signal) };
        assert_eq!(sent, 0);
    }

    #[test]
    fn held_signals_run_at_the_delivery_and_only_handlers_count() {
        let handler = count as extern "C" fn(c_int) as libc::sighandler_t;
        set_handler(libc::SIGUSR2, handler);
        let held = HeldSignals::hold().expect("no filter refuses it");
        assert!(!held.deliver());
        let before = handled(libc::SIGUSR2).load(Ordering::SeqCst);
        send(crate::thread_id(), libc::SIGUSR2);
        assert_eq!(handled(libc::SIGUSR2).load(Ordering::SeqCst), before, "held back");
        assert!(held.deliver());
        assert_eq!(handled(libc::SIGUSR2).load(Ordering::SeqCst), before + 1);
        send(crate::thread_id(), libc::SIGWINCH);
        assert!(!held.deliver(), "a signal without a handler ends no sleep");
        send(crate::thread_id(), libc::SIGUSR2);
        drop(held);
        assert_eq!(handled(libc::SIGUSR2).load(Ordering::SeqCst), before + 2);
    }

    /// A signal that ran between two slices would leave its sleep asleep for ever.
    #[test]
    fn each_signal_ends_a_sleep_in_slices() {
        let handler = count as extern "C" fn(c_int) as libc::sighandler_t;
        set_handler(libc::SIGUSR1, handler);
        let words = [AtomicU32::new(1), AtomicU32::new(2)];
        let (sleeper, rounds) = (AtomicI32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sleeper.store(crate::thread_id(), Ordering::SeqCst);
                for _ in 0..ROUNDS {
                    let expected = [(&words[0], 1), (&words[1], 2)];
                    assert_eq!(wait_in_slices(&expected, u64::MAX), Ok(WaitOutcome::Signal));
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
            while sleeper.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let thread = sleeper.load(Ordering::SeqCst);
            for round in 0..ROUNDS {
                while rounds.load(Ordering::SeqCst) < round
                    || crate::thread_sleeps(crate::process_id(), thread) != Ok(true)
                {
                    std::thread::yield_now();
                }
                // Any moment of a slice, the end of one included.
                let until_ns = crate::monotonic_ns() + u64::from(round) * 7_919 % 1_100_000;
                while crate::monotonic_ns() < until_ns {}
                send(thread, libc::SIGUSR1);
            }
        });
    }
}
