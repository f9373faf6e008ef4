//! One watched socket of a set: its descriptor, events and data.
//!
//! A thread may change the slot while another one reads it. `epoll_ctl` therefore writes
//! [`CHANGING`] in place of the events before the data, and the events after it.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use libc::epoll_event;
use std::os::fd::RawFd;

/// In place of events while `epoll_ctl` changes them.
const CHANGING: u32 = 1 << 27;
/// Events that the kernel reports without being asked.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();

/// A slot of a set.
#[derive(Debug)]
pub(super) struct Slot {
    /// The descriptor plus one; 0 is a free slot.
    fd: AtomicI32,
    /// 0 while the socket is not watched. Programs remove and add sockets all the time.
    events: AtomicU32,
    data: AtomicU64,
    /// The moment of the mark of this process, in nanoseconds.
    marked_at_ns: AtomicU64,
    /// The tail of the ring when a wait last reported an edge.
    reported_tail: AtomicU64,
}

/// The values of a slot at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) fd: RawFd,
    pub(super) events: u32,
    pub(super) data: u64,
}

impl Slot {
    /// A free slot.
    pub(super) const fn new() -> Self {
        Self {
            fd: AtomicI32::new(0),
            events: AtomicU32::new(0),
            data: AtomicU64::new(0),
            marked_at_ns: AtomicU64::new(0),
            reported_tail: AtomicU64::new(0),
        }
    }

    /// Frees the slot of a set that no descriptor refers to.
    pub(super) fn clear(&self) {
        self.fd.store(0, Ordering::Relaxed);
    }

    /// The moment of the mark of this process.
    pub(super) fn marked_at_ns(&self) -> u64 {
        self.marked_at_ns.load(Ordering::Relaxed)
    }

    /// Notes the moment of a mark.
    pub(super) fn set_marked_at_ns(&self, at_ns: u64) {
        self.marked_at_ns.store(at_ns, Ordering::Relaxed);
    }

    /// The tail of the ring when a wait last reported an edge.
    pub(super) fn reported_tail(&self) -> u64 {
        self.reported_tail.load(Ordering::Relaxed)
    }

    /// Notes the tail of a reported edge.
    pub(super) fn set_reported_tail(&self, tail: u64) {
        self.reported_tail.store(tail, Ordering::Relaxed);
    }

    /// The descriptor; -1 for a free slot.
    pub(super) fn fd(&self) -> RawFd {
        self.fd.load(Ordering::Acquire) - 1
    }

    /// Takes the slot for a descriptor, if the slot is free.
    pub(super) fn take(&self, fd: RawFd) -> bool {
        self.fd.load(Ordering::Relaxed) == 0
            && self.fd.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The slot of a closed descriptor serves its successor.
    pub(super) fn pass(&self, successor: RawFd) {
        self.fd.store(successor + 1, Ordering::Release);
    }

    /// Frees the slot.
    pub(super) fn leave(&self) {
        self.events.store(0, Ordering::Release);
        self.fd.store(0, Ordering::Release);
    }

    /// Stores the event of epoll_ctl.
    pub(super) fn change(&self, event: epoll_event) {
        self.events.store(CHANGING, Ordering::SeqCst);
        self.data.store(event.u64, Ordering::SeqCst);
        self.set_reported_tail(0);
        // Never 0, which would mean that the socket is not watched.
        self.events.store(event.events | ALWAYS, Ordering::SeqCst);
    }

    /// The program removed the socket.
    pub(super) fn unwatch(&self) {
        self.events.store(0, Ordering::SeqCst);
    }

    /// Whether the program has the socket in the set.
    pub(super) fn is_watched(&self) -> bool {
        self.events.load(Ordering::SeqCst) != 0
    }

    /// The events, which another thread may be changing.
    pub(super) fn events(&self) -> u32 {
        self.events.load(Ordering::Relaxed)
    }

    /// The values; `None` while another thread changes them.
    pub(super) fn read(&self) -> Option<Watched> {
        let fd = self.fd();
        let events = self.events.load(Ordering::Acquire);
        let data = self.data.load(Ordering::Acquire);
        let changes = events == CHANGING || self.events.load(Ordering::Acquire) != events;
        (fd < 0 || !changes).then_some(Watched { fd, events, data })
    }
}
