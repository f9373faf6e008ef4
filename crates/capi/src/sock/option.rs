//! Options and flags.
//!
//! What the kernel's socket has it answers itself: limits of time and of buffers, the pending error. What describes
//! a com-socket is answered here; options of TCP are remembered and have no effect.
//!
//! # Safety
//! Values are copied through buffers of our own, of the length that the kernel is told.
#![allow(unsafe_code)]

use super::answer::{Answer, fault, last};
use super::table::{self, State};
use crate::memory;
use core::ffi::{c_int, c_long, c_ulong, c_void};
use libc::socklen_t;
use m3ipc_sockets::{Errno, SockKind};
use std::sync::PoisonError;

/// The longest value, in bytes.
const VALUE_MAX: usize = 64;

pub(super) fn get(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> Answer {
    let entry = table::find(fd)?;
    let stream = entry.kind == SockKind::Stream;
    let room = usize::try_from(memory::read(length).map_err(fault)?).unwrap_or(0);
    let own = match (level, option) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => {
            Some(if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM })
        }
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(libc::AF_INET),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => {
            Some(if stream { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP })
        }
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
            Some(c_int::from(matches!(*entry.state(), State::Listening(_))))
        }
        _ => None,
    };
    let told: Vec<u8> = if let Some(number) = own {
        number.to_ne_bytes().to_vec()
    } else if let Some(set) = remembered(&entry, level, option) {
        set
    } else if level == libc::SOL_SOCKET {
        let mut buffer = [0_u8; VALUE_MAX];
        let mut size = socklen_t::try_from(VALUE_MAX).unwrap_or(0);
        // SAFETY: a live buffer of `size` bytes; the kernel says how many it wrote.
        let done = unsafe {
            libc::getsockopt(fd, level, option, buffer.as_mut_ptr().cast(), &raw mut size)
        };
        if done < 0 {
            return Err(last());
        }
        buffer[..usize::try_from(size).unwrap_or(0).min(VALUE_MAX)].to_vec()
    } else if level == libc::IPPROTO_TCP && stream {
        0_i32.to_ne_bytes().to_vec()
    } else {
        return Err(Errno::NOPROTOOPT);
    };
    let count = told.len().min(room);
    memory::write_bytes(value, &told[..count]).map_err(fault)?;
    memory::write(length, socklen_t::try_from(count).unwrap_or(0)).map_err(fault)?;
    Ok(0)
}

/// What was set, where the kernel's socket does not know it: the one that listens, and options of TCP.
fn remembered(entry: &table::Entry, level: c_int, option: c_int) -> Option<Vec<u8>> {
    let listens = matches!(*entry.state(), State::Listening(_));
    let options = entry.options.lock().unwrap_or_else(PoisonError::into_inner);
    let set = options.iter().find(|(of, name, _)| (*of, *name) == (level, option));
    set.filter(|_| listens || level != libc::SOL_SOCKET).map(|(.., value)| value.clone())
}

pub(super) fn set(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> Answer {
    let entry = table::find(fd)?;
    let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    if length > VALUE_MAX {
        return Err(Errno::INVAL);
    }
    let mut bytes = vec![0_u8; length];
    memory::read_bytes(value, &mut bytes).map_err(fault)?;
    match level {
        libc::SOL_SOCKET => {
            let size = socklen_t::try_from(length).unwrap_or(0);
            // SAFETY: a live buffer of `size` bytes.
            let done = unsafe { libc::setsockopt(fd, level, option, bytes.as_ptr().cast(), size) };
            // A listener is an epoll of ours: what is set there is remembered.
            if done < 0 && last() != Errno::NOTSOCK {
                return Err(last());
            }
        }
        libc::IPPROTO_TCP if entry.kind == SockKind::Stream => {
            if length < size_of::<c_int>() {
                return Err(Errno::INVAL);
            }
        }
        _ => return Err(Errno::NOPROTOOPT),
    }
    if (level, option) == (libc::SOL_SOCKET, libc::SO_BROADCAST)
        && let State::Datagrams(socket) = &*entry.state()
    {
        socket.set_broadcast(bytes.iter().any(|byte| *byte != 0));
    }
    let mut options = entry.options.lock().unwrap_or_else(PoisonError::into_inner);
    options.retain(|(of, name, _)| (*of, *name) != (level, option));
    options.push((level, option, bytes));
    Ok(0)
}

pub(super) fn flags(fd: c_int, command: c_int, argument: c_long) -> Answer {
    let entry = table::find(fd)?;
    let argument = c_int::try_from(argument).map_err(|_| Errno::INVAL)?;
    match command {
        libc::F_GETFL => {
            Ok(libc::O_RDWR | if entry.is_nonblocking() { libc::O_NONBLOCK } else { 0 })
        }
        libc::F_SETFL => {
            entry.set_nonblocking(argument & libc::O_NONBLOCK != 0)?;
            Ok(0)
        }
        libc::F_GETFD | libc::F_SETFD => {
            // SAFETY: our own descriptor and two integers.
            let done = unsafe { libc::fcntl(fd, command, argument) };
            if done < 0 { Err(last()) } else { Ok(done) }
        }
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn control(fd: c_int, request: c_ulong, argument: *mut c_int) -> Answer {
    let entry = table::find(fd)?;
    match request {
        libc::FIONREAD => {
            let there = match entry.stream() {
                Some(stream) => c_int::try_from(stream.available()?).unwrap_or(c_int::MAX),
                None => return Err(Errno::INVAL),
            };
            memory::write(argument, there).map_err(fault)?;
        }
        libc::FIONBIO => {
            entry.set_nonblocking(memory::read(argument).map_err(fault)? != 0)?;
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(0)
}
