//! fork, vfork, exec and spawn.
//!
//! A child by fork has a copy of the descriptor table and shares the mapped pairs. The child of a
//! vfork has its parent's memory but its own descriptors: it writes no entry. A program after an
//! exec runs without this library, unless the policy names it. The sockets that it inherits return
//! to the kernel first. A named program finds its sockets by asking the kernel.

pub mod environment;
pub mod target;

use crate::epoll::sets;
use crate::kernel::file::{self, is_close_on_exec};
use crate::kernel::process;
use crate::kernel::socket::shut_down;
use crate::memory::lock::{Deadline, SHORT_NS};
use crate::pin::PinReason;
use crate::process::descriptors::{self, EXAMINED_MAX, Entry};
use crate::process::{forks, notes, policy, vfork};
use crate::sockets;
use core::ffi::CStr;
use std::io::Write;
use std::os::fd::RawFd;

/// A pause between two looks at the descriptors of the parent.
const PAUSE_US: i64 = 500;

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
        vfork::forget_all();
    }
    if policy::is_on() {
        sets::after_fork(child);
    }
}

/// Before an exec or a spawn; `loads` says whether the next program would load this library. Its
/// answer, where that program is to load it.
pub fn before_exec(starter: Starter, loads: impl FnOnce() -> bool) -> bool {
    forks::note();
    // A child of a vfork that has limited its system calls returned its sockets before.
    if !policy::is_on() || vfork::is_limited_child() {
        return false;
    }
    sets::before_exec(is_inherited);
    let loads = policy::has_children() && loads();
    if loads {
        give_up_lost()
    } else {
        give_up_inherited(starter)
    }
    loads
}

/// What becomes of the program that starts another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// The next program takes its place. The program may be a child by fork.
    Ends,
    /// It goes on beside the next program.
    Stays,
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
///
/// Bytes that lie in a ring cannot follow. Where the next program is to have the socket, the
/// connection is shut down rather than read wrong. Most sockets are inherited by oversight: their
/// program goes on to read them.
fn give_up_inherited(starter: Starter) {
    let in_child = vfork::in_child();
    let stays = in_child || starter == Starter::Stays;
    for fd in 0..descriptors::top().max(EXAMINED_MAX) {
        let may_be_socket = match descriptors::get(fd) {
            Entry::Unknown => fd < EXAMINED_MAX,
            // The child of a vfork may have other descriptors than its parent's table says.
            Entry::Plain | Entry::File => in_child && fd < EXAMINED_MAX,
            Entry::EpollSet(_) => in_child,
            _ => true,
        };
        if may_be_socket
            && is_inherited(fd)
            && !sockets::give_up(fd, PinReason::Exec)
            && (is_meant(fd) || !(stays || parent_keeps(fd)))
        {
            shut_down(fd);
        }
    }
}

/// Whether the program has said that the next one is to have a descriptor.
fn is_meant(fd: RawFd) -> bool {
    sockets::is_standard(fd) || notes::has(fd, notes::PASSED_ON)
}

/// Whether the parent of this process goes on with a socket of which bytes lie in the ring. A
/// parent that leaves it to the next program closes its own descriptor at once.
fn parent_keeps(fd: RawFd) -> bool {
    let wait = Deadline::after(SHORT_NS);
    while wait.left_ns() > 0 && parent_has(fd) {
        if sockets::known(fd).is_none_or(|socket| !socket.has_bytes()) {
            return true;
        }
        process::pause_us(PAUSE_US);
    }
    parent_has(fd)
}

/// Whether the parent of this process has the same socket under the same number.
fn parent_has(fd: RawFd) -> bool {
    let target = |process: i32| {
        let (mut path, mut room) = ([0_u8; 40], [0_u8; 64]);
        let written = write!(&mut path[..39], "/proc/{process}/fd/{fd}");
        let path = CStr::from_bytes_until_nul(&path).ok().filter(|_path| written.is_ok())?;
        file::read_link(path, &mut room).ok().map(|length| (room, length))
    };
    target(process::id()).is_some_and(|own| target(process::parent_id()) == Some(own))
}

/// A descriptor that exec closed becomes one that the next program inherits: the program means to
/// pass its socket on. It stays in the kernel from now on, so that no byte is in its ring by then.
pub fn passing_on(fd: RawFd) {
    if !policy::is_on() {
        return;
    }
    if vfork::in_child() {
        if !sockets::give_up(fd, PinReason::Exec) {
            shut_down(fd);
        }
    } else if let Some(socket) = sockets::known(fd) {
        socket.pin(PinReason::Exec);
        notes::add(fd, notes::PASSED_ON);
    }
}

/// A spawn will duplicate a socket for its program. Whether that program loads this library is not
/// known yet.
pub fn duplicated_in_spawn(fd: RawFd) {
    if policy::is_on() && !is_plain(fd) && !sockets::give_up(fd, PinReason::Exec) {
        shut_down(fd);
    }
}

fn is_plain(fd: RawFd) -> bool {
    matches!(descriptors::get(fd), Entry::Plain | Entry::File | Entry::EpollSet(_))
}
