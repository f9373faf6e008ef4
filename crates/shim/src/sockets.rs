//! From a descriptor to a socket: the look-up of each hook, and the first use of a descriptor.

use crate::connection::address::SocketName;
use crate::connection::socket::Socket;
use crate::connection::socket_state::SocketId;
use crate::counters;
use crate::epoll::sets;
use crate::kernel::Errno;
use crate::kernel::socket::{NameOf, option};
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::{forks, library_files, limits, policy, vfork};
use std::os::fd::RawFd;

/// The socket of a descriptor, where this library may move its bytes.
#[inline]
#[must_use]
pub fn find(fd: RawFd) -> Option<Socket> {
    match descriptors::get(fd) {
        Entry::Socket(id) => {
            let socket = Socket::new(fd, id);
            if socket.is_due() {
                examine_unseen(socket);
            }
            Some(socket)
        }
        entry @ (Entry::Unknown | Entry::New { .. }) => first_use(fd, entry),
        _ => None,
    }
}

/// The socket of a descriptor that was found before, for calls that move no bytes.
#[inline]
#[must_use]
pub fn known(fd: RawFd) -> Option<Socket> {
    descriptors::socket(fd)
}

/// The answer for a descriptor that is used for the first time.
enum FirstUse {
    /// The kernel's answer may change: ask again at the next use.
    AskAgain,
    /// No connected TCP or Unix stream socket, or nothing is upgraded.
    Plain,
    /// A stream socket that must stay in the kernel.
    Pinned(PinReason),
    /// A stream socket in the place of a standard stream: the C library moves its bytes unseen.
    Standard,
    /// A stream that may get a pair.
    Stream {
        /// Whether it is a Unix socket.
        is_unix: bool,
    },
}

/// Whether the C library has a `FILE` over a descriptor: from the start, or opened since.
#[must_use]
pub fn is_standard(fd: RawFd) -> bool {
    (0..=2).contains(&fd) || library_files::any_over(fd)
}

#[cold]
fn first_use(fd: RawFd, entry: Entry) -> Option<Socket> {
    if limits::are_on() {
        return None;
    }
    // The kernel answers no question about a socket before that pays.
    let may_wait = matches!(entry, Entry::New { .. }) && forks::is_sole(fd) && !is_standard(fd);
    if may_wait
        && policy::is_on()
        && let Some(socket) = Socket::open_unseen(fd)
    {
        return Some(begin(socket, entry));
    }
    let socket = match examine(fd) {
        FirstUse::AskAgain => return None,
        FirstUse::Plain => {
            descriptors::learn(fd, entry, Entry::Plain);
            return None;
        }
        FirstUse::Pinned(reason) => {
            pin_unused(fd, entry, reason);
            return None;
        }
        FirstUse::Standard => {
            pin_first(fd, entry, PinReason::Stdio);
            return known(fd);
        }
        FirstUse::Stream { is_unix } => match SocketId::claim(is_unix) {
            Some(id) => Socket::new(fd, id),
            None => {
                descriptors::learn(fd, entry, Entry::Plain);
                return None;
            }
        },
    };
    if forks::is_sole(fd) {
        socket.id().state().note_made();
    }
    Some(begin(socket, entry))
}

/// Begins the life of a socket with a new state.
fn begin(socket: Socket, entry: Entry) -> Socket {
    let fd = socket.fd();
    counters::name_process();
    let is_new = matches!(entry, Entry::New { .. });
    // Other programs may have registered an inherited socket for any events: each publish must be
    // an edge.
    if entry != (Entry::New { edges: false }) {
        socket.set_edge_triggered(true);
    }
    if descriptors::learn(fd, entry, Entry::Socket(socket.id())) {
        sets::note_found(socket, is_new);
        return socket;
    }
    // Another thread was faster, or this is the child of a vfork. There the state still works for
    // this one call.
    match known(fd) {
        Some(found) if !vfork::in_child() => {
            socket.discard();
            found
        }
        _ => socket,
    }
}

/// Asks the kernel what an UNSEEN socket is: its connection lives long, or other processes may have
/// it.
#[cold]
fn examine_unseen(socket: Socket) {
    if limits::are_on() {
        return;
    }
    let pinned = match examine(socket.fd()) {
        FirstUse::AskAgain => return socket.ask_later(),
        FirstUse::Stream { is_unix: true } if socket.had_control() => Some(PinReason::Ancillary),
        FirstUse::Stream { is_unix } => return socket.reveal(is_unix),
        FirstUse::Standard => {
            socket.pin(PinReason::Stdio);
            return;
        }
        FirstUse::Pinned(reason) => Some(reason),
        FirstUse::Plain => None,
    };
    // Other descriptors may stand for the state: it stays.
    if socket.stay_in_kernel()
        && let Some(reason) = pinned
    {
        counters::count_pin(reason);
    }
}

fn examine(fd: RawFd) -> FirstUse {
    let of_socket = |name| option(fd, libc::SOL_SOCKET, name);
    let kind = of_socket(libc::SO_TYPE);
    if kind == Err(libc::EBADF) {
        return FirstUse::AskAgain;
    }
    let domain = of_socket(libc::SO_DOMAIN).unwrap_or(libc::AF_UNSPEC);
    let is_stream = kind == Ok(libc::SOCK_STREAM)
        && matches!(domain, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX);
    if !policy::is_on() || !is_stream || of_socket(libc::SO_ACCEPTCONN) == Ok(1) {
        return FirstUse::Plain;
    }
    // A socket without a peer is not connected, or not yet.
    let Some(peer) = SocketName::ask(fd, NameOf::Peer) else { return FirstUse::AskAgain };
    let own = SocketName::ask(fd, NameOf::Own).unwrap_or_else(SocketName::unknown);
    if !policy::allows(own, peer) {
        return FirstUse::Pinned(PinReason::Policy);
    }
    let tells_queue =
        || domain != libc::AF_UNIX && option(fd, libc::IPPROTO_TCP, TCP_INQ).is_ok_and(|on| on > 0);
    if has_odd_option(domain, of_socket) || tells_queue() {
        return FirstUse::Pinned(PinReason::Option);
    }
    if is_standard(fd) {
        return FirstUse::Standard;
    }
    Socket::kind_of(fd).map_or(FirstUse::Plain, |is_unix| FirstUse::Stream { is_unix })
}

/// Options that a program may have set before its first data call, and the value of a new socket.
const DEFAULTS: [(i32, i32); 9] = [
    (libc::SO_RCVLOWAT, 1),
    (libc::SO_OOBINLINE, 0),
    (libc::SO_ZEROCOPY, 0),
    (libc::SO_TIMESTAMP, 0),
    (libc::SO_TIMESTAMPNS, 0),
    (libc::SO_TIMESTAMPING, 0),
    (SO_TIMESTAMP_NEW, 0),
    (SO_TIMESTAMPNS_NEW, 0),
    (SO_TIMESTAMPING_NEW, 0),
];

/// The options with 64-bit times, which have values of their own.
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;
/// Linux 6.5.
const SO_PASSPIDFD: i32 = 76;
/// Control data with each receive of TCP, of the number of bytes that wait; Linux 4.18.
pub const TCP_INQ: i32 = 36;

/// Options of Unix sockets, and the least value that shared memory cannot mirror.
const UNIX_LIMITS: [(i32, i32); 4] =
    [(libc::SO_PASSCRED, 1), (libc::SO_PASSSEC, 1), (SO_PASSPIDFD, 1), (libc::SO_PEEK_OFF, 0)];

/// Whether a socket has an option that shared memory cannot mirror.
fn has_odd_option(domain: i32, option: impl Fn(i32) -> Result<i32, Errno>) -> bool {
    let differs = |(name, value): (i32, i32)| option(name).is_ok_and(|found| found != value);
    let reaches = |(name, limit): (i32, i32)| option(name).is_ok_and(|found| found >= limit);
    DEFAULTS.into_iter().any(differs)
        || (domain == libc::AF_UNIX && UNIX_LIMITS.into_iter().any(reaches))
}

/// Pins a socket before its first data call.
fn pin_unused(fd: RawFd, entry: Entry, reason: PinReason) {
    if descriptors::learn(fd, entry, Entry::Pinned) {
        counters::count_pin(reason);
    }
}

/// Pins a descriptor, also before its first data call. `false` where bytes of a ring cannot follow.
pub fn pin(fd: RawFd, reason: PinReason) -> bool {
    match descriptors::get(fd) {
        Entry::Socket(id) => Socket::new(fd, id).pin(reason),
        entry @ (Entry::Unknown | Entry::New { .. }) => pin_first(fd, entry, reason),
        _ => true,
    }
}

/// Pins a descriptor before its first data call in this process. Another process may have used the
/// socket before. `false` where bytes of a ring cannot follow.
fn pin_first(fd: RawFd, entry: Entry, reason: PinReason) -> bool {
    let Some(socket) = Socket::open(fd) else { return true };
    if SocketName::ask(fd, NameOf::Peer).is_none() {
        // The socket has no peer yet. It starts its life with the option or place that pins it.
        socket.discard();
        if reason != PinReason::Exec {
            pin_unused(fd, entry, reason);
        }
        return true;
    }
    let is_empty = socket.pin(reason);
    // The child of a vfork learns nothing.
    let kept = if is_empty { Entry::Pinned } else { Entry::Socket(socket.id()) };
    if !descriptors::learn(fd, entry, kept) || is_empty {
        socket.discard();
    }
    is_empty
}

/// Pins the socket of a descriptor whatever the table says of it: the child of a vfork has
/// descriptors of its own, and the table of its parent. `false` where bytes of a ring cannot
/// follow.
fn pin_unlisted(fd: RawFd, reason: PinReason) -> bool {
    let Some(unlisted) = Socket::open(fd) else { return true };
    let listed = known(fd).filter(|socket| socket.has_cookie_of(&unlisted));
    let is_empty = listed.unwrap_or(unlisted).pin(reason);
    unlisted.discard();
    is_empty
}

/// Pins the socket of an inherited descriptor before a program starts that moves bytes unseen.
/// `false` where bytes of a ring cannot follow.
#[must_use]
pub fn give_up(fd: RawFd, reason: PinReason) -> bool {
    if vfork::in_child() {
        pin_unlisted(fd, reason)
    } else {
        match descriptors::get(fd) {
            Entry::Pinned => {
                mark(fd);
                true
            }
            Entry::Socket(id) if Socket::new(fd, id).mark() => true,
            _ => pin(fd, reason),
        }
    }
}

/// Marks a socket that this process keeps in the kernel, for the next program.
pub fn mark(fd: RawFd) {
    if let Some(socket) = Socket::open(fd) {
        socket.pin(PinReason::Stdio);
        socket.discard();
    }
}

/// Pins the sockets in the places of the standard streams, before the program's first instruction.
/// Whether bytes of a ring lie behind the standard input.
#[must_use]
pub fn pin_standard() -> bool {
    if !policy::is_on() {
        return false;
    }
    // An end that is only written to loses nothing: the bytes of the ring come first.
    let input = pin(0, PinReason::Stdio);
    pin(1, PinReason::Stdio);
    pin(2, PinReason::Stdio);
    !input
}

/// Pins a descriptor that is a socket of ours, or becomes one now. Whether bytes still lie in its
/// ring.
#[must_use]
pub fn has_bytes_after_pin(fd: RawFd, reason: PinReason) -> bool {
    find(fd).is_some_and(|socket| !socket.pin(reason) && socket.has_bytes())
}

/// Pins a descriptor that is a socket of ours, or becomes one now.
pub fn pin_found(fd: RawFd, reason: PinReason) {
    if let Some(socket) = find(fd) {
        socket.pin(reason);
    }
}

/// The same; shuts the connection down where bytes of a ring cannot follow.
pub fn pin_found_or_shut_down(fd: RawFd, reason: PinReason) {
    if let Some(socket) = find(fd) {
        socket.pin_or_shut_down(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_with_another_value_than_a_new_socket_is_odd() {
        let with = |odd: i32, value: i32| {
            move |name: i32| if name == odd { Ok(value) } else { Err(libc::ENOPROTOOPT) }
        };
        assert!(!has_odd_option(libc::AF_INET, |_| Err(libc::ENOPROTOOPT)));
        assert!(!has_odd_option(libc::AF_INET, with(libc::SO_RCVLOWAT, 1)));
        assert!(has_odd_option(libc::AF_INET, with(libc::SO_RCVLOWAT, 2)));
        assert!(has_odd_option(libc::AF_INET6, with(libc::SO_TIMESTAMPNS, 1)));
        assert!(has_odd_option(libc::AF_UNIX, with(libc::SO_PASSCRED, 1)));
        assert!(!has_odd_option(libc::AF_INET, with(libc::SO_PASSCRED, 1)));
        assert!(!has_odd_option(libc::AF_UNIX, with(libc::SO_PEEK_OFF, -1)));
        assert!(has_odd_option(libc::AF_UNIX, with(libc::SO_PEEK_OFF, 0)));
        assert!(has_odd_option(libc::AF_UNIX, with(SO_PASSPIDFD, 1)));
        assert!(has_odd_option(libc::AF_INET, with(SO_TIMESTAMP_NEW, 1)));
    }
}
