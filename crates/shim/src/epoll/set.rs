//! An epoll set of this process: its slots, its marks, its armed poller and its sleepers.
//!
//! ```text
//!   slot     one watched socket: descriptor, events and data as epoll_ctl gave them
//!   mark     a slot to report: marked here by this process, or in the armed poller by a sender
//! ```
//!
//! The kernel's answer is always right. The set adds the bytes of rings to it. Where a set misses a
//! socket, senders send wakeup bytes.

use super::marks::Marks;
use super::own_poller::OwnPoller;
use super::self_wake::SelfWake;
use super::slot::{Slot, Watched};
use super::slots::Slots;
use crate::connection::armed_poller::{ArmedPoller, BIT_WORDS};
use crate::connection::socket::Socket;
use crate::kernel::ready;
use crate::memory::lock::{Deadline, LONG_NS};
use crate::process::notes::{self, NEEDS_WAKEUPS, SHARED, WAS_ARMED};
use crate::process::{descriptors, limits};
use crate::spin::WaitSpin;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use libc::epoll_event;
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

pub(super) const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
/// A slot with these is never armed.
const NEVER_ARMED: u32 = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE).cast_unsigned();

/// An epoll set of this process.
#[derive(Debug)]
pub struct Set {
    /// Descriptors of the set; 0 is a free set.
    descriptors: AtomicU32,
    poller: OwnPoller,
    /// Raised when the last descriptor of the set is closed: each program's set has another one.
    uses: AtomicU32,
    /// Threads that sleep in the set.
    sleepers: AtomicU64,
    /// Threads that wait in the set, asleep or awake.
    waiters: AtomicU64,
    /// Not 0: another process may change the set, after a fork.
    shared: AtomicU32,
    /// The eventfd that wakes the sleepers.
    self_wake: SelfWake,
    /// Whether the next wait reports rings first: the last one had no room for them.
    pub(super) rings_first: AtomicBool,
    /// The moment of the last part of a look for lost marks, and the slot with which it goes on.
    pub(super) looked_ns: AtomicU64,
    pub(super) look_next: AtomicUsize,
    /// The moment before the last look over the marks.
    pub(super) gathered_ns: AtomicU64,
    /// The record of spins.
    pub(super) spin: WaitSpin,
    marks: Marks,
    slots: Slots,
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

/// Fruitless waits for senders that publish, of one list. Each takes some ten microseconds, and a
/// hostile sender never ends its publish.
const PATIENCE: u32 = 8;

/// The waits for senders that one list may make.
#[derive(Debug)]
pub(super) struct Patience(Cell<u32>);

impl Patience {
    /// All of them.
    pub(super) const fn new() -> Self {
        Self(Cell::new(PATIENCE))
    }

    fn is_left(&self) -> bool {
        self.0.get() > 0
    }

    fn use_up(&self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Calls `each` with the number of each bit.
pub(super) fn each_bit(mut bits: u64, mut each: impl FnMut(usize)) {
    while bits != 0 {
        each(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl Set {
    /// A free set: all zeros, so that a table of them takes no room in the library's file.
    pub(super) const fn new() -> Self {
        Self {
            descriptors: AtomicU32::new(0),
            uses: AtomicU32::new(0),
            poller: OwnPoller::new(),
            sleepers: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            shared: AtomicU32::new(0),
            self_wake: SelfWake::new(),
            rings_first: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
            look_next: AtomicUsize::new(0),
            gathered_ns: AtomicU64::new(0),
            spin: WaitSpin::new(),
            marks: Marks::new(),
            slots: Slots::new(),
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
        self.slots.clear();
        self.sleepers.store(0, Ordering::Relaxed);
        self.waiters.store(0, Ordering::Relaxed);
        self.shared.store(0, Ordering::Relaxed);
        self.look_next.store(0, Ordering::Relaxed);
        self.self_wake.clear();
        self.poller.clear();
        self.marks.clear();
    }

    /// Counts one more descriptor of the set.
    pub(super) fn add_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one descriptor less; frees the set with the last.
    pub(super) fn remove_descriptor(&self, number: usize) {
        if self.descriptors.load(Ordering::Acquire) == 1 {
            self.uses.fetch_add(1, Ordering::AcqRel);
            // Nobody waits in the set again.
            self.release_poller(Deadline::PASSED);
            (0..self.top()).for_each(|slot| self.leave(number, slot));
            self.end_self_wake();
            self.slots.clear();
        }
        let less = |descriptors: u32| descriptors.checked_sub(1);
        let _ = self.descriptors.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// Whether a descriptor refers to the set.
    pub(super) fn is_used(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) > 0
    }

    /// The number of the use of this set: the program of a wait may close the set meanwhile.
    pub(super) fn use_number(&self) -> u32 {
        self.uses.load(Ordering::Acquire)
    }

    /// Slots that may be in use.
    pub(super) fn top(&self) -> usize {
        self.slots.top()
    }

    /// Whether the set watches no socket of ours.
    pub(super) fn is_empty(&self) -> bool {
        self.top() == 0
    }

    /// The descriptor of a slot; -1 for a free slot.
    pub(super) fn fd(&self, slot: usize) -> RawFd {
        self.slots.get(slot).map_or(-1, Slot::fd)
    }

    /// The socket of a slot.
    pub(super) fn socket(&self, slot: usize) -> Option<Socket> {
        descriptors::socket(self.fd(slot))
    }

    /// Takes a free slot for a descriptor.
    pub(super) fn take_slot(&self, fd: RawFd) -> Option<usize> {
        self.slots.take(fd)
    }

    /// The slot of a closed descriptor serves its successor, which stands for the same socket.
    pub(super) fn pass_slot(&self, slot: usize, successor: RawFd) {
        if let Some(slot) = self.slots.get(slot) {
            slot.pass(successor);
        }
    }

    /// Frees a slot.
    pub(super) fn leave(&self, number: usize, slot: usize) {
        let fd = self.fd(slot);
        if fd < 0 {
            return;
        }
        self.disarm(slot, Deadline::after(LONG_NS));
        self.slots.leave(slot);
        notes::remove_slot(fd, number);
    }

    /// Stores the event of epoll_ctl.
    pub(super) fn change(&self, slot: usize, event: epoll_event) {
        if let Some(slot) = self.slots.get(slot) {
            slot.change(event);
        }
    }

    /// The program removed the socket of a slot.
    pub(super) fn unwatch(&self, slot: usize) {
        if let Some(slot) = self.slots.get(slot) {
            slot.unwatch();
        }
    }

    /// Whether the program has the socket of a slot in the set.
    pub(super) fn is_watched(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(Slot::is_watched)
    }

    /// The armed poller, where this process owns it.
    pub(super) fn poller(&self) -> Option<ArmedPoller> {
        self.poller.get()
    }

    /// Gives the poller and the eventfd up in a child by fork: they are the parent's.
    pub(super) fn forget_parents(&self) {
        self.poller.forget_parents();
        self.self_wake.forget_parents();
    }

    /// Whether the set may never have a poller.
    pub(super) fn is_disabled(&self) -> bool {
        self.poller.is_disabled()
    }

    /// Opens an armed poller, unless there is one or a thread sleeps without one.
    pub(super) fn open_poller(&self) {
        if self.poller.open(&self.sleepers) {
            self.arm_all();
        }
    }

    /// Closes the armed poller. Marks of senders stay as marks of the set.
    pub(super) fn release_poller(&self, until: Deadline) {
        self.disarm_all(until);
        if let Some(poller) = self.poller.remove() {
            for word in 0..BIT_WORDS {
                each_bit(poller.take(word), |bit| self.keep_arrival(word * 64 + bit));
            }
            poller.close();
        }
    }

    /// Disables the poller for good: other threads or waits concern the set.
    pub(super) fn disable(&self) {
        if self.poller.disable() {
            self.release_poller(Deadline::after(LONG_NS));
        }
    }

    /// Arms the socket of a slot, where that is allowed; otherwise disarms it.
    pub(super) fn arm(&self, slot: usize, socket: Socket) {
        let fd = self.fd(slot);
        let events = self.slots.get(slot).map_or(0, Slot::events);
        let may_arm = !notes::has(fd, NEEDS_WAKEUPS | SHARED) && events & NEVER_ARMED == 0;
        match self.poller().filter(|_poller| may_arm) {
            Some(poller) => {
                if !notes::has(fd, WAS_ARMED) {
                    notes::add(fd, WAS_ARMED);
                }
                socket.arm(poller, slot);
            }
            None => self.disarm(slot, Deadline::after(LONG_NS)),
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

    /// Disarms the socket of a slot; marks the slot where unsignalled bytes may lie in the ring.
    pub(super) fn disarm(&self, slot: usize, until: Deadline) {
        if let Some(socket) = self.socket(slot)
            && socket.disarm(until)
            && socket.has_unsignalled_at_once() != Some(false)
        {
            self.keep_stamped(slot, socket);
        }
    }

    /// Disarms all sockets of the set. All waits for their locks end together.
    pub(super) fn disarm_all(&self, until: Deadline) {
        (0..self.top()).for_each(|slot| self.disarm(slot, until));
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
            self.keep_stamped(slot, socket);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                self.wake_self(set);
            }
        }
    }

    /// Makes the set readable where it has unsignalled bytes: another wait concerns the set itself.
    pub(super) fn make_readable(&self, set: RawFd) {
        let patience = Patience::new();
        let has_bytes = |slot: usize| {
            notes::has(self.fd(slot), WAS_ARMED)
                && matches!(self.report(slot, &patience), Report::Bytes { .. })
        };
        if !self.self_wake.is_on() && (0..self.top()).any(has_bytes) {
            self.wake_self(set);
        }
    }

    /// Whether any socket of the set has bytes to report that the kernel does not know.
    pub(super) fn has_left(&self) -> bool {
        let patience = Patience::new();
        (0..self.top()).any(|slot| matches!(self.report(slot, &patience), Report::Bytes { .. }))
    }

    /// The data of the eventfd that wakes the sleepers: an address of the library, which no program
    /// uses.
    pub(super) fn self_wake_data(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// Adds a readable eventfd to the set, which wakes its sleepers. A process that has limited its
    /// system calls may make none.
    fn wake_self(&self, set: RawFd) {
        if !limits::are_on() {
            self.self_wake.begin(set, self.self_wake_data());
        }
    }

    /// Takes the eventfd away, by a woken thread.
    pub(super) fn end_self_wake(&self) {
        self.self_wake.end();
    }

    /// A thread begins to wait. With two of them a mark would wake one, and a wakeup byte the
    /// other, for one arrival.
    pub(super) fn begin_wait(&self) {
        if self.waiters.fetch_add(1, Ordering::SeqCst) > 0 {
            self.disable();
        }
    }

    /// A thread ends its wait, which began in this use of the set.
    pub(super) fn end_wait(&self, use_number: u32) {
        self.count_less(&self.waiters, use_number);
    }

    /// Counts a thread less, unless the set has another use by now.
    fn count_less(&self, threads: &AtomicU64, use_number: u32) {
        if self.use_number() == use_number {
            let less = |threads: u64| threads.checked_sub(1);
            let _ = threads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        }
    }

    /// Counts a thread that is about to sleep, which must read the marks once more. The poller that
    /// counts the thread.
    pub(super) fn begin_sleep(&self) -> Option<ArmedPoller> {
        let poller = self.poller.enter_sleep(&self.sleepers);
        if let Some(poller) = poller {
            poller.begin_sleep();
        }
        poller
    }

    /// Counts the thread as awake again, whose sleep began in this use of the set.
    pub(super) fn end_sleep(&self, counted: Option<ArmedPoller>, use_number: u32) {
        if let Some(poller) = counted {
            poller.end_sleep();
        }
        self.count_less(&self.sleepers, use_number);
    }

    /// Marks a slot, as of a moment.
    pub(super) fn keep(&self, slot: usize, at_ns: u64) {
        if let Some(kept) = self.slots.get(slot) {
            kept.set_marked_at_ns(at_ns);
            self.marks.add(slot);
        }
    }

    /// Marks a slot as of the moment that its sender noted.
    pub(super) fn keep_stamped(&self, slot: usize, socket: Socket) {
        self.keep(slot, self.within(socket.marked_at_ns(), monotonic_ns()));
    }

    /// Marks a slot whose bit of a sender was taken, as of the moment of that bit.
    fn keep_arrival(&self, slot: usize) {
        self.keep(slot, self.within(self.stamp(slot), monotonic_ns()));
    }

    /// Notes the moment of a mark.
    pub(super) fn note_moment(&self, slot: usize, at_ns: u64) {
        if let Some(slot) = self.slots.get(slot) {
            slot.set_marked_at_ns(at_ns);
        }
    }

    /// A sender's moment of a mark that is seen first now. The last look over the marks did not
    /// find the mark, so a hostile sender gets no earlier moment than that look.
    pub(super) fn within(&self, stamp_ns: u64, now_ns: u64) -> u64 {
        stamp_ns.max(self.gathered_ns.load(Ordering::Relaxed)).min(now_ns)
    }

    /// Notes that a wait reports an edge of a slot.
    pub(super) fn note_edge(&self, slot: usize, socket: Socket) {
        if let Some(slot) = self.slots.get(slot) {
            slot.set_reported_tail(socket.tail());
        }
    }

    /// Whether a wait has reported the last bytes of an edge-triggered slot.
    pub(super) fn is_reported_edge(&self, slot: usize, socket: Socket) -> bool {
        let is_reported =
            |slot: &Slot| slot.events() & EDGE != 0 && slot.reported_tail() == socket.tail();
        self.slots.get(slot).is_some_and(is_reported)
    }

    /// The slot of a number.
    pub(super) fn slot(&self, slot: usize) -> Option<&Slot> {
        self.slots.get(slot)
    }

    /// The moment at which a sender last marked a slot, as it says.
    pub(super) fn stamp(&self, slot: usize) -> u64 {
        self.socket(slot).map_or(0, |socket| socket.marked_at_ns())
    }

    /// Takes the marks of this process of one word.
    pub(super) fn take_own_marks(&self, word: usize) -> u64 {
        self.marks.take(word)
    }

    /// The moment of a mark of this process.
    pub(super) fn own_moment(&self, slot: usize) -> u64 {
        self.slots.get(slot).map_or(0, Slot::marked_at_ns)
    }

    /// Whether any slot is marked.
    pub(super) fn has_marks(&self, poller: Option<ArmedPoller>) -> bool {
        let words = self.words();
        self.marks.any(words) || poller.is_some_and(|poller| poller.has_bits(words))
    }

    /// Words of marks that may have bits.
    pub(super) fn words(&self) -> usize {
        self.top().div_ceil(64)
    }

    /// The answer of a slot. Waits for a sender that publishes at this moment, within the patience;
    /// not in a process that has limited its system calls, since the wait yields.
    pub(super) fn report(&self, slot: usize, patience: &Patience) -> Report {
        let Some(slot) = self.slots.get(slot) else { return Report::Nothing };
        let Some(Watched { fd, events, data }) = slot.read() else { return Report::Later };
        if fd < 0 || events & READABLE == 0 {
            return Report::Nothing;
        }
        let Some(socket) = descriptors::socket(fd) else { return Report::Nothing };
        // Each mark of a sender is an edge. Otherwise the kernel reports bytes with a wakeup byte.
        let is_edge = events & EDGE != 0 && !self.poller.is_disabled_now();
        let has_bytes = if is_edge {
            Some(socket.has_bytes())
        } else if patience.is_left() && !limits::are_on() {
            socket.has_unsignalled()
        } else {
            socket.has_unsignalled_at_once()
        };
        match has_bytes {
            Some(true) => Report::Bytes { socket, events, data },
            Some(false) => Report::Nothing,
            None => {
                patience.use_up();
                Report::Later
            }
        }
    }

    /// Whether the set watches a socket of ours.
    pub(super) fn has_sockets(&self) -> bool {
        (0..self.top()).any(|slot| self.socket(slot).is_some())
    }
}
