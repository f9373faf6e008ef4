//! `epoll_ctl`: keeps what the program asks the kernel to watch.

use super::inherited;
use super::set::Set;
use super::sets;
use crate::process::descriptors::{self, Entry};
use crate::process::{forks, limits, notes, policy, vfork};
use crate::sockets;
use libc::epoll_event;
use std::os::fd::RawFd;

/// The set of a wait, also where nothing is known of the descriptor yet.
#[must_use]
pub fn waited_on(fd: RawFd) -> Option<&'static Set> {
    if descriptors::get(fd) == Entry::Unknown {
        let is_ours = policy::is_on() && !vfork::in_child();
        return if is_ours { inherited::adopt(fd) } else { None };
    }
    sets::of(fd).map(|(_number, set)| set)
}

/// The program has added, changed or (`event` is `None`) removed a descriptor of a set.
pub fn controlled(set_fd: RawFd, operation: i32, fd: RawFd, event: Option<epoll_event>) {
    const EDGE: u32 = libc::EPOLLET.cast_unsigned();
    if event.is_some_and(|event| event.events & EDGE != 0) {
        match descriptors::get(fd) {
            Entry::Socket(id) => id.state().set_edge_triggered(true),
            entry @ Entry::New { .. } => {
                descriptors::learn(fd, entry, Entry::New { edges: true });
            }
            Entry::Unknown if !vfork::in_child() => {
                notes::add(fd, notes::EDGES);
            }
            _ => {}
        }
    }
    let Some((number, set)) = sets::of(set_fd) else {
        return added_to_unknown(operation, fd);
    };
    if limits::has_left() {
        return controlled_limited(number, set, fd, event);
    }
    if let Entry::EpollSet(inner) = descriptors::get(fd) {
        if operation == libc::EPOLL_CTL_ADD {
            sets::wait_concerns_set(inner, fd);
        }
        return;
    }
    let slot = sets::slot_in(number, set, fd);
    let Some(event) = event else {
        // The slot stays, and senders go on setting its bit: any other wait comes through here,
        // too.
        if let Some(slot) = slot {
            set.unwatch(slot);
        }
        return;
    };
    // A socket that this process made needs no question to the kernel before its first data call.
    let socket = if forks::is_sole(fd) { sockets::known(fd) } else { sockets::find(fd) };
    if matches!(descriptors::get(fd), Entry::Plain | Entry::File | Entry::Pinned | Entry::Closing) {
        return;
    }
    let Some(slot) = slot.or_else(|| sets::add_slot(number, set, fd)) else {
        return sets::need_wakeups(fd);
    };
    set.change(slot, event);
    if let Some(socket) = socket {
        socket.join_known();
        set.arm(slot, socket);
        set.note_arrival(set_fd, slot, socket);
    }
}

/// The program has changed a set of which the library knows nothing: the kernel alone reports what
/// joins it.
fn added_to_unknown(operation: i32, fd: RawFd) {
    if operation != libc::EPOLL_CTL_ADD || !policy::is_on() || vfork::in_child() {
        return;
    }
    match descriptors::get(fd) {
        Entry::EpollSet(inner) => sets::wait_concerns_set(inner, fd),
        Entry::Socket(_) | Entry::New { .. } | Entry::Unknown => sets::need_wakeups(fd),
        Entry::Plain | Entry::File | Entry::Pinned | Entry::Closing => {}
    }
}

/// The same in a process that has limited its system calls: the set goes on reporting the bytes
/// that lie in rings.
fn controlled_limited(number: usize, set: &Set, fd: RawFd, event: Option<epoll_event>) {
    let slot = sets::slot_in(number, set, fd);
    let Some(event) = event else {
        if let Some(slot) = slot {
            set.unwatch(slot);
        }
        return;
    };
    let Some(socket) = sockets::known(fd) else { return };
    if let Some(slot) = slot.or_else(|| sets::add_slot(number, set, fd)) {
        set.change(slot, event);
        if socket.has_unsignalled_at_once() != Some(false) {
            set.keep_stamped(slot, socket);
        }
    }
}
