//! All epoll sets of this process, and the slots of a descriptor in them.

use super::children;
use super::set::Set;
use super::slots::SLOTS;
use crate::connection::socket::Socket;
use crate::memory::lock::{Deadline, LONG_NS};
use crate::process::descriptors::{self, Entry};
use crate::process::notes::{self, NEEDS_WAKEUPS, SHARED, WAS_ARMED};
use crate::process::policy;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::os::fd::RawFd;

/// Sets of a process at most; sets beyond are the kernel's alone.
const SETS_MAX: usize = 128;
/// Whether the process ever had more sets. Any socket may be in one of them: no set arms sockets.
static ANY_BEYOND: AtomicBool = AtomicBool::new(false);

static SETS: [Set; SETS_MAX] = [const { Set::new() }; SETS_MAX];
/// One more than the highest set that was ever used: a look at a further one takes a page.
static TOP: AtomicUsize = AtomicUsize::new(0);

fn used() -> impl Iterator<Item = (usize, &'static Set)> {
    let top = TOP.load(Ordering::Acquire);
    SETS.iter().take(top).enumerate().filter(|(_number, set)| set.is_used())
}

/// The entry of a new epoll set.
#[must_use]
pub fn open() -> Entry {
    let Some((number, set)) = SETS.iter().enumerate().find(|(_number, set)| set.claim()) else {
        ANY_BEYOND.store(true, Ordering::SeqCst);
        used().for_each(|(_number, set)| set.disable());
        return Entry::Plain;
    };
    TOP.fetch_max(number + 1, Ordering::AcqRel);
    // Pairs with the store above, which comes before the look at all used sets.
    if ANY_BEYOND.load(Ordering::SeqCst) {
        set.disable();
    }
    Entry::EpollSet(number)
}

/// The set of a number.
#[must_use]
pub fn get(number: usize) -> Option<&'static Set> {
    SETS.get(number)
}

/// The set of a descriptor, and its number.
#[must_use]
pub fn of(fd: RawFd) -> Option<(usize, &'static Set)> {
    let Entry::EpollSet(number) = descriptors::get(fd) else { return None };
    Some((number, get(number)?))
}

/// One more descriptor refers to a set.
pub fn add_descriptor(number: usize) {
    if let Some(set) = get(number) {
        set.add_descriptor();
    }
}

/// A descriptor of a set is closed.
pub fn remove_descriptor(number: usize) {
    if let Some(set) = get(number) {
        set.remove_descriptor(number);
    }
}

/// The noted slot of a descriptor.
fn noted_slot(fd: RawFd) -> Option<(usize, &'static Set, usize)> {
    let (number, slot) = notes::slot(fd)?;
    let set = get(number)?;
    (slot < SLOTS && set.fd(slot) == fd).then_some((number, set, slot))
}

/// The slot of a descriptor in a set.
pub(super) fn slot_in(number: usize, set: &Set, fd: RawFd) -> Option<usize> {
    match noted_slot(fd) {
        Some((of, _set, slot)) if of == number => Some(slot),
        // Several sets watch the descriptor, or watched it.
        _ if notes::has(fd, NEEDS_WAKEUPS) => (0..set.top()).find(|slot| set.fd(*slot) == fd),
        _ => None,
    }
}

/// Gives a descriptor a slot in a set that has none for it.
pub(super) fn add_slot(number: usize, set: &Set, fd: RawFd) -> Option<usize> {
    if let Some((old_number, old, slot)) = noted_slot(fd) {
        if old.is_watched(slot) {
            // Two sets watch the socket.
            need_wakeups(fd);
        } else {
            old.leave(old_number, slot);
        }
    }
    let slot = set.take_slot(fd)?;
    notes::set_slot(fd, number, slot);
    Some(slot)
}

/// Another wait concerns a set itself: all of its sockets need wakeup bytes, and the set becomes
/// readable where bytes have none.
pub fn wait_concerns_set(number: usize, fd: RawFd) {
    if let Some(set) = get(number) {
        set.disable();
        set.make_readable(fd);
    }
}

/// A descriptor turned out to be a socket. `is_new` says that the program made it just now.
pub fn note_found(socket: Socket, is_new: bool) {
    if !is_new {
        notes::add(socket.fd(), NEEDS_WAKEUPS | WAS_ARMED);
    }
    if let Some((_number, set, slot)) = noted_slot(socket.fd()) {
        set.arm(slot, socket);
    }
}

/// A descriptor is closed, or stands for something else from now on.
///
/// An epoll set watches the socket and not its number: where `successor` stands for the same
/// socket, the set goes on reporting it.
pub fn forget(fd: RawFd, successor: Option<RawFd>) {
    let before = notes::get(fd);
    if before == 0 {
        return;
    }
    let forget_in = |number: usize, set: &Set| {
        if let Some(slot) = slot_in(number, set, fd) {
            match successor {
                Some(successor) if set.is_watched(slot) => set.pass_slot(slot, successor),
                _ => set.leave(number, slot),
            }
        }
    };
    if before & NEEDS_WAKEUPS != 0 {
        used().for_each(|(number, set)| forget_in(number, set));
    } else if let Some((number, set, _slot)) = noted_slot(fd) {
        forget_in(number, set);
    }
    notes::clear(fd);
}

/// A new number for a socket: the program may wait with either.
pub fn note_duplicate(to: RawFd) {
    notes::add(to, NEEDS_WAKEUPS | WAS_ARMED);
}

/// Another wait, or another process, concerns a socket: its bytes need wakeup bytes from now on.
pub fn need_wakeups(fd: RawFd) {
    need_wakeups_until(fd, Deadline::after(LONG_NS));
}

/// The same of several sockets: all waits for their locks end together.
fn need_wakeups_until(fd: RawFd, until: Deadline) {
    if notes::add(fd, NEEDS_WAKEUPS).is_none_or(|before| before & WAS_ARMED == 0) {
        return;
    }
    match noted_slot(fd) {
        Some((_number, set, slot)) => set.disarm(slot, until),
        None => {
            if let Some(socket) = descriptors::socket(fd) {
                socket.disarm(until);
            }
        }
    }
}

/// Arms all sockets again after the last child by fork has ended.
pub(super) fn rearm_after_children() {
    if children::have_ended() {
        for (_number, set) in used() {
            set.set_shared(false);
            set.arm_all();
        }
    }
}

/// Before this process limits its system calls: each set keeps the marks of senders itself, where a
/// child by fork finds them, too.
pub fn keep_all_marks() {
    used().for_each(|(_number, set)| set.release_poller(Deadline::after(LONG_NS)));
}

/// Whether a wait for the sockets of a set would report bytes that the kernel does not know.
#[must_use]
pub fn has_left(number: usize) -> bool {
    get(number).is_some_and(Set::has_left)
}

/// Before a fork: sockets of both processes need wakeup bytes.
pub fn before_fork() {
    children::pass_on();
    if used().next().is_some() {
        children::prepare();
    }
    let until = Deadline::after(LONG_NS);
    used().for_each(|(_number, set)| set.disarm_all(until));
}

/// After a fork: in the child for ever, in the parent until the child has ended. `child` is 0 in
/// the child.
pub fn after_fork(child: i32) {
    if child < 0 || !policy::is_on() {
        return;
    }
    let flags = if child == 0 { NEEDS_WAKEUPS } else { SHARED };
    for fd in 0..descriptors::top() {
        let entry = descriptors::get(fd);
        if matches!(entry, Entry::Socket(_) | Entry::New { .. } | Entry::Unknown) {
            notes::add(fd, flags);
        }
    }
    used().for_each(|(_number, set)| set.set_shared(true));
    if child > 0 {
        // Another thread may have armed sockets meanwhile.
        let until = Deadline::after(LONG_NS);
        used().for_each(|(_number, set)| set.disarm_all(until));
        children::remember(child);
    } else {
        used().for_each(|(_number, set)| set.forget_parents());
        children::begin();
    }
}

/// Before an exec: the sockets that the next program inherits need wakeup bytes. `is_inherited`
/// says which descriptors survive.
pub fn before_exec(is_inherited: impl Fn(RawFd) -> bool) {
    children::pass_on();
    let until = Deadline::after(LONG_NS);
    for socket in descriptors::sockets() {
        if socket.is_armed() && is_inherited(socket.fd()) {
            need_wakeups_until(socket.fd(), until);
        }
    }
}
