//! fork, vfork, exec and spawn.
//!
//! A child by fork has a copy of the descriptor table and shares the mapped pairs. The child of a
//! vfork has its parent's memory but its own descriptors: it writes no entry. A program after an
//! exec finds its sockets by asking the kernel, if it loads this library. If it cannot, the sockets
//! that it inherits return to the kernel first.

pub mod environment;
pub mod target;

use crate::connection::socket::Socket;
use crate::epoll::sets;
use crate::kernel::file::is_close_on_exec;
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::{policy, vfork};
use crate::sockets;
use std::os::fd::RawFd;

/// Descriptors below this are examined before a program without this library starts, also where
/// nothing is known of them.
const EXAMINED_MAX: RawFd = 1024;

fn is_inherited(fd: RawFd) -> bool {
    is_close_on_exec(fd) == Some(false)
}

/// Before a fork.
pub fn before_fork() {
    sets::before_fork();
}

/// After a fork; `child` is 0 in the child.
pub fn after_fork(child: i32) {
    if child == 0 {
        // The child of a child of a vfork has memory of its own.
        vfork::leave();
    }
    sets::after_fork(child);
}

/// Before an exec or a spawn; `loads` says whether the next program loads this library.
pub fn before_exec(loads: impl FnOnce() -> bool) {
    if !policy::is_on() {
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
/// them with rights that it has given up since.
fn give_up_lost() {
    for socket in descriptors::sockets() {
        if !socket.may_be_found_again() && is_inherited(socket.fd()) {
            socket.pin_or_shut_down(PinReason::Exec);
        }
    }
}

/// Returns the sockets to the kernel that a program without this library inherits.
fn give_up_inherited() {
    for fd in 0..descriptors::top().max(EXAMINED_MAX) {
        let socket = match descriptors::get(fd) {
            Entry::Socket(id) => Some(Socket::new(fd, id)),
            // This process may have inherited the socket itself, and used it for nothing else.
            Entry::Unknown if fd < EXAMINED_MAX && is_inherited(fd) => sockets::find(fd),
            _ => None,
        };
        if let Some(socket) = socket
            && is_inherited(fd)
        {
            socket.pin_or_shut_down(PinReason::Exec);
        }
    }
    if vfork::in_child() {
        let duplicates = vfork::duplicates().into_iter().flatten();
        duplicates.filter_map(sockets::known).for_each(|socket| {
            socket.pin_or_shut_down(PinReason::Exec);
        });
    }
}

/// A spawn will duplicate a socket for its program. Whether that program loads this library is not
/// known yet.
pub fn duplicated_in_spawn(fd: RawFd) {
    if let Some(socket) = sockets::known(fd) {
        socket.pin(PinReason::Exec);
    }
}
