//! The armed poller of a set: opened and owned by one process, or disabled for good.

use crate::connection::armed_poller::ArmedPoller;
use crate::protocol::armed;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::fork_generation;

/// The armed poller of a set.
#[derive(Debug)]
pub(super) struct OwnPoller {
    /// The [`ArmedPoller`], or 0, and the fork generation that owns it.
    word: AtomicU64,
    owner: AtomicU32,
    /// Not 0: other waits concern the set or its sockets, so all of them need wakeup bytes.
    disabled: AtomicU32,
}

impl OwnPoller {
    /// None.
    pub(super) const fn new() -> Self {
        Self { word: AtomicU64::new(0), owner: AtomicU32::new(0), disabled: AtomicU32::new(0) }
    }

    /// Forgets the poller of a set that no descriptor refers to.
    pub(super) fn clear(&self) {
        self.disabled.store(0, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }

    /// The poller, where this process owns it.
    pub(super) fn get(&self) -> Option<ArmedPoller> {
        self.owned(self.word.load(Ordering::Acquire))
    }

    fn owned(&self, word: u64) -> Option<ArmedPoller> {
        ArmedPoller::from_word(word)
            .filter(|_poller| self.owner.load(Ordering::Relaxed) == fork_generation())
    }

    /// Counts a thread that is about to sleep in the set; the poller, where this process owns it.
    pub(super) fn enter_sleep(&self, sleepers: &AtomicU64) -> Option<ArmedPoller> {
        self.owned(armed::enter_sleep(sleepers, &self.word))
    }

    /// Gives the poller up in a child by fork: it is the parent's.
    pub(super) fn forget_parents(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Opens a poller, unless there is one or a thread sleeps without one. Whether it is open.
    pub(super) fn open(&self, sleepers: &AtomicU64) -> bool {
        if self.word.load(Ordering::Acquire) != 0 || sleepers.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let Some(new) = ArmedPoller::open() else { return false };
        self.owner.store(fork_generation(), Ordering::Relaxed);
        let is_open = armed::open(&self.word, new.word(), sleepers);
        if !is_open {
            new.close();
        }
        is_open
    }

    /// Removes the poller; the caller closes it, where this process owns it.
    pub(super) fn remove(&self) -> Option<ArmedPoller> {
        let poller = self.get();
        self.word.store(0, Ordering::Release);
        poller
    }

    /// Whether the set may never have a poller.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed) != 0
    }

    /// As [`is_disabled`](Self::is_disabled), ordered with the marks of senders.
    pub(super) fn is_disabled_now(&self) -> bool {
        self.disabled.load(Ordering::SeqCst) != 0
    }

    /// Excludes a poller for good. Whether this call did.
    pub(super) fn disable(&self) -> bool {
        self.disabled.swap(1, Ordering::SeqCst) == 0
    }
}
