//! Which signals end a wait: each, or those of which a hook says so.
//!
//! The libraries of some languages run signal handlers outside of the signal: a wait then has to
//! ask whether it may go on. A signal that comes just before a sleep does not end the sleep. So the
//! hook is asked after each signal, and at each check of a long sleep too.

use core::fmt;

/// Says whether the wait ends.
type Hook = Box<dyn FnMut() -> bool + Send + Sync>;

/// The hook of an endpoint, if it has one.
#[derive(Default)]
pub(crate) struct Interruption(Option<Hook>);

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interruption").field(&self.0.is_some()).finish()
    }
}

impl Interruption {
    /// One with this hook.
    pub(crate) fn by(hook: impl FnMut() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(hook)))
    }

    /// Sets the hook.
    pub(super) fn set(&mut self, hook: impl FnMut() -> bool + Send + Sync + 'static) {
        self.0 = Some(Box::new(hook));
    }

    /// Whether there is a hook.
    pub(super) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a signal that came ends the wait.
    pub(super) fn by_signal(&mut self) -> bool {
        self.0.as_mut().is_none_or(|hook| hook())
    }

    /// Whether the wait ends, though no signal was seen.
    pub(super) fn is_due(&mut self) -> bool {
        self.0.as_mut().is_some_and(|hook| hook())
    }
}
