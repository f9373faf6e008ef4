//! The eventfd by which a process wakes the sleepers of its own set.
//!
//! A child by fork shares the set and has a copy of the eventfd. A close takes an eventfd out of a
//! set only where no copy is left. So the child closes its copy, and the end of an eventfd reads it
//! empty first.

use crate::kernel::{file, ready};
use crate::process::limits;
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
            ready::end_eventfd(eventfd);
            return;
        }
        let _ = ready::add_eventfd(set, eventfd, data);
    }

    /// Takes the eventfd away, by a woken thread.
    pub(super) fn end(&self) {
        let eventfd = self.0.swap(0, Ordering::SeqCst);
        if eventfd != 0 {
            ready::end_eventfd(eventfd);
        }
    }

    /// Closes the copy of the parent's eventfd, in a child by fork. The eventfd stays readable for
    /// the parent. A child whose system calls are limited keeps the copy.
    pub(super) fn forget_parents(&self) {
        let eventfd = self.0.swap(0, Ordering::SeqCst);
        if eventfd != 0 && !limits::are_on() {
            file::close(eventfd);
        }
    }
}
