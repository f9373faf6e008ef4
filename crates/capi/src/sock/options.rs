//! Options and flags of sockets.
//!
//! The kernel's socket behind a com-socket answers for time limits, buffer sizes and the pending
//! error. This file answers for options that describe the com-socket. It stores options of TCP,
//! without effect.

use super::kernel;
use super::posix::{PosixResult, fault};
use super::table::{self, SocketEntry, SocketState};
use crate::memory::{ReadBytes, WriteBytes, WritePtr};
use core::ffi::{c_int, c_long, c_ulong};
use libc::socklen_t;
use m3ipc_sockets::Errno;

/// The longest value in bytes.
const VALUE_MAX_BYTES: usize = 64;

/// Reads an option. `length` has the size of `value` and receives the size of the option.
pub(crate) fn get(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: WriteBytes,
    length: WritePtr<socklen_t>,
) -> PosixResult {
    let entry = table::find(fd)?;
    let room = usize::try_from(length.read().map_err(fault)?).unwrap_or(0);
    let bytes = value_of(&entry, fd, level, option)?;
    let count = bytes.len().min(room);
    value.write(&bytes[..count]).map_err(fault)?;
    length.write(socklen_t::try_from(count).unwrap_or(0)).map_err(fault)?;
    Ok(0)
}

fn value_of(entry: &SocketEntry, fd: c_int, level: c_int, option: c_int) -> PosixResult<Vec<u8>> {
    let listens = matches!(*entry.state(), SocketState::Listening(_));
    let stream = entry.is_stream();
    let own = match (level, option) {
        (libc::SOL_SOCKET, libc::SO_TYPE) if stream => Some(libc::SOCK_STREAM),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(libc::SOCK_DGRAM),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(libc::AF_INET),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if stream => Some(libc::IPPROTO_TCP),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(libc::IPPROTO_UDP),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Some(c_int::from(listens)),
        _ => None,
    };
    if let Some(number) = own {
        return Ok(number.to_ne_bytes().to_vec());
    }
    // The kernel's descriptor of a listener is no socket, and no kernel socket has options of TCP.
    if (listens || level != libc::SOL_SOCKET)
        && let Some(stored) = entry.option(level, option)
    {
        return Ok(stored);
    }
    match level {
        libc::SOL_SOCKET => {
            let mut buffer = [0_u8; VALUE_MAX_BYTES];
            let count = kernel::get_option(fd, level, option, &mut buffer)?;
            Ok(buffer[..count].to_vec())
        }
        libc::IPPROTO_TCP if stream => Ok(0_i32.to_ne_bytes().to_vec()),
        _ => Err(Errno::NOPROTOOPT),
    }
}

/// Sets an option.
pub(crate) fn set(fd: c_int, level: c_int, option: c_int, value: ReadBytes) -> PosixResult {
    let entry = table::find(fd)?;
    if value.len() > VALUE_MAX_BYTES {
        return Err(Errno::INVAL);
    }
    let mut bytes = vec![0_u8; value.len()];
    value.read(&mut bytes).map_err(fault)?;
    match level {
        libc::SOL_SOCKET => match kernel::set_option(fd, level, option, &bytes) {
            // The kernel's descriptor of a listener is an epoll set: only store the option.
            Ok(_) | Err(Errno::NOTSOCK) => {}
            Err(errno) => return Err(errno),
        },
        libc::IPPROTO_TCP if entry.is_stream() => {
            if bytes.len() < size_of::<c_int>() {
                return Err(Errno::INVAL);
            }
        }
        _ => return Err(Errno::NOPROTOOPT),
    }
    if level == libc::SOL_SOCKET
        && let SocketState::Datagrams(socket) = &*entry.state()
    {
        match option {
            libc::SO_BROADCAST => socket.set_broadcast(bytes.iter().any(|byte| *byte != 0)),
            libc::SO_SNDTIMEO | libc::SO_SNDBUF => socket.renew_send_options(),
            _ => {}
        }
    }
    entry.store_option(level, option, bytes);
    Ok(0)
}

/// `F_GETFL`, `F_SETFL`, `F_GETFD`, `F_SETFD`.
pub(crate) fn flags(fd: c_int, command: c_int, argument: c_long) -> PosixResult {
    let entry = table::find(fd)?;
    let argument = c_int::try_from(argument).map_err(|_too_large| Errno::INVAL)?;
    match command {
        libc::F_GETFL => {
            Ok(libc::O_RDWR | if entry.is_nonblocking() { libc::O_NONBLOCK } else { 0 })
        }
        libc::F_SETFL => {
            entry.set_nonblocking(argument & libc::O_NONBLOCK != 0)?;
            Ok(0)
        }
        libc::F_GETFD | libc::F_SETFD => kernel::descriptor_flags(fd, command, argument),
        _ => Err(Errno::INVAL),
    }
}

/// `FIONREAD` and `FIONBIO`.
pub(crate) fn control(fd: c_int, request: c_ulong, argument: WritePtr<c_int>) -> PosixResult {
    let entry = table::find(fd)?;
    match request {
        libc::FIONREAD => {
            let stream = entry.stream().ok_or(Errno::INVAL)?;
            let available = c_int::try_from(stream.available()?).unwrap_or(c_int::MAX);
            argument.write(available).map_err(fault)?;
        }
        libc::FIONBIO => {
            entry.set_nonblocking(argument.read().map_err(fault)? != 0)?;
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(0)
}
