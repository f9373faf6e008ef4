//! Which signals end a wait: each, or those of which a hook says so.
//!
//! The libraries of some languages run signal handlers outside of the signal: a wait then has to ask
//! whether it may go on. A signal that comes just before a sleep does not end the sleep. So the
//! hook is asked after each signal, and at each check of a long sleep too.

use super::Endpoint;
use core::fmt;

/// Says whether the wait ends.
type Hook = Box<dyn FnMut() -> bool + Send + Sync>;

/// The hook of an endpoint, if it has one.
#[derive(Default)]
pub(super) struct Interruption(Option<Hook>);

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interruption").field(&self.0.is_some()).finish()
    }
}

impl Interruption {
    /// Whether a signal that came ends the wait.
    pub(super) fn by_signal(&mut self) -> bool {
        self.0.as_mut().is_none_or(|hook| hook())
    }

    /// Whether the wait ends, though no signal was seen.
    pub(super) fn is_due(&mut self) -> bool {
        self.0.as_mut().is_some_and(|hook| hook())
    }
}

impl Endpoint {
    /// Lets a hook decide which signals end a wait. Without one, each signal with a handler does.
    ///
    /// The hook is asked in the waiting thread: after a signal, and about once a second of sleep.
    /// `true` ends the call as a signal does. `false` lets it go on, with its time limit.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static ENDS: AtomicBool = AtomicBool::new(true); // what a signal handler would set
    /// server.interrupt_by(|| ENDS.load(Ordering::Relaxed));
    /// let ended = server.receive(m3ipc::Source::Any);
    /// assert!(matches!(ended, Err(m3ipc::ReceiveError::Interrupted(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interrupt_by(&mut self, hook: impl FnMut() -> bool + Send + Sync + 'static) {
        self.waiter.interruption().0 = Some(Box::new(hook));
    }
}
