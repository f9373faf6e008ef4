//! Which signals end the wait for a reply.

/// Says after a signal whether it ends the wait for a reply.
pub(crate) type OnSignal<'a> = &'a mut dyn FnMut() -> bool;

/// The wait of a call that every signal ends.
pub(crate) fn stop() -> bool {
    true
}

/// The wait of a call that no signal ends.
pub(super) fn go_on() -> bool {
    false
}
