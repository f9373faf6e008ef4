//! An epoll set of this process: its slots, its marks, its armed poller and its sleepers.
//!
//! ```text
//!   slot     one watched socket: descriptor, events and data as epoll_ctl gave them
//!   mark     a slot to report: marked here by this process, or in the armed poller by a sender
//! ```
//!
//! The kernel's answer is always right. The set adds the bytes of rings to it. Where a set misses a
//! socket, senders send wakeup bytes.

use crate::connection::armed_poller::{ArmedPoller, BIT_WORDS};
use crate::connection::socket::Socket;
use crate::kernel::ready;
use crate::process::descriptors;
use crate::process::notes::{self, NEEDS_WAKEUPS, SHARED, WAS_ARMED};
use crate::spin::WaitSpin;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use libc::epoll_event;
use m3ipc_sys::fork_generation;
use std::os::fd::RawFd;

/// Slots of a set; sockets beyond need wakeup bytes.
pub const SLOTS: usize = BIT_WORDS * 64;
/// Sockets without an armed poller that a wait polls before it sleeps: more would cost too much.
pub const POLLED_MAX: usize = 64;

/// In place of events while `epoll_ctl` changes them.
const CHANGING: u32 = 1 << 27;
/// Events that the kernel reports without being asked.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
/// A slot with these is never armed.
const NEVER_ARMED: u32 = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE).cast_unsigned();

#[derive(Debug)]
struct Slot {
    /// The descriptor plus one; 0 is a free slot.
    fd: AtomicI32,
    /// 0 while the socket is not watched. Programs remove and add sockets all the time.
    events: AtomicU32,
    data: AtomicU64,
}

/// An epoll set of this process.
#[derive(Debug)]
pub struct Set {
    /// Descriptors of the set; 0 is a free set.
    descriptors: AtomicU32,
    /// The [`ArmedPoller`], or 0, and the fork generation that owns it.
    poller: AtomicU64,
    owner: AtomicU32,
    /// Not 0: other waits concern the set or its sockets, so all of them need wakeup bytes.
    disabled: AtomicU32,
    /// Threads that sleep in the set.
    sleepers: AtomicU32,
    /// Threads that wait in the set, asleep or awake.
    waiters: AtomicU32,
    /// Not 0: another process may change the set, after a fork.
    shared: AtomicU32,
    /// The eventfd that wakes the sleepers; 0 is none.
    self_wake: AtomicI32,
    /// One more than the highest slot in use.
    top: AtomicU32,
    /// The slot that the next wait reports first, so that no slot starves.
    pub(super) first: AtomicU32,
    /// Whether the next wait asks the kernel first.
    pub(super) kernel_first: AtomicBool,
    /// The record of spins.
    pub(super) spin: WaitSpin,
    marks: [AtomicU64; BIT_WORDS],
    slots: [Slot; SLOTS],
}

/// The answer of a slot.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    /// There is nothing to report.
    Nothing,
    /// The slot changes, or a sender publishes, at this moment: later.
    Later,
    /// The ring has bytes.
    Bytes {
        /// The watched socket.
        socket: Socket,
        /// The events that the program asked for.
        events: u32,
        /// The program's data.
        data: u64,
    },
}

impl Set {
    /// A free set: all zeros, so that a table of them takes no room in the library's file.
    pub(super) const fn new() -> Self {
        Self {
            descriptors: AtomicU32::new(0),
            poller: AtomicU64::new(0),
            owner: AtomicU32::new(0),
            disabled: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            shared: AtomicU32::new(0),
            self_wake: AtomicI32::new(0),
            top: AtomicU32::new(0),
            first: AtomicU32::new(0),
            kernel_first: AtomicBool::new(false),
            spin: WaitSpin::new(),
            marks: [const { AtomicU64::new(0) }; BIT_WORDS],
            slots: [const {
                Slot { fd: AtomicI32::new(0), events: AtomicU32::new(0), data: AtomicU64::new(0) }
            }; SLOTS],
        }
    }

    /// Claims a free set, with one descriptor.
    pub(super) fn claim(&self) -> bool {
        let claimed = self.descriptors.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_ok() {
            self.clear();
        }
        claimed.is_ok()
    }

    fn clear(&self) {
        for slot in &self.slots[..self.top()] {
            slot.fd.store(0, Ordering::Relaxed);
        }
        let words = [&self.top, &self.first, &self.disabled, &self.sleepers];
        for word in words.into_iter().chain([&self.waiters, &self.shared]) {
            word.store(0, Ordering::Relaxed);
        }
        self.self_wake.store(0, Ordering::Relaxed);
        self.poller.store(0, Ordering::Relaxed);
        self.marks.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Counts one more descriptor of the set.
    pub(super) fn add_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one descriptor less; frees the set with the last.
    pub(super) fn remove_descriptor(&self, number: usize) {
        if self.descriptors.load(Ordering::Acquire) == 1 {
            self.release_poller();
            (0..self.top()).for_each(|slot| self.leave(number, slot));
            self.end_self_wake();
        }
        let less = |descriptors: u32| descriptors.checked_sub(1);
        let _ = self.descriptors.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// Whether a descriptor refers to the set.
    pub(super) fn is_used(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) > 0
    }

    /// Slots that may be in use.
    pub(super) fn top(&self) -> usize {
        (self.top.load(Ordering::Acquire) as usize).min(SLOTS)
    }

    /// Whether the set watches no socket of ours.
    pub(super) fn is_empty(&self) -> bool {
        self.top() == 0
    }

    /// The descriptor of a slot; -1 for a free slot.
    pub(super) fn fd(&self, slot: usize) -> RawFd {
        self.slots[slot].fd.load(Ordering::Acquire) - 1
    }

    fn socket(&self, slot: usize) -> Option<Socket> {
        descriptors::socket(self.fd(slot))
    }

    /// Takes a free slot for a descriptor.
    pub(super) fn take_slot(&self, fd: RawFd) -> Option<usize> {
        let free = self.slots.iter().position(|slot| {
            slot.fd.load(Ordering::Relaxed) == 0
                && slot.fd.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        self.top.fetch_max(u32::try_from(free).unwrap_or(0) + 1, Ordering::AcqRel);
        Some(free)
    }

    /// The slot of a closed descriptor serves its successor, which stands for the same socket.
    pub(super) fn pass_slot(&self, slot: usize, successor: RawFd) {
        self.slots[slot].fd.store(successor + 1, Ordering::Release);
    }

    /// Frees a slot.
    pub(super) fn leave(&self, number: usize, slot: usize) {
        let fd = self.fd(slot);
        if fd < 0 {
            return;
        }
        self.disarm(slot);
        self.slots[slot].events.store(0, Ordering::Release);
        self.slots[slot].fd.store(0, Ordering::Release);
        notes::remove_slot(fd, number);
    }

    /// Stores the event of epoll_ctl.
    pub(super) fn change(&self, slot: usize, event: epoll_event) {
        let cells = &self.slots[slot];
        cells.events.store(CHANGING, Ordering::SeqCst);
        cells.data.store(event.u64, Ordering::SeqCst);
        // Never 0, which would mean that the socket is not watched.
        cells.events.store(event.events | ALWAYS, Ordering::SeqCst);
    }

    /// The program removed the socket of a slot.
    pub(super) fn unwatch(&self, slot: usize) {
        self.slots[slot].events.store(0, Ordering::SeqCst);
    }

    /// Whether the program has the socket of a slot in the set.
    pub(super) fn is_watched(&self, slot: usize) -> bool {
        self.slots[slot].events.load(Ordering::SeqCst) != 0
    }

    /// The armed poller, where this process owns it.
    pub(super) fn poller(&self) -> Option<ArmedPoller> {
        ArmedPoller::from_word(self.poller.load(Ordering::Acquire))
            .filter(|_poller| self.owner.load(Ordering::Relaxed) == fork_generation())
    }

    /// Gives the poller up in a child by fork: it is the parent's.
    pub(super) fn take_parents_poller(&self) -> Option<ArmedPoller> {
        ArmedPoller::from_word(self.poller.swap(0, Ordering::Relaxed))
    }

    /// Whether the set may never have a poller.
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed) != 0
    }

    /// Opens an armed poller, unless there is one or a thread sleeps without one.
    pub(super) fn open_poller(&self) {
        let sleeps = || self.sleepers.load(Ordering::SeqCst) > 0;
        if self.poller.load(Ordering::Acquire) != 0 || sleeps() {
            return;
        }
        let Some(new) = ArmedPoller::open() else { return };
        self.owner.store(fork_generation(), Ordering::Relaxed);
        let (none, word) = (0, new.word());
        let set = self.poller.compare_exchange(none, word, Ordering::SeqCst, Ordering::Relaxed);
        if set.is_err() {
            new.close();
            return;
        }
        // The poller does not count threads that sleep already: pairs with `begin_sleep`.
        if sleeps() {
            self.poller.store(0, Ordering::SeqCst);
            new.close();
            return;
        }
        self.arm_all();
    }

    /// Closes the armed poller. Marks of senders stay as marks of the set.
    fn release_poller(&self) {
        self.disarm_all();
        let poller = self.poller();
        self.poller.store(0, Ordering::Release);
        if let Some(poller) = poller {
            for (word, marks) in self.marks.iter().enumerate() {
                marks.fetch_or(poller.take(word), Ordering::SeqCst);
            }
            poller.close();
        }
    }

    /// Disables the poller for good: other threads or waits concern the set.
    pub(super) fn disable(&self) {
        if self.disabled.swap(1, Ordering::SeqCst) == 0 {
            self.release_poller();
        }
    }

    /// Arms the socket of a slot, where that is allowed; otherwise disarms it.
    pub(super) fn arm(&self, slot: usize, socket: Socket) {
        let fd = self.fd(slot);
        let events = self.slots[slot].events.load(Ordering::Relaxed);
        let may_arm = !notes::has(fd, NEEDS_WAKEUPS | SHARED) && events & NEVER_ARMED == 0;
        match self.poller().filter(|_poller| may_arm) {
            Some(poller) => {
                if !notes::has(fd, WAS_ARMED) {
                    notes::add(fd, WAS_ARMED);
                }
                socket.arm(poller, slot);
            }
            None => self.disarm(slot),
        }
    }

    /// Arms all sockets of the set.
    pub(super) fn arm_all(&self) {
        for slot in 0..self.top() {
            if let Some(socket) = self.socket(slot) {
                self.arm(slot, socket);
            }
        }
    }

    /// Disarms the socket of a slot; marks the slot where unsignalled bytes lie in the ring.
    pub(super) fn disarm(&self, slot: usize) {
        if let Some(socket) = self.socket(slot)
            && socket.disarm()
            && socket.has_unsignalled() != Some(false)
        {
            self.mark(slot);
        }
    }

    /// Disarms all sockets of the set.
    pub(super) fn disarm_all(&self) {
        (0..self.top()).for_each(|slot| self.disarm(slot));
    }

    /// Says that another process may change the set, after a fork.
    pub(super) fn set_shared(&self, shared: bool) {
        self.shared.store(u32::from(shared), Ordering::Relaxed);
    }

    /// Whether the kernel still has a slot's socket in the set: another process may have removed
    /// it.
    pub(super) fn is_in_kernel(&self, set: RawFd, fd: RawFd, events: u32, data: u64) -> bool {
        if self.shared.load(Ordering::Relaxed) == 0 || events & EDGE != 0 {
            return true;
        }
        let event = epoll_event { events, u64: data };
        ready::epoll_control(set, libc::EPOLL_CTL_MOD, fd, event).is_ok()
    }

    /// Marks a slot with bytes that no sender marks, and wakes the sleepers.
    pub(super) fn note_arrival(&self, set: RawFd, slot: usize, socket: Socket) {
        if socket.has_unsignalled() != Some(false) {
            self.mark(slot);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                self.wake_self(set);
            }
        }
    }

    /// Makes the set readable where it has unsignalled bytes: another wait concerns the set itself.
    pub(super) fn make_readable(&self, set: RawFd) {
        let has_bytes = |slot: usize| {
            notes::has(self.fd(slot), WAS_ARMED)
                && matches!(self.report(slot), Report::Bytes { .. })
        };
        if self.self_wake.load(Ordering::SeqCst) == 0 && (0..self.top()).any(has_bytes) {
            self.wake_self(set);
        }
    }

    /// The data of the eventfd that wakes the sleepers: an address of the library, which no program
    /// uses.
    pub(super) fn self_wake_data(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// Adds a readable eventfd to the set, which wakes its sleepers.
    fn wake_self(&self, set: RawFd) {
        let Ok(eventfd) = ready::readable_eventfd() else { return };
        let claim =
            self.self_wake.compare_exchange(0, eventfd, Ordering::SeqCst, Ordering::Relaxed);
        if claim.is_err() {
            ready::close_eventfd(eventfd);
            return;
        }
        let _ = ready::add_eventfd(set, eventfd, self.self_wake_data());
    }

    /// Takes the eventfd away, by a woken thread.
    pub(super) fn end_self_wake(&self) {
        let eventfd = self.self_wake.swap(0, Ordering::SeqCst);
        if eventfd != 0 {
            ready::close_eventfd(eventfd);
        }
    }

    /// A thread begins to wait. With two of them a mark would wake one, and a wakeup byte the
    /// other, for one arrival.
    pub(super) fn begin_wait(&self) {
        if self.waiters.fetch_add(1, Ordering::SeqCst) > 0 {
            self.disable();
        }
    }

    /// A thread ends its wait.
    pub(super) fn end_wait(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts a thread that is about to sleep, which must read the marks once more. The poller that
    /// counts the thread.
    pub(super) fn begin_sleep(&self) -> Option<ArmedPoller> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // Another thread may have opened the poller meanwhile: pairs with `open_poller`.
        let poller = self.poller();
        if let Some(poller) = poller {
            poller.begin_sleep();
        }
        poller
    }

    /// Counts the thread as awake again.
    pub(super) fn end_sleep(&self, counted: Option<ArmedPoller>) {
        if let Some(poller) = counted {
            poller.end_sleep();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Marks a slot.
    pub(super) fn mark(&self, slot: usize) {
        self.marks[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
    }

    /// Marks the slots of one word.
    pub(super) fn mark_word(&self, word: usize, marks: u64) {
        if marks != 0 {
            self.marks[word].fetch_or(marks, Ordering::SeqCst);
        }
    }

    /// Takes the marks of one word, of the set and of its poller.
    pub(super) fn take_marks(&self, word: usize, poller: Option<ArmedPoller>) -> u64 {
        let own = &self.marks[word];
        let own = if own.load(Ordering::Relaxed) == 0 { 0 } else { own.swap(0, Ordering::SeqCst) };
        own | poller.map_or(0, |poller| poller.take(word))
    }

    /// Whether any slot is marked.
    pub(super) fn has_marks(&self, poller: Option<ArmedPoller>) -> bool {
        let words = self.words();
        self.marks[..words].iter().any(|word| word.load(Ordering::SeqCst) != 0)
            || poller.is_some_and(|poller| poller.has_bits(words))
    }

    /// Words of marks that may have bits.
    pub(super) fn words(&self) -> usize {
        self.top().div_ceil(64)
    }

    /// The answer of a slot.
    pub(super) fn report(&self, slot: usize) -> Report {
        let Some(cells) = self.slots.get(slot) else { return Report::Nothing };
        let fd = cells.fd.load(Ordering::Acquire) - 1;
        let events = cells.events.load(Ordering::Acquire);
        let data = cells.data.load(Ordering::Acquire);
        if fd < 0 {
            return Report::Nothing;
        }
        if events == CHANGING || cells.events.load(Ordering::Acquire) != events {
            return Report::Later;
        }
        if events & READABLE == 0 {
            return Report::Nothing;
        }
        let Some(socket) = descriptors::socket(fd) else { return Report::Nothing };
        // Each mark of a sender is an edge. Otherwise the kernel reports bytes with a wakeup byte.
        let is_edge = events & EDGE != 0 && self.disabled.load(Ordering::SeqCst) == 0;
        match if is_edge { Some(socket.has_bytes()) } else { socket.has_unsignalled() } {
            Some(true) => Report::Bytes { socket, events, data },
            Some(false) => Report::Nothing,
            None => Report::Later,
        }
    }

    /// Sockets of the set that are not armed, where there are few enough to poll them.
    fn unarmed(&self) -> impl Iterator<Item = Socket> {
        let top = self.top();
        let polled = if top <= POLLED_MAX { top } else { 0 };
        (0..polled).filter_map(|slot| self.socket(slot)).filter(|socket| !socket.is_armed())
    }

    /// Whether a socket that is not armed has bytes: its wakeup byte is on its way.
    pub(super) fn unarmed_have_bytes(&self) -> bool {
        self.unarmed().any(|socket| socket.has_bytes())
    }

    /// Whether there are sockets that are not armed.
    pub(super) fn has_unarmed(&self) -> bool {
        self.unarmed().next().is_some()
    }

    /// Whether the set watches a socket of ours.
    pub(super) fn has_sockets(&self) -> bool {
        (0..self.top()).any(|slot| self.socket(slot).is_some())
    }
}
