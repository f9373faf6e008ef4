//! The order of the steps of a sleep, which keeps a waiter from sleeping through a message.
//!
//! ```text
//! waiter                                  sender
//! 1. read the wake words                  1. publish the message
//! 2. publish the wait mode                2. read the receiver's wait mode
//! 3. poll                                 3. if it sleeps: change its wake word, wake it
//! 4. sleep unless a wake word changed
//! 5. publish `Awake`
//! ```
//!
//! Steps 2 and 3 of the waiter, and 1 and 2 of the sender, have a full fence between them. So the
//! waiter finds the message, or the sender sees the wait mode. In the second case the sender
//! changes the wake word, whose value the waiter read first; the kernel then refuses to sleep on
//! it.

use crate::wait_mode::WaitMode;

/// An endpoint that can sleep.
pub trait Sleeper {
    /// The wake words of the sleep, with their values.
    type Words;
    /// The reason for the failure of a sleep or a poll.
    type Error;

    /// Reads the values of the wake words.
    fn read_wake_words(&mut self) -> Self::Words;

    /// Publishes the wait mode, by [`OwnStatus::set_mode`](crate::OwnStatus::set_mode).
    fn set_mode(&mut self, mode: WaitMode);

    /// Sleeps until a wake word has another value than in `words`. Spurious ends are allowed.
    ///
    /// # Errors
    /// The reason, if the wait must end.
    fn sleep(&mut self, words: Self::Words) -> Result<(), Self::Error>;
}

/// Sleeps once, unless `poll` finds something after the wait mode is public. Returns the find, or
/// `None` after a sleep.
///
/// # Errors
/// Those of `poll` and of [`Sleeper::sleep`]. The mode is `Awake` then, too.
pub fn sleep_unless_found<S: Sleeper, T>(
    sleeper: &mut S,
    mode: WaitMode,
    poll: impl FnOnce(&mut S) -> Result<Option<T>, S::Error>,
) -> Result<Option<T>, S::Error> {
    let words = sleeper.read_wake_words();
    sleeper.set_mode(mode);
    let found = poll(sleeper);
    if !matches!(found, Ok(None)) {
        sleeper.set_mode(WaitMode::Awake);
        return found;
    }
    let slept = sleeper.sleep(words);
    sleeper.set_mode(WaitMode::Awake);
    slept.map(|()| None)
}
