//! `epoll_wait`: the kernel reports what is ready, and rings report bytes without a wakeup byte.
//! Before the wait sleeps, it asks both.
//!
//! A wait holds signals back while it spins. They arrive in the real wait, which sleeps with the
//! mask of before. So no handler runs unseen between spin and sleep.

use super::control;
use super::due::Due;
use super::lost::Look;
use super::set::{Patience, Report, Set};
use super::sets;
pub use super::sleep_parts::Sleep;
use super::sleep_parts::SleepParts;
use crate::connection::seen_ends::{self, END_EVENTS};
use crate::connection::socket::Socket;
use crate::connection::socket_state::any_joined;
use crate::event_list::EventList;
use crate::kernel::{Errno, ready};
use crate::outcome::{Found, found_now};
use crate::process::{limits, policy};
use crate::signals::{self, HeldSignals};
use core::sync::atomic::Ordering;
use libc::{epoll_event, sigset_t};
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

/// Marks without anything to report, after which the wait sleeps all the same, for a short time:
/// see [`SleepParts`].
const FRUITLESS_MAX: u32 = 64;
/// After a poll found bytes, their wakeup byte is a moment away: the wait asks the kernel
/// meanwhile.
pub const WAKEUP_NS: u64 = 30_000;

const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM).cast_unsigned();
const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
const ONESHOT: u32 = libc::EPOLLONESHOT.cast_unsigned();

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// So many events.
    Ready(usize),
    /// The wait failed with this error number.
    Failed(Errno),
    /// The real wait returned this, and set `errno` where it failed.
    Real(i32),
}

/// One wait on an epoll set of ours.
#[derive(Debug)]
pub struct EpollWait<'a> {
    set: &'static Set,
    /// The use of the set that the wait began in.
    use_number: u32,
    fd: RawFd,
    list: EventList<'a>,
    limit_ns: Option<u64>,
}

/// The set of a wait, where the kernel may not know all of it.
#[must_use]
pub fn set_of_wait(fd: RawFd) -> Option<&'static Set> {
    let set = control::waited_on(fd)?;
    (!limits::are_on() || set.has_marks(set.poller())).then_some(set)
}

impl<'a> EpollWait<'a> {
    /// A wait with room for events; `limit_ns` is its timeout.
    #[must_use]
    pub fn new(set: &'static Set, fd: RawFd, list: EventList<'a>, limit_ns: Option<u64>) -> Self {
        let may_open = any_joined() && !set.is_empty() && !set.is_disabled();
        if may_open && policy::is_on() && policy::spin_ns() > 0 {
            sets::rearm_after_children();
            set.open_poller();
        }
        Self { set, use_number: set.use_number(), fd, list, limit_ns }
    }

    /// Waits. `real` makes a real wait into the list, with this timeout and the mask of before.
    pub fn wait(
        mut self,
        mut real: impl FnMut(&mut EventList<'a>, Sleep, Option<&sigset_t>) -> i32,
    ) -> Waited {
        if limits::are_on() {
            return self.wait_limited(real);
        }
        self.set.begin_wait();
        let waited = self.wait_counted(&mut real);
        self.set.end_wait(self.use_number);
        const ENDS: u32 = END_EVENTS.cast_unsigned() as u32;
        if any_joined() && self.list.since(0).iter().any(|event| event.events & ENDS != 0) {
            seen_ends::note();
        }
        waited
    }

    /// Waits in a process that has limited its system calls: with no other call than the program's.
    fn wait_limited(
        mut self,
        mut real: impl FnMut(&mut EventList<'a>, Sleep, Option<&sigset_t>) -> i32,
    ) -> Waited {
        let due = Due::take(self.set, self.set.poller());
        if due.as_ref().is_none_or(|due| due.slots().next().is_none()) {
            return Waited::Real(real(&mut self.list, Sleep::AsGiven, None));
        }
        // The kernel's events and those of rings take turns in filling the list, as in `gather`.
        let rings_first = self.set.rings_first.swap(false, Ordering::Relaxed);
        let mut ask = |list: &mut EventList<'a>| match list.is_full() {
            true => Found::None,
            false => found_now(real(list, Sleep::Now, None)),
        };
        let mut asked = Found::None;
        if rings_first {
            self.report_rings(due.as_ref());
        } else {
            asked = ask(&mut self.list);
        }
        let first = self.list.len();
        if rings_first {
            asked = ask(&mut self.list);
        } else {
            self.report_rings(due.as_ref());
            if first > 0 && self.list.len() == first {
                self.set.rings_first.store(self.list.is_full(), Ordering::Relaxed);
            }
        }
        self.list.merge(first);
        match (self.list.is_empty(), asked) {
            (false, _) => Waited::Ready(self.list.len()),
            (true, Found::Failed) => Waited::Real(-1),
            // The bytes that the marks told of have been read.
            (true, _) => Waited::Real(real(&mut self.list, Sleep::AsGiven, None)),
        }
    }

    fn wait_counted(
        &mut self,
        real: &mut impl FnMut(&mut EventList<'a>, Sleep, Option<&sigset_t>) -> i32,
    ) -> Waited {
        if self.set.is_empty() || !any_joined() {
            return self.sleep(&mut HeldSignals::none(), real);
        }
        self.set.look_now_and_then(monotonic_ns());
        let spins = self.limit_ns != Some(0)
            && policy::spin_ns() > 0
            && self.set.has_sockets()
            && self.set.spin.pays();
        if !spins && !self.set.has_marks(self.set.poller()) {
            // The program's own call asks the kernel, too.
            return self.sleep(&mut HeldSignals::none(), real);
        }
        match self.gather() {
            Ok(()) if self.list.is_empty() && self.limit_ns != Some(0) => {}
            Ok(()) => return Waited::Ready(self.list.len()),
            Err(errno) => return Waited::Failed(errno),
        }
        let mut held = HeldSignals::none();
        if spins {
            held = signals::hold();
            self.spin();
        }
        if !self.list.is_empty() {
            return Waited::Ready(self.list.len());
        }
        self.sleep(&mut held, real)
    }

    /// Gathers all events that rings and the kernel have now.
    fn gather(&mut self) -> Result<(), Errno> {
        self.list.clear();
        if self.set.rings_first.swap(false, Ordering::Relaxed) {
            let due = Due::take(self.set, self.set.poller());
            self.report_rings(due.as_ref());
            let first = self.list.len();
            if !self.list.is_full() && self.ask_kernel().is_ok() {
                self.list.merge(first);
            }
            return Ok(());
        }
        self.gather_more()
    }

    /// Adds events to those of the list: the kernel's, and behind them those of rings.
    ///
    /// The marks are taken first. What was sent before a mark in another way is in the kernel then.
    /// What is sent after it comes behind its wakeup byte in the kernel, see
    /// [`crate::connection::unannounced`].
    fn gather_more(&mut self) -> Result<(), Errno> {
        let (set, known) = (self.set, self.list.len());
        let poller = set.poller();
        if let Some(poller) = poller {
            poller.count_gather();
        }
        let due = Due::take(set, poller);
        let asked = if self.list.is_full() { Ok(()) } else { self.ask_kernel() };
        if let Some(poller) = poller {
            poller.count_gather();
        }
        self.list.merge(known);
        let first = self.list.len();
        self.report_rings(due.as_ref());
        let has_due = due.as_ref().is_some_and(|due| due.slots().next().is_some());
        if first > 0 && self.list.len() == first && has_due {
            set.rings_first.store(self.list.is_full(), Ordering::Relaxed);
        }
        self.list.merge(first);
        if self.list.is_empty() { asked } else { Ok(()) }
    }

    fn ask_kernel(&mut self) -> Result<(), Errno> {
        if limits::are_on() {
            return Ok(());
        }
        let first = self.list.len();
        ready::epoll_now(self.fd, &mut self.list)?;
        self.remove_self_wake(first);
        Ok(())
    }

    /// Removes the event of the eventfd that woke this thread.
    fn remove_self_wake(&mut self, first: usize) {
        if self.list.remove(first, self.set.self_wake_data()) {
            self.set.end_self_wake();
        }
    }

    /// Appends the events of rings, the oldest mark first.
    fn report_rings(&mut self, due: Option<&Due>) {
        let Some(due) = due else { return };
        for (at_ns, slot) in due.slots() {
            match self.report_slot(slot, &due.patience) {
                Mark::Gone => {}
                Mark::Stays => self.set.keep(slot, at_ns),
                // The kernel puts a level behind all others that are ready.
                Mark::Last => self.set.keep(slot, monotonic_ns()),
            }
        }
    }

    /// Appends the event of a slot; what becomes of its mark.
    fn report_slot(&mut self, slot: usize, patience: &Patience) -> Mark {
        if self.list.is_full() {
            return Mark::Stays;
        }
        let (socket, events, data) = match self.set.report(slot, patience) {
            Report::Nothing => return Mark::Gone,
            Report::Later => return Mark::Stays,
            Report::Bytes { socket, events, data } => (socket, events, data),
        };
        let is_limited = limits::are_on();
        if !is_limited && !self.set.is_in_kernel(self.fd, socket.fd(), events, data) {
            return Mark::Gone;
        }
        let ready = events & READABLE | if is_limited { 0 } else { writable(socket, events) };
        self.list.push(epoll_event { events: ready, u64: data });
        if events & ONESHOT != 0 && !is_limited {
            self.disarm_oneshot(socket.fd(), events, data);
            return Mark::Gone;
        }
        if events & EDGE != 0 {
            self.set.note_edge(slot, socket);
            return Mark::Gone;
        }
        // A level is reported until the bytes are taken.
        Mark::Last
    }

    /// Does what the kernel does after it reported an event with `EPOLLONESHOT`.
    fn disarm_oneshot(&self, fd: RawFd, events: u32, data: u64) {
        const PRIVATE: u32 = ONESHOT | EDGE | libc::EPOLLWAKEUP.cast_unsigned();
        let event = epoll_event { events: events & PRIVATE, u64: data };
        let _ = ready::epoll_control(self.fd, libc::EPOLL_CTL_MOD, fd, event);
    }

    /// Spins, and gathers what arrived.
    fn spin(&mut self) {
        let set = self.set;
        let polls_unarmed = set.has_unarmed();
        let arrived = || set.has_marks(set.poller()) || polls_unarmed && set.unarmed_have_bytes();
        if !set.spin.spin(policy::spin_ns(), arrived) {
            return;
        }
        let end_ns = monotonic_ns() + WAKEUP_NS;
        while self.gather().is_ok() && self.list.is_empty() && monotonic_ns() < end_ns && arrived()
        {
        }
    }

    fn sleep(
        &mut self,
        held: &mut HeldSignals,
        real: &mut impl FnMut(&mut EventList<'a>, Sleep, Option<&sigset_t>) -> i32,
    ) -> Waited {
        let (mut fruitless, mut parts) = (0, SleepParts::new(self.set, self.limit_ns));
        loop {
            if self.is_closed() {
                return Waited::Failed(libc::EBADF);
            }
            let counted = self.set.begin_sleep();
            // From now on all bytes have wakeup bytes.
            let look = parts.look_before(self.set);
            let has_marks = self.set.has_marks(counted);
            if fruitless < FRUITLESS_MAX && has_marks {
                self.set.end_sleep(counted, self.use_number);
                fruitless += 1;
                if self.gather().is_ok() && !self.list.is_empty() {
                    return Waited::Ready(self.list.len());
                }
                continue;
            }
            self.list.clear();
            let part = parts.next(self.set, has_marks || look == Look::Unsettled);
            if part.is_cut {
                held.hold_all();
            }
            if limits::are_on() {
                self.set.end_sleep(counted, self.use_number);
                return self.sleep_limited(parts.rest(), held, real);
            }
            let got = real(&mut self.list, part.sleep, held.mask_before());
            let goes_on = got == 0 && part.is_cut;
            if goes_on && !limits::are_on() && !self.is_closed() {
                parts.look_after(self.set);
            }
            self.set.end_sleep(counted, self.use_number);
            if got < 0 || (got == 0 && !part.is_cut) {
                return Waited::Real(got);
            }
            if limits::are_on() {
                return self.sleep_limited(parts.rest(), held, real);
            }
            self.remove_self_wake(0);
            if !self.is_closed() && self.set.has_marks(self.set.poller()) {
                // The kernel has answered before these marks.
                let _ = self.gather_more();
            }
            if !self.list.is_empty() {
                return Waited::Ready(self.list.len());
            }
        }
    }

    /// The rest of a sleep whose process has limited its system calls meanwhile: marks that are
    /// there, or the program's own call, with the program's own mask.
    fn sleep_limited(
        &mut self,
        rest: Sleep,
        held: &mut HeldSignals,
        real: &mut impl FnMut(&mut EventList<'a>, Sleep, Option<&sigset_t>) -> i32,
    ) -> Waited {
        if self.list.is_empty() && !self.is_closed() {
            let due = Due::take(self.set, self.set.poller());
            self.report_rings(due.as_ref());
        }
        if self.list.is_empty() {
            // A wait with the mask of before would be another system call than the program's.
            held.release();
            return Waited::Real(real(&mut self.list, rest, None));
        }
        Waited::Ready(self.list.len())
    }

    /// Whether the program has closed the set since the wait began: the descriptor is another's,
    /// and so are the marks.
    fn is_closed(&self) -> bool {
        self.set.use_number() != self.use_number
    }
}

/// What becomes of the mark of a slot.
enum Mark {
    /// It is done.
    Gone,
    /// It stays as it is.
    Stays,
    /// It stays, behind all others.
    Last,
}

/// The writable events that a report of readable bytes adds, where the program asked for them.
fn writable(socket: Socket, events: u32) -> u32 {
    if socket.sends_in_ring() {
        return events & WRITABLE;
    }
    // The kernel reports a level by itself.
    if events & WRITABLE == 0 || events & EDGE == 0 {
        return 0;
    }
    let is_writable = ready::poll_now(socket.fd(), libc::POLLOUT) & libc::POLLOUT != 0;
    if is_writable { events & WRITABLE } else { 0 }
}
