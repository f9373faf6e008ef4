//! Socket options: those that change nothing for bytes in rings, and all others, which pin.

use crate::look;
use crate::next;
use core::ffi::{c_int, c_void};
use libc::socklen_t;
use m3ipc_shim::engine::Pin;

/// Options that stay the kernel's and are right there.
const HARMLESS: &[(c_int, &[c_int])] = &[
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
const IP_BIND_LATE: c_int = 24;

unsafe fn number(value: *const c_void, length: socklen_t) -> Option<c_int> {
    (!value.is_null() && length as usize >= size_of::<c_int>())
        .then(|| value.cast::<c_int>().read_unaligned())
}

/// Whether the option, with this value, leaves the stream as it is.
unsafe fn is_harmless(level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> bool {
    let number = number(value, length);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => number.is_some_and(|bytes| bytes <= 1),
        // Off is how a socket begins.
        (
            libc::SOL_SOCKET,
            libc::SO_OOBINLINE | libc::SO_TIMESTAMP | libc::SO_PASSCRED | libc::SO_ZEROCOPY,
        ) => number == Some(0),
        _ => HARMLESS.iter().any(|(of, names)| *of == level && names.contains(&name)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if !is_harmless(level, name, value, length) {
        // Before it is set: what waits is still the kernel's plain stream then.
        look::pin(fd, Pin::Option, false);
    } else if level == libc::IPPROTO_TCP
        && let Some(number) = number(value, length)
        && let Some(talk) = look::known(fd)
        && talk.latency_option(fd, name, Some(number)).is_some()
    {
        return 0;
    }
    next::setsockopt(fd, level, name, value, length)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let result = next::getsockopt(fd, level, name, value, length);
    if result == 0
        && level == libc::IPPROTO_TCP
        && matches!(name, libc::TCP_NODELAY | libc::TCP_CORK)
        && *length as usize == size_of::<c_int>()
        && let Some(said) = look::known(fd).and_then(|talk| talk.latency_option(fd, name, None))
    {
        value.cast::<c_int>().write_unaligned(said);
    }
    result
}
