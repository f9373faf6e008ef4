//! fork, vfork, exec and spawn.
//!
//! A child by fork has a copy of the descriptor table and shares the mapped pairs. The child of a
//! vfork has its parent's memory but its own descriptors: it writes no entry. A program after an
//! exec finds its sockets by asking the kernel, if it loads this library. If it cannot, the sockets
//! that it inherits return to the kernel first.

pub mod environment;
pub mod target;

use crate::epoll::sets;
use crate::kernel::file::is_close_on_exec;
use crate::pin::PinReason;
use crate::process::descriptors::{self, EXAMINED_MAX, Entry};
use crate::process::{forks, policy, vfork};
use crate::sockets;
use std::os::fd::RawFd;

/// Whether the program after an exec has a descriptor.
pub(crate) fn is_inherited(fd: RawFd) -> bool {
    is_close_on_exec(fd) == Some(false)
}

/// Before a fork.
pub fn before_fork() {
    forks::note();
    if policy::is_on() {
        sets::before_fork();
    }
}

/// After a fork; `child` is 0 in the child.
pub fn after_fork(child: i32) {
    if child == 0 {
        // The child of a child of a vfork has memory of its own.
        vfork::leave();
    }
    if policy::is_on() {
        sets::after_fork(child);
    }
}

/// Before an exec or a spawn; `loads` says whether the next program loads this library.
pub fn before_exec(loads: impl FnOnce() -> bool) {
    forks::note();
    // A child of a vfork that has limited its system calls returned its sockets before.
    if !policy::is_on() || vfork::is_limited_child() {
        return;
    }
    sets::before_exec(is_inherited);
    if !loads() {
        give_up_inherited();
    } else {
        give_up_lost();
    }
}

/// Returns the sockets to the kernel whose pairs the next program may not open: this process joined
/// them with rights that it has given up since. Marks the sockets that this process pinned before
/// they had a pair, since it may go on beside the next program.
fn give_up_lost() {
    let pinned = (0..descriptors::top()).filter(|fd| descriptors::get(*fd) == Entry::Pinned);
    pinned.filter(|fd| is_inherited(*fd)).for_each(sockets::mark);
    for socket in descriptors::sockets() {
        if !socket.may_be_found_again() && is_inherited(socket.fd()) {
            socket.pin_or_shut_down(PinReason::Exec);
        }
    }
}

/// Returns the sockets to the kernel that a program without this library inherits. That program
/// runs beside this process and others with the same sockets.
fn give_up_inherited() {
    let in_child = vfork::in_child();
    for fd in 0..descriptors::top().max(EXAMINED_MAX) {
        let may_be_socket = match descriptors::get(fd) {
            Entry::Unknown => fd < EXAMINED_MAX,
            // The child of a vfork may have other descriptors than its parent's table says.
            Entry::Plain | Entry::File => in_child && fd < EXAMINED_MAX,
            Entry::EpollSet(_) => in_child,
            _ => true,
        };
        if may_be_socket && is_inherited(fd) {
            sockets::give_up(fd, PinReason::Exec);
        }
    }
}

/// A spawn will duplicate a socket for its program. Whether that program loads this library is not
/// known yet.
pub fn duplicated_in_spawn(fd: RawFd) {
    if policy::is_on() && !is_plain(fd) {
        sockets::give_up(fd, PinReason::Exec);
    }
}

fn is_plain(fd: RawFd) -> bool {
    matches!(descriptors::get(fd), Entry::Plain | Entry::File | Entry::EpollSet(_))
}
