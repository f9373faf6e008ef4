//! Socket options: those that leave the stream as it is, and all others, which pin.

use crate::connection::socket::Socket;
use crate::kernel::socket::option_into;
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::limits;
use crate::sockets;
use std::os::fd::RawFd;

/// `IP_BIND_ADDRESS_NO_PORT`.
const IP_BIND_LATE: i32 = 24;

/// Options that are right in the kernel alone.
const HARMLESS: &[(i32, &[i32])] = &[
    (
        libc::SOL_SOCKET,
        &[
            libc::SO_REUSEADDR,
            libc::SO_REUSEPORT,
            libc::SO_KEEPALIVE,
            libc::SO_LINGER,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_SNDBUFFORCE,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVTIMEO,
            libc::SO_SNDTIMEO,
            libc::SO_PRIORITY,
            libc::SO_MARK,
            libc::SO_BUSY_POLL,
            libc::SO_INCOMING_CPU,
            libc::SO_BINDTODEVICE,
            libc::SO_DONTROUTE,
            libc::SO_BROADCAST,
        ],
    ),
    (
        libc::IPPROTO_TCP,
        &[
            libc::TCP_NODELAY,
            libc::TCP_CORK,
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPINTVL,
            libc::TCP_KEEPCNT,
            libc::TCP_USER_TIMEOUT,
            libc::TCP_QUICKACK,
            libc::TCP_DEFER_ACCEPT,
            libc::TCP_MAXSEG,
            libc::TCP_SYNCNT,
            libc::TCP_LINGER2,
            libc::TCP_WINDOW_CLAMP,
            libc::TCP_FASTOPEN,
            libc::TCP_CONGESTION,
        ],
    ),
    (
        libc::IPPROTO_IP,
        &[
            libc::IP_TOS,
            libc::IP_TTL,
            libc::IP_MTU_DISCOVER,
            libc::IP_FREEBIND,
            libc::IP_TRANSPARENT,
            IP_BIND_LATE,
        ],
    ),
    (
        libc::IPPROTO_IPV6,
        &[libc::IPV6_V6ONLY, libc::IPV6_TCLASS, libc::IPV6_UNICAST_HOPS, libc::IPV6_MTU_DISCOVER],
    ),
];

/// Whether an option with this value leaves the stream as it is. `value` is the integer in the
/// program's memory, where the memory is long enough.
fn is_harmless(level: i32, name: i32, value: Option<i32>) -> bool {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => matches!(value, Some(0 | 1)),
        // A new socket has these off.
        (
            libc::SOL_SOCKET,
            libc::SO_OOBINLINE | libc::SO_TIMESTAMP | libc::SO_PASSCRED | libc::SO_ZEROCOPY,
        ) => value == Some(0),
        _ => HARMLESS.iter().any(|(of, names)| *of == level && names.contains(&name)),
    }
}

/// Before `setsockopt`: the error with which an option fails that only a connection of the kernel
/// has. Programs go on without it: kernels before Linux 4.18 lack it too.
#[must_use]
pub fn refusal(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    // gRPC asks for it on each socket, to size its next buffer.
    let is_refused = (level, name) == (libc::IPPROTO_TCP, sockets::TCP_INQ)
        && !limits::are_on()
        && matches!(descriptors::get(fd), Entry::Unknown | Entry::New { .. } | Entry::Socket(_));
    is_refused.then_some(libc::ENOPROTOOPT)
}

/// What follows a question of [`setting`].
#[derive(Debug)]
pub enum Setting {
    /// The option is set already: the real call must not follow.
    Done,
    /// The real call follows, and changes nothing that concerns the library.
    Harmless,
    /// The real call follows, then [`Before::pin_if_changed`].
    MayChange(Before),
}

/// Bytes of an option that are compared.
const VALUE_BYTES: usize = 128;

/// An option before its change.
#[derive(Debug)]
pub struct Before {
    value: Option<([u8; VALUE_BYTES], usize)>,
}

impl Before {
    fn value(fd: RawFd, level: i32, name: i32) -> Option<([u8; VALUE_BYTES], usize)> {
        let mut value = [0; VALUE_BYTES];
        let length = option_into(fd, level, name, &mut value).ok()?;
        (length < VALUE_BYTES).then_some((value, length))
    }

    /// After the option was set without an error: pins the socket, unless the kernel tells the same
    /// value as before.
    pub fn pin_if_changed(&self, fd: RawFd, level: i32, name: i32) {
        if self.value.is_none() || self.value != Self::value(fd, level, name) {
            sockets::pin(fd, PinReason::Option);
        }
    }
}

/// Before `setsockopt`: what the option means for the socket. `value` is the integer in the
/// program's memory; it is asked only where the descriptor is, or may become, a socket of ours.
#[must_use]
pub fn setting(fd: RawFd, level: i32, name: i32, value: impl FnOnce() -> Option<i32>) -> Setting {
    if limits::are_on()
        || !matches!(descriptors::get(fd), Entry::Unknown | Entry::New { .. } | Entry::Socket(_))
    {
        return Setting::Harmless;
    }
    let value = value();
    if (level, name) == (libc::SOL_SOCKET, libc::SO_RCVLOWAT)
        && let Some(mark) = value.filter(|_mark| !is_harmless(level, name, value))
    {
        // Before the option applies: bytes of the ring come first.
        let is_empty = sockets::pin(fd, PinReason::Option);
        let is_kept = |socket: Socket| socket.set_low_mark_later(mark);
        let is_set = !is_empty && sockets::known(fd).is_some_and(is_kept);
        return if is_set { Setting::Done } else { Setting::Harmless };
    }
    if !is_harmless(level, name, value) {
        return Setting::MayChange(Before { value: Before::value(fd, level, name) });
    }
    let is_done = level == libc::IPPROTO_TCP
        && value.is_some()
        && sockets::known(fd).and_then(|socket| socket.latency_option(name, value)).is_some();
    if is_done { Setting::Done } else { Setting::Harmless }
}

/// Before an option whose value is bytes of the stream: pins the socket. The bytes that still lie
/// in its ring; `None` where the kernel has all.
#[must_use]
pub fn bytes_of_ring(fd: RawFd) -> Option<usize> {
    if limits::are_on() || !sockets::has_bytes_after_pin(fd, PinReason::Option) {
        return None;
    }
    sockets::known(fd)?.readable_bytes()
}

/// After `getsockopt`: the value that the program must see in place of the kernel's, `found`.
#[must_use]
pub fn value_of(fd: RawFd, level: i32, name: i32, found: i32) -> Option<i32> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK) => {
            sockets::known(fd)?.latency_option(name, None)
        }
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => sockets::known(fd)?.low_mark(),
        (libc::SOL_SOCKET, libc::SO_ERROR) if found == 0 => sockets::known(fd)?.take_error(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_option_that_streams_of_the_library_lack_is_refused() {
        descriptors::prepare();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        assert_eq!(refusal(fd, libc::IPPROTO_TCP, sockets::TCP_INQ), Some(libc::ENOPROTOOPT));
        assert_eq!(refusal(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), None);
        assert_eq!(refusal(fd, libc::SOL_SOCKET, sockets::TCP_INQ), None);
    }

    #[test]
    fn an_option_that_changes_nothing_is_told_by_the_kernel() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let value = |name| Before::value(fd, libc::SOL_SOCKET, name);
        assert!(value(libc::SO_TIMESTAMP).is_some_and(|(_, length)| length == 4));
        assert_eq!(value(libc::SO_TIMESTAMP), value(libc::SO_TIMESTAMP));
        assert_ne!(value(libc::SO_TIMESTAMP), value(libc::SO_TYPE));
        assert!(value(12345).is_none(), "no such option");
    }

    #[test]
    fn an_option_is_harmless_by_list_or_by_value() {
        assert!(is_harmless(libc::IPPROTO_TCP, libc::TCP_NODELAY, Some(1)));
        assert!(is_harmless(libc::SOL_SOCKET, libc::SO_LINGER, None));
        assert!(is_harmless(libc::SOL_SOCKET, libc::SO_RCVLOWAT, Some(1)));
        assert!(!is_harmless(libc::SOL_SOCKET, libc::SO_RCVLOWAT, Some(2)));
        assert!(!is_harmless(libc::SOL_SOCKET, libc::SO_RCVLOWAT, Some(-1)), "as many as fit");
        assert!(!is_harmless(libc::SOL_SOCKET, libc::SO_RCVLOWAT, None));
        assert!(is_harmless(libc::SOL_SOCKET, libc::SO_PASSCRED, Some(0)));
        assert!(!is_harmless(libc::SOL_SOCKET, libc::SO_PASSCRED, Some(1)));
        assert!(!is_harmless(libc::IPPROTO_TCP, libc::TCP_ULP, None));
        assert!(!is_harmless(libc::IPPROTO_IP, libc::TCP_NODELAY + 1000, Some(0)));
    }
}
