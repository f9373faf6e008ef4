//! The life of a socket: bind, listen, accept, connect, shut down.

use super::address::{self, AddressOut};
use super::posix::{PosixResult, errno_of};
use super::table::{self, SocketEntry, SocketState};
use super::{domain, kernel};
use crate::memory::ReadBytes;
use core::ffi::c_int;
use core::time::Duration;
use m3ipc_sockets::{Direction, Errno, Stream};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// The pause between two attempts to connect while the listener's queue is full.
const CONNECT_PAUSE: Duration = Duration::from_millis(1);

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
    if !entry.is_stream() {
        let to = address::read_or_unspecified(address)?;
        entry.datagrams(fd, &mut entry.state())?.connect(to)?;
        return Ok(0);
    }
    let to = address::read(address)?;
    let from = begin_connect(&entry)?;
    // Without the lock: other calls on the socket go on while the listener's queue is full.
    let connected = try_connect(fd, &entry, to, from);
    end_connect(fd, &entry, from, connected)
}

/// Claims the socket for a connect. Returns the port to which it is bound, else 0.
fn begin_connect(entry: &SocketEntry) -> PosixResult<u16> {
    let mut state = entry.state();
    let from = match *state {
        SocketState::New => 0,
        SocketState::Bound(port) => port,
        SocketState::Connecting(_) => return Err(Errno::ALREADY),
        SocketState::Listening(_) | SocketState::Connected(..) => return Err(Errno::ISCONN),
        SocketState::Datagrams(_) => return Err(Errno::INVAL),
    };
    *state = SocketState::Connecting(from);
    Ok(from)
}

/// Connects. A signal ends the wait for room in the listener's queue, and so does m3_close.
fn try_connect(
    fd: c_int,
    entry: &Arc<SocketEntry>,
    to: SocketAddrV4,
    from: u16,
) -> PosixResult<Stream> {
    let domain = domain::get_or_join()?;
    loop {
        let errno = match domain.connect_from(to, from, false) {
            Ok(stream) => return Ok(stream),
            Err(error) => error.errno(),
        };
        if errno != Errno::AGAIN || entry.is_nonblocking() || !table::is_current(fd, entry) {
            return Err(errno);
        }
        kernel::pause(CONNECT_PAUSE)?;
    }
}

fn end_connect(
    fd: c_int,
    entry: &Arc<SocketEntry>,
    from: u16,
    connected: PosixResult<Stream>,
) -> PosixResult {
    let mut state = entry.state();
    if !table::is_current(fd, entry) {
        // The program closed the socket, and left the port to this call.
        if from != 0 {
            domain::get_or_join()?.release(from);
        }
        return Err(Errno::BADF);
    }
    *state = if from == 0 { SocketState::New } else { SocketState::Bound(from) };
    let mut stream = connected?;
    entry.attach_descriptor(fd, &stream)?;
    drop(entry.take_descriptor().map(|number| stream.replace_descriptor(number)));
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
