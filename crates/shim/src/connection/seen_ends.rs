//! Ends of streams that poll or epoll has reported to this process: after each, a send asks the
//! kernel for its peer once. A send into a ring does not ask otherwise, while its receiver made
//! progress.

use core::sync::atomic::{AtomicU64, Ordering};

static SEEN: AtomicU64 = AtomicU64::new(0);

/// The events of an end, with the same bits for poll and epoll.
pub const END_EVENTS: i16 = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;

/// An end was reported.
pub fn note() {
    SEEN.fetch_add(1, Ordering::Relaxed);
}

/// The reports so far.
#[inline]
pub(super) fn count() -> u64 {
    SEEN.load(Ordering::Relaxed)
}
