//! Sockets: `m3_socket` and its kin, as `m3ipc/sock.h` declares them.
//!
//! They return and set errno as POSIX says of the calls whose names they bear. A number is a descriptor of the kernel's, which
//! polls; what it stands for is in a [`table`].
//!
//! # Safety
//! Pointers of C are checked by [`memory`] before they are followed.
#![allow(unsafe_code)]

mod answer;
mod block;
mod message;
mod name;
mod option;
mod table;

use crate::memory;
use answer::{Answer, fault, posix};
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use libc::{in_addr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use m3ipc_sockets::{Direction, Errno, SockKind};
use message::{Bytes, Flags};
use std::sync::Arc;
use table::State;

/// Joins a domain of a VM, for all sockets that this process makes from then on; any free one for -1.
#[unsafe(no_mangle)]
pub extern "C" fn m3_domain(vmid: c_int, domain: c_int) -> c_int {
    posix(|| table::join(vmid, domain))
}

/// Joins the domain that the VM's configuration gives this name.
///
/// # Safety
/// `name` is checked to be memory, up to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_domain_named(vmid: c_int, name: *const c_char) -> c_int {
    posix(|| table::join_named(vmid, &name::read_text(name)?))
}

/// The address of the domain that the VM's configuration gives this name.
///
/// # Safety
/// `name` is checked to be memory, up to its end, `address` to be memory of an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_domain_address(
    vmid: c_int,
    name: *const c_char,
    address: *mut in_addr,
) -> c_int {
    posix(|| {
        let found = table::address_named(vmid, &name::read_text(name)?)?;
        memory::write_bytes(address.cast(), &found.octets()).map_err(fault)?;
        Ok(0)
    })
}

/// A socket: stream or datagrams.
#[unsafe(no_mangle)]
pub extern "C" fn m3_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    posix(|| table::open(domain, kind, protocol))
}

/// Takes a port of the own domain.
///
/// # Safety
/// `address` is checked to be memory of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    posix(|| {
        let entry = table::find(fd)?;
        let address = name::read(address, length)?;
        let domain = table::domain()?;
        if !domain.is_own(*address.ip()) && *address.ip() != domain.broadcast() {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let mut state = entry.state();
        if !matches!(*state, State::Fresh) {
            return Err(Errno::INVAL);
        }
        match entry.kind {
            SockKind::Stream => *state = State::Bound(domain.reserve(address.port())?),
            SockKind::Datagram => {
                *state = entry.datagrams(fd, &domain, address.port())?;
            }
        }
        Ok(0)
    })
}

/// Takes connections.
#[unsafe(no_mangle)]
pub extern "C" fn m3_listen(fd: c_int, backlog: c_int) -> c_int {
    posix(|| {
        let entry = table::find(fd)?;
        if entry.kind == SockKind::Datagram {
            return Err(Errno::OPNOTSUPP);
        }
        let mut state = entry.state();
        let domain = table::domain()?;
        let port = match *state {
            State::Fresh => domain.reserve(0)?,
            State::Bound(port) => port,
            State::Listening(_) => return Ok(0),
            _ => return Err(Errno::INVAL),
        };
        let listener = domain.listen_reserved(port, u32::try_from(backlog).unwrap_or(0))?;
        entry.become_(fd, &listener)?;
        *state = State::Listening(Arc::new(listener));
        Ok(0)
    })
}

/// Takes one connection.
///
/// # Safety
/// `address` and `length` are checked to be memory, or are NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    posix(|| accept(fd, address, length, 0))
}

/// Sends a block of an area through a stream: nothing of it is copied.
#[unsafe(no_mangle)]
pub extern "C" fn m3_stream_send_block(fd: c_int, block: *mut c_void) -> c_int {
    posix(|| block::send(fd, block))
}

/// Receives a block of an area from a stream: its bytes, 0 at the end of the stream.
///
/// # Safety
/// `block` is checked to be memory of an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_stream_receive_block(fd: c_int, block: *mut *mut c_void) -> ssize_t {
    answer::long(|| block::receive(fd, block))
}

/// Takes one connection, and sets flags of it.
///
/// # Safety
/// As of `m3_accept`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    posix(|| accept(fd, address, length, flags))
}

fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> Answer {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    let entry = table::find(fd)?;
    if entry.kind == SockKind::Datagram {
        return Err(Errno::OPNOTSUPP);
    }
    let listener = match &*entry.state() {
        State::Listening(listener) => Arc::clone(listener),
        _ => return Err(Errno::INVAL),
    };
    let stream = listener.take(!entry.is_nonblocking(), entry.receive_limit_ns())?;
    name::write(address, length, stream.peer_addr())?;
    table::accepted(stream, flags)
}

/// Connects; of datagrams, names the other side.
///
/// # Safety
/// `address` is checked to be memory of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    posix(|| {
        let entry = table::find(fd)?;
        let mut state = entry.state();
        if entry.kind == SockKind::Datagram {
            let to = name::read_or_none(address, length)?;
            return entry.with_datagrams(fd, &mut state, |socket| {
                socket.connect(to)?;
                Ok(0)
            });
        }
        let to = name::read(address, length)?;
        let from = match *state {
            State::Fresh => 0,
            State::Bound(port) => port,
            State::Listening(_) | State::Connected(..) => return Err(Errno::ISCONN),
            State::Datagrams(_) => return Err(Errno::INVAL),
        };
        let stream = table::domain()?.connect_from(to, from, !entry.is_nonblocking())?;
        entry.become_(fd, &stream)?;
        stream.set_nonblocking(entry.is_nonblocking()).map_err(|cause| answer::errno_of(&cause))?;
        *state = State::Connected(Arc::new(stream), from);
        Ok(0)
    })
}

/// Sends.
///
/// # Safety
/// `bytes` is checked to be memory of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    answer::long(|| message::send(fd, &[Bytes::at(bytes, length)], None, Flags(flags)))
}

/// Sends to somebody.
///
/// # Safety
/// `bytes` and `address` are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendto(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    answer::long(|| {
        let to = if address.is_null() { None } else { Some(name::read(address, address_length)?) };
        message::send(fd, &[Bytes::at(bytes, length)], to, Flags(flags))
    })
}

/// Sends from several places.
///
/// # Safety
/// `message` and what it names are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    answer::long(|| message::send_message(fd, message, Flags(flags)))
}

/// Sends, with no flags.
///
/// # Safety
/// As of `m3_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    answer::long(|| message::send(fd, &[Bytes::at(bytes, length)], None, Flags(0)))
}

/// Receives.
///
/// # Safety
/// `bytes` is checked to be memory of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recv(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    answer::long(|| Ok(message::receive(fd, &[Bytes::at(bytes, length)], Flags(flags))?.answer))
}

/// Receives, and tells from whom.
///
/// # Safety
/// `bytes`, `address` and `address_length` are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    answer::long(|| {
        let got = message::receive(fd, &[Bytes::at(bytes, length)], Flags(flags))?;
        match got.from {
            Some(from) => name::write(address, address_length, from)?,
            None => name::write_none(address_length)?,
        }
        Ok(got.answer)
    })
}

/// Receives into several places.
///
/// # Safety
/// `message` and what it names are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    answer::long(|| message::receive_message(fd, message, Flags(flags)))
}

/// Receives, with no flags.
///
/// # Safety
/// As of `m3_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_read(fd: c_int, bytes: *mut c_void, length: size_t) -> ssize_t {
    answer::long(|| Ok(message::receive(fd, &[Bytes::at(bytes, length)], Flags(0))?.answer))
}

/// Ends one way of a connection, or both.
#[unsafe(no_mangle)]
pub extern "C" fn m3_shutdown(fd: c_int, how: c_int) -> c_int {
    posix(|| {
        let entry = table::find(fd)?;
        let way = match how {
            libc::SHUT_RD => Direction::Receive,
            libc::SHUT_WR => Direction::Send,
            libc::SHUT_RDWR => Direction::Both,
            _ => return Err(Errno::INVAL),
        };
        entry.stream().ok_or(Errno::NOTCONN)?.end(way)?;
        Ok(0)
    })
}

/// Ends a socket.
#[unsafe(no_mangle)]
pub extern "C" fn m3_close(fd: c_int) -> c_int {
    posix(|| table::close(fd))
}

/// One's own address.
///
/// # Safety
/// `address` and `length` are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    posix(|| {
        let own = table::find(fd)?.own_name()?;
        name::write(address, length, own)?;
        Ok(0)
    })
}

/// The other side's address.
///
/// # Safety
/// `address` and `length` are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    posix(|| {
        let peer = table::find(fd)?.peer_name().ok_or(Errno::NOTCONN)?;
        name::write(address, length, peer)?;
        Ok(0)
    })
}

/// Reads an option.
///
/// # Safety
/// `value` and `length` are checked to be memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    posix(|| option::get(fd, level, option, value, length))
}

/// Sets an option.
///
/// # Safety
/// `value` is checked to be memory of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    posix(|| option::set(fd, level, option, value, length))
}

/// Flags of a socket: `F_GETFL`, `F_SETFL`, `F_GETFD`, `F_SETFD`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    posix(|| option::flags(fd, command, argument))
}

/// `FIONREAD` and `FIONBIO`.
///
/// # Safety
/// `argument` is checked to be memory of an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    posix(|| option::control(fd, request, argument))
}
