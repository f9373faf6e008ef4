//! The eventfd by which a process wakes the sleepers of its own set.

use crate::kernel::ready;
use core::sync::atomic::{AtomicI32, Ordering};
use std::os::fd::RawFd;

/// The eventfd; 0 is none.
#[derive(Debug)]
pub(super) struct SelfWake(AtomicI32);

impl SelfWake {
    /// None.
    pub(super) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Forgets the eventfd, in a set that no descriptor refers to.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the set has the eventfd.
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Adds a readable eventfd with this data to the set, unless there is one.
    pub(super) fn begin(&self, set: RawFd, data: u64) {
        let Ok(eventfd) = ready::readable_eventfd() else { return };
        let claim = self.0.compare_exchange(0, eventfd, Ordering::SeqCst, Ordering::Relaxed);
        if claim.is_err() {
            ready::close_eventfd(eventfd);
            return;
        }
        let _ = ready::add_eventfd(set, eventfd, data);
    }

    /// Takes the eventfd away, by a woken thread.
    pub(super) fn end(&self) {
        let eventfd = self.0.swap(0, Ordering::SeqCst);
        if eventfd != 0 {
            ready::close_eventfd(eventfd);
        }
    }
}
