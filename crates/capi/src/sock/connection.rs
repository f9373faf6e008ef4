//! The life of a socket: bind, listen, accept, connect, shut down.

use super::address::{self, AddressOut};
use super::domain;
use super::posix::{PosixResult, errno_of};
use super::table::{self, SocketState};
use crate::memory::ReadBytes;
use core::ffi::c_int;
use m3ipc_sockets::{Direction, Errno};
use std::sync::Arc;

pub(crate) fn bind(fd: c_int, address: ReadBytes) -> PosixResult {
    let entry = table::find(fd)?;
    let address = address::read(address)?;
    let domain = domain::get_or_join()?;
    if !domain.is_own(*address.ip()) && *address.ip() != domain.broadcast() {
        return Err(Errno::ADDRNOTAVAIL);
    }
    let mut state = entry.state();
    if !matches!(*state, SocketState::New) {
        return Err(Errno::INVAL);
    }
    *state = if entry.is_stream() {
        SocketState::Bound(domain.reserve(address.port())?)
    } else {
        entry.bind_datagrams(fd, &domain, address.port())?
    };
    Ok(0)
}

pub(crate) fn listen(fd: c_int, backlog: c_int) -> PosixResult {
    let entry = table::find(fd)?;
    if !entry.is_stream() {
        return Err(Errno::OPNOTSUPP);
    }
    let mut state = entry.state();
    let domain = domain::get_or_join()?;
    let port = match *state {
        SocketState::New => domain.reserve(0)?,
        SocketState::Bound(port) => port,
        SocketState::Listening(_) => return Ok(0),
        _ => return Err(Errno::INVAL),
    };
    let listener = domain.listen_reserved(port, u32::try_from(backlog).unwrap_or(0))?;
    entry.attach_descriptor(fd, &listener)?;
    *state = SocketState::Listening(Arc::new(listener));
    Ok(0)
}

pub(crate) fn accept(fd: c_int, peer: AddressOut, flags: c_int) -> PosixResult {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    let entry = table::find(fd)?;
    if !entry.is_stream() {
        return Err(Errno::OPNOTSUPP);
    }
    let listener = match &*entry.state() {
        SocketState::Listening(listener) => Arc::clone(listener),
        _ => return Err(Errno::INVAL),
    };
    let stream = listener.accept_timeout(!entry.is_nonblocking(), entry.receive_limit_ns())?;
    peer.write(stream.peer_addr())?;
    table::accepted(stream, flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0)
}

pub(crate) fn connect(fd: c_int, address: ReadBytes) -> PosixResult {
    let entry = table::find(fd)?;
    let mut state = entry.state();
    if !entry.is_stream() {
        let to = address::read_or_unspecified(address)?;
        entry.datagrams(fd, &mut state)?.connect(to)?;
        return Ok(0);
    }
    let to = address::read(address)?;
    let from = match *state {
        SocketState::New => 0,
        SocketState::Bound(port) => port,
        SocketState::Listening(_) | SocketState::Connected(..) => return Err(Errno::ISCONN),
        SocketState::Datagrams(_) => return Err(Errno::INVAL),
    };
    let stream = domain::get_or_join()?.connect_from(to, from, !entry.is_nonblocking())?;
    entry.attach_descriptor(fd, &stream)?;
    stream.set_nonblocking(entry.is_nonblocking()).map_err(|error| errno_of(&error))?;
    *state = SocketState::Connected(Arc::new(stream), from);
    Ok(0)
}

pub(crate) fn shut_down(fd: c_int, how: c_int) -> PosixResult {
    let entry = table::find(fd)?;
    let direction = match how {
        libc::SHUT_RD => Direction::Receive,
        libc::SHUT_WR => Direction::Send,
        libc::SHUT_RDWR => Direction::Both,
        _ => return Err(Errno::INVAL),
    };
    entry.stream().ok_or(Errno::NOTCONN)?.shutdown(direction)?;
    Ok(0)
}
