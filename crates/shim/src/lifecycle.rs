//! How descriptors begin, get a second number, and end.
//!
//! Each function of the C library that makes or closes descriptors says so here, before or after
//! its real call.

use crate::connection::ended;
use crate::connection::socket::Socket;
use crate::epoll::sets;
use crate::kernel::file::is_close_on_exec;
use crate::kernel::socket::{ioctl_number, shut_down};
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::{apart, forks, library_files, limits, notes, policy, vfork};
use crate::{exec, settings, sockets};
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::RawFd;

/// Whether a socket ever had two descriptors.
static ANY_DUPLICATE: AtomicBool = AtomicBool::new(false);

/// A new descriptor stands for this entry; what its number stood for before is gone.
pub fn opened(fd: RawFd, entry: Entry) {
    if fd < 0 {
        return;
    }
    forks::forget(fd);
    if let Some(before) = descriptors::replace(fd, entry) {
        let successor = release(fd, before, false);
        sets::forget(fd, successor);
    } else if entry == Entry::Unknown && !vfork::in_child() && !apart::is_apart() {
        // The number may be that of a socket that a set watched, and that never had a connection.
        sets::forget(fd, None);
    }
}

/// A new descriptor is no stream socket.
pub fn opened_plain(fd: RawFd) {
    opened(fd, Entry::Plain);
}

/// A new descriptor is a file that was opened by its name.
pub fn opened_file(fd: RawFd) {
    opened(fd, Entry::File);
}

/// A new descriptor came from another process, or is a socket before its connect.
pub fn opened_unknown(fd: RawFd) {
    opened(fd, Entry::Unknown);
}

/// A descriptor came from another process, which may have used its socket.
pub fn arrived(fd: RawFd) {
    opened_unknown(fd);
    if sockets::is_standard(fd) && policy::is_on() {
        let _ = sockets::pin(fd, PinReason::Stdio);
    }
}

/// A new descriptor is a connected socket, if it is a stream socket at all.
pub fn opened_connected(fd: RawFd) {
    library_files::forget(fd);
    opened(fd, Entry::New { edges: false });
    forks::note_made(fd);
}

/// A new descriptor came from an accept.
pub fn accepted(fd: RawFd) {
    opened_connected(fd);
    join_in_test(fd, true);
}

/// Two new descriptors are the ends of one connection, if `socketpair` made streams.
pub fn opened_pair(ends: [RawFd; 2], kind: i32) {
    if is_stream(kind) {
        ends.into_iter().for_each(opened_connected);
        ends.into_iter().for_each(|fd| join_in_test(fd, false));
    } else {
        ends.into_iter().for_each(opened_plain);
    }
}

/// Suites with both ends in one process send little on each connection: most would end before
/// their bytes reach a ring.
fn join_in_test(fd: RawFd, waits: bool) {
    if fd >= 0
        && settings::current().same_process
        && policy::is_on()
        && !limits::are_on()
        && !vfork::in_child()
        && let Some(socket) = sockets::find(fd)
    {
        socket.join_at_once(waits);
    }
}

fn is_stream(kind: i32) -> bool {
    kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_STREAM
}

/// A new descriptor of `socket`.
pub fn opened_socket(fd: RawFd, kind: i32) {
    if is_stream(kind) {
        library_files::forget(fd);
        opened_unknown(fd);
        forks::note_made(fd);
    } else {
        opened_plain(fd);
    }
}

/// A new epoll set.
pub fn opened_epoll(fd: RawFd) {
    if fd >= 0 {
        let is_ours = (policy::is_on() || limits::has_left()) && !vfork::in_child();
        opened(fd, if is_ours { sets::open() } else { Entry::Plain });
    }
}

/// A `connect` succeeded, or goes on in the background.
pub fn connected(fd: RawFd) {
    if policy::is_on() {
        let edges = notes::has(fd, notes::EDGES);
        descriptors::learn(fd, Entry::Unknown, Entry::New { edges });
        join_in_test(fd, true);
    }
}

/// A `connect` to no address succeeded: the connection is gone, and its socket may have another
/// one. All its descriptors stay in the kernel, since the socket would find its old pair again.
pub fn disconnected(fd: RawFd) {
    let Some(socket) = sockets::known(fd).filter(|_socket| policy::is_on()) else { return };
    if vfork::in_child() {
        return;
    }
    let is_same = |other: &Socket| other.fd() != fd && other.is_same(&socket);
    for other in descriptors::sockets().filter(is_same) {
        opened(other.fd(), Entry::Pinned);
    }
    opened(fd, Entry::Pinned);
}

/// A `listen` succeeded.
pub fn listening(fd: RawFd) {
    if policy::is_on() {
        descriptors::learn(fd, Entry::Unknown, Entry::Plain);
    }
}

/// Before a close; whether [`closed`] must follow.
#[must_use]
pub fn closing(fd: RawFd) -> bool {
    forks::forget(fd);
    let Some(before) = descriptors::begin_close(fd) else { return false };
    let successor = release(fd, before, true);
    sets::forget(fd, successor);
    true
}

/// After a close.
pub fn closed(fd: RawFd) {
    descriptors::end_close(fd);
    ended::remove();
}

/// Before a range of descriptors is closed at once; [`closed_range`] must follow. The child of a
/// vfork owns no entry.
pub fn closing_range(first: usize, last: usize) {
    let end = usize::try_from(descriptors::top()).unwrap_or(0).min(last.saturating_add(1));
    if vfork::in_child() {
        return;
    }
    for fd in (first..end).filter_map(|fd| RawFd::try_from(fd).ok()) {
        if closing(fd) {
            descriptors::end_close(fd);
        }
    }
}

/// After a range of descriptors was closed.
pub fn closed_range() {
    ended::remove();
}

/// A descriptor no longer stands for `before`; `is_open` says whether it is still open. Another
/// descriptor of the same socket.
fn release(fd: RawFd, before: Entry, is_open: bool) -> Option<RawFd> {
    match before {
        // A state that is not freed costs nothing more; to free it takes system calls.
        Entry::Socket(_) | Entry::EpollSet(_) if limits::are_on() => {}
        Entry::Socket(id) => {
            let socket = Socket::new(fd, id);
            if ANY_DUPLICATE.load(Ordering::Relaxed) {
                let is_other = |other: &Socket| other.fd() != fd && other.is_same(&socket);
                if let Some(other) = descriptors::sockets().find(is_other) {
                    return Some(other.fd());
                }
            }
            socket.forget(is_open);
        }
        Entry::EpollSet(number) => sets::remove_descriptor(number),
        _ => {}
    }
    None
}

/// Before `to` becomes a second number of `fd`: ends what `to` stands for, where the call succeeds.
pub fn replacing(fd: RawFd, to: RawFd) {
    if policy::is_on()
        && fd != to
        && sockets::known(to).is_some()
        && is_close_on_exec(fd).is_some()
        && closing(to)
    {
        closed(to);
    }
}

/// `to` has become a second number of `fd`.
pub fn duplicated(fd: RawFd, to: RawFd) {
    if to < 0 || to == fd {
        return;
    }
    if sockets::is_standard(to) && policy::is_on() {
        // Another process may have used the socket: also where this one did not.
        let is_empty = sockets::pin(fd, PinReason::Stdio);
        if !is_empty && library_files::reads(to) {
            // The C library would read wakeup bytes.
            shut_down(fd);
        }
    }
    let mut entry = descriptors::get(fd);
    // Two numbers must not become two sockets.
    if matches!(entry, Entry::New { .. } | Entry::Unknown) && sockets::find(fd).is_some() {
        entry = descriptors::get(fd);
    }
    match entry {
        Entry::Socket(_) => {
            ANY_DUPLICATE.store(true, Ordering::Relaxed);
            sets::need_wakeups(fd);
        }
        Entry::EpollSet(number) => sets::add_descriptor(number),
        _ => {}
    }
    // Another thread is closing `fd` at this moment: nothing is known of `to`.
    opened(to, if entry == Entry::Closing { Entry::Unknown } else { entry });
    if let Entry::Socket(_) = entry {
        sets::note_duplicate(to);
        if is_close_on_exec(to) == Some(false) && is_close_on_exec(fd) == Some(true) {
            exec::passing_on(to);
        }
    }
}

/// A message takes a descriptor to another process, which may be without this library.
pub fn leaving(fd: RawFd) {
    if limits::are_on() {
        return;
    }
    forks::forget(fd);
    match descriptors::get(fd) {
        Entry::Socket(id) => {
            Socket::new(fd, id).pin(PinReason::Passed);
        }
        // Another process, or the program before an exec, may have used an unknown one.
        Entry::New { .. } | Entry::Unknown => {
            if let Some(socket) = sockets::find(fd) {
                socket.pass_on();
            }
        }
        Entry::EpollSet(number) => sets::wait_concerns_set(number, fd),
        _ => {}
    }
}

/// Before a `shutdown`.
pub fn shutting_down(fd: RawFd, how: i32) {
    if limits::are_on() {
        return;
    }
    let Some(socket) = sockets::known(fd) else { return };
    if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR) {
        socket.end_sending();
    }
    if matches!(how, libc::SHUT_RD | libc::SHUT_RDWR) {
        socket.end_receiving();
    }
}

/// A command of `fcntl` before its real call; whether the result is a new descriptor.
#[must_use]
pub fn controlling(fd: RawFd, command: i32, argument: usize) -> bool {
    const F_SETSIG: i32 = 10;
    const F_SETOWN_EX: i32 = 15;
    let is_async = match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return true,
        libc::F_SETOWN | F_SETSIG | F_SETOWN_EX => true,
        libc::F_SETFL => argument & libc::O_ASYNC as usize != 0,
        libc::F_SETFD if argument & libc::FD_CLOEXEC as usize == 0 => {
            return keeps_over_exec(fd);
        }
        _ => false,
    };
    if is_async {
        sockets::pin_found(fd, PinReason::Asynchronous);
    }
    false
}

/// Before a descriptor becomes one that the next program inherits; `false`.
fn keeps_over_exec(fd: RawFd) -> bool {
    if policy::is_on()
        && (vfork::in_child() || sockets::known(fd).is_some())
        && is_close_on_exec(fd) == Some(true)
    {
        exec::passing_on(fd);
    }
    false
}

/// An `ioctl` before its real call. `Some` gives the number of bytes that `FIONREAD` or `TIOCOUTQ`
/// must return.
#[must_use]
pub fn device_control(fd: RawFd, request: usize, argument: usize) -> Option<i32> {
    const FIONREAD: usize = 0x541b;
    const TIOCOUTQ: usize = 0x5411;
    const FIOASYNC: usize = 0x5452;
    const FIONCLEX: usize = 0x5450;
    const FIOSETOWN: usize = 0x8901;
    const SIOCSPGRP: usize = 0x8902;
    const NBD_SET_SOCK: usize = 0xab00;
    // Requests have 32 bits; some callers extend them with their sign.
    match request & 0xffff_ffff {
        FIONREAD => {
            let bytes = sockets::known(fd)?.readable_bytes()?;
            Some(i32::try_from(bytes).unwrap_or(i32::MAX))
        }
        TIOCOUTQ => {
            let unread = sockets::known(fd)?.unread_bytes().filter(|bytes| *bytes > 0)?;
            let queued = usize::try_from(ioctl_number(fd, libc::TIOCOUTQ).ok()?).ok()?;
            Some(i32::try_from(unread + queued).unwrap_or(i32::MAX))
        }
        FIONCLEX => {
            keeps_over_exec(fd);
            None
        }
        // A network block device moves the bytes of the socket from now on.
        NBD_SET_SOCK => {
            if let Ok(given) = RawFd::try_from(argument) {
                sockets::pin_found(given, PinReason::Passed);
            }
            None
        }
        FIOASYNC | FIOSETOWN | SIOCSPGRP => {
            sockets::pin_found(fd, PinReason::Asynchronous);
            None
        }
        _ => None,
    }
}
