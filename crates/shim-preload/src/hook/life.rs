//! How descriptors of sockets begin, are doubled, and end.

use crate::errno;
use crate::look;
use crate::next;
use crate::policy;
use crate::table::{self, Entry};
use core::ffi::{c_int, c_uint};
use libc::{sockaddr, socklen_t};
use m3ipc_shim::engine::{Birth, Pin};

/// What a new descriptor is, if there is one.
fn born(fd: c_int, entry: Entry) -> c_int {
    if fd >= 0 {
        table::set(fd, entry);
    }
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = next::socket(domain, kind, protocol);
    let stream = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == libc::SOCK_STREAM;
    born(fd, if stream { Entry::Unknown } else { Entry::Plain })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    pair: *mut c_int,
) -> c_int {
    let result = next::socketpair(domain, kind, protocol, pair);
    if result == 0 {
        born(*pair, Entry::Born { how: Birth::Paired, edges: false });
        born(*pair.add(1), Entry::Born { how: Birth::Paired, edges: false });
    }
    result
}

const ACCEPTED: Entry = Entry::Born { how: Birth::Accepted, edges: false };

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    born(next::accept(fd, address, length), ACCEPTED)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    born(next::accept4(fd, address, length, flags), ACCEPTED)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let result = next::connect(fd, address, length);
    if policy::on()
        && (result == 0 || matches!(errno(), libc::EINPROGRESS | libc::EINTR | libc::EALREADY))
    {
        table::learn(fd, Entry::Unknown, Entry::Born { how: Birth::Connected, edges: false });
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    connect(fd, address, length)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let known = table::closing(fd);
    let result = next::close(fd);
    if known {
        table::closed(fd);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __close(fd: c_int) -> c_int {
    close(fd)
}

/// `to` is about to stand for something else.
fn replaced(fd: c_int, to: c_int) {
    // Only what succeeds ends what was there.
    if fd != to
        && look::known(to).is_some()
        && table::is_cloexec(fd).is_some()
        && table::closing(to)
    {
        table::closed(to);
    }
}

fn doubled(fd: c_int, result: c_int) -> c_int {
    if result >= 0 && result != fd {
        if super::in_vfork() {
            super::process::doubled(fd);
        }
        table::copy(fd, result);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    doubled(fd, next::dup(fd))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    replaced(fd, to);
    doubled(fd, next::dup2(fd, to))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __dup2(fd: c_int, to: c_int) -> c_int {
    dup2(fd, to)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC == 0 {
        replaced(fd, to);
    }
    doubled(fd, next::dup3(fd, to, flags))
}

unsafe fn control(
    fd: c_int,
    command: c_int,
    argument: usize,
    real: unsafe fn(c_int, c_int, usize) -> c_int,
) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => doubled(fd, real(fd, command, argument)),
        libc::F_SETOWN | F_SETSIG | F_SETOWN_EX => {
            if look::talk(fd).is_some() {
                look::pin(fd, Pin::Asynchronous, false);
            }
            real(fd, command, argument)
        }
        libc::F_SETFL => {
            if argument & libc::O_ASYNC as usize != 0 && look::talk(fd).is_some() {
                look::pin(fd, Pin::Asynchronous, false);
            }
            real(fd, command, argument)
        }
        _ => real(fd, command, argument),
    }
}

const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

// C has these with an argument that may be missing; what the register then holds, the kernel ignores.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    control(fd, command, argument, next::fcntl)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    control(fd, command, argument, next::fcntl)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    control(fd, command, argument, next::fcntl64)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
    // Numbers of 32 bits, which some callers extend with their sign.
    match request & 0xffff_ffff {
        FIONREAD => {
            let result = next::ioctl(fd, request, argument);
            if result == 0
                && argument != 0
                && let Some(bytes) = look::known(fd).and_then(|talk| talk.waiting(fd))
            {
                (argument as *mut c_int).write(c_int::try_from(bytes).unwrap_or(c_int::MAX));
            }
            result
        }
        FIOASYNC | FIOSETOWN | SIOCSPGRP => {
            if look::talk(fd).is_some() {
                look::pin(fd, Pin::Asynchronous, false);
            }
            next::ioctl(fd, request, argument)
        }
        _ => next::ioctl(fd, request, argument),
    }
}

const FIONREAD: usize = 0x541b;
const FIOASYNC: usize = 0x5452;
const FIOSETOWN: usize = 0x8901;
const SIOCSPGRP: usize = 0x8902;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOEXEC: c_int = 4;
    // In the child of a vfork nothing of the table is the child's.
    if flags & CLOEXEC == 0 && first <= last && !super::in_vfork() {
        table::close_all(first as usize, last as usize);
    }
    next::close_range(first, last, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    if !super::in_vfork() {
        table::close_all(first.max(0) as usize, usize::MAX);
    }
    next::closefrom(first);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR)
        && let Some(talk) = look::known(fd)
    {
        talk.end_sending();
    }
    next::shutdown(fd, how)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int {
    born(next::pidfd_getfd(pidfd, fd, flags), Entry::Unknown)
}
