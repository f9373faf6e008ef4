//! Signals with handlers: a wait holds back those alone while it spins.
//!
//! A blocked signal stays pending even where the program ignores it, and would then end an
//! `epoll_wait` that it does not end natively. So the library follows the program's changes.

use crate::kernel::signal;
use crate::process::{limits, vfork};
use core::sync::atomic::{AtomicU64, Ordering};

const SIGNALS: i32 = 64;
/// The C library's own two signals, which cancel threads and change users of all threads.
const LIBRARY_SIGNALS: u64 = 0b11 << 31;

/// Signals that the kernel ignores by default.
const IGNORED_BY_DEFAULT: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

/// A bit for each signal with a handler.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal that the kernel ignores.
static IGNORED: AtomicU64 = AtomicU64::new(0);

fn bit(number: i32) -> Option<u64> {
    (1..=SIGNALS).contains(&number).then(|| 1 << (number - 1))
}

/// Asks the kernel for all signals, before the program starts.
pub fn learn_all() {
    (1..=SIGNALS).for_each(learn);
}

fn learn(number: i32) {
    let (Some(bit), Some(handler)) = (bit(number), signal::handler(number)) else { return };
    let is_ignored = handler == libc::SIG_IGN
        || handler == libc::SIG_DFL && IGNORED_BY_DEFAULT.contains(&number);
    set(&IGNORED, bit, is_ignored);
    set(&HANDLED, bit, !matches!(handler, libc::SIG_DFL | libc::SIG_IGN));
}

fn set(signals: &AtomicU64, bit: u64, on: bool) {
    if on {
        signals.fetch_or(bit, Ordering::Relaxed);
    } else {
        signals.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Makes a call that changes the handler of a signal. The child of a vfork has signals of its own,
/// but not this memory.
pub fn change<T>(number: i32, call: impl FnOnce() -> T) -> T {
    if vfork::in_child() || limits::are_on() {
        return call();
    }
    // From the first moment at which the handler may run.
    if let Some(bit) = bit(number) {
        HANDLED.fetch_or(bit, Ordering::Relaxed);
    }
    let result = call();
    learn(number);
    result
}

/// Signals that are held back until dropped.
#[derive(Debug)]
pub struct HeldSignals(Option<libc::sigset_t>);

/// Holds back the signals with handlers.
#[must_use]
pub fn hold() -> HeldSignals {
    let handled = HANDLED.load(Ordering::Relaxed) & !LIBRARY_SIGNALS;
    HeldSignals((handled != 0).then(|| signal::block(handled)))
}

impl HeldSignals {
    /// No signals.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Holds back all signals that the kernel does not ignore, between two parts of one sleep:
    /// another thread may install a handler at any time, and a signal must end the sleep. A signal
    /// without a handler ends the process a little later, in the next part.
    pub fn hold_all(&mut self) {
        let before = signal::block(!IGNORED.load(Ordering::Relaxed) & !LIBRARY_SIGNALS);
        self.0.get_or_insert(before);
    }

    /// The mask before, to sleep with; `None` where no signal is held back.
    #[must_use]
    pub fn mask_before(&self) -> Option<&libc::sigset_t> {
        self.0.as_ref()
    }
}

impl HeldSignals {
    /// Lets the signals in.
    pub fn release(&mut self) {
        if let Some(before) = self.0.take() {
            signal::set_mask(&before);
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_a_handler_is_not_held_back() {
        learn_all();
        let number = libc::SIGUSR2;
        let is_handled = || HANDLED.load(Ordering::Relaxed) & bit(number).unwrap() != 0;
        assert!(!is_handled());
        change(number, || assert!(is_handled(), "the handler may run during the call"));
        assert!(!is_handled(), "the call set no handler");
        assert_eq!((bit(0), bit(65), bit(64)), (None, None, Some(1 << 63)));
    }
}
