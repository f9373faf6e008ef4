//! The functions of `m3ipc/sock.h` that pass bytes and blocks.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`], also those inside a `struct msghdr`.
#![allow(unsafe_code)]

use super::sock::{address_in, address_out};
use crate::block::address_of;
use crate::memory::{ReadBytes, ReadPtr, WriteBytes, WritePtr};
use crate::sock::address::{self, ADDRESS_BYTES, bytes_of};
use crate::sock::block;
use crate::sock::posix::{PosixResult, fault, int_call, length_call};
use crate::sock::transfer::{self, Flags};
use core::ffi::{c_int, c_void};
use libc::{msghdr, size_t, sockaddr, socklen_t, ssize_t};
use m3ipc_sockets::Errno;
use std::net::SocketAddrV4;

/// The largest number of pieces of one message.
const PIECES_MAX: usize = 1024;

/// The pieces of a message. `piece` wraps the pointer and the length of each.
fn pieces<P>(header: &msghdr, piece: impl Fn(*mut c_void, usize) -> P) -> PosixResult<Vec<P>> {
    if header.msg_iovlen > PIECES_MAX {
        return Err(Errno::MSGSIZE);
    }
    // SAFETY: C lends `msg_iovlen` records at `msg_iov` for this call.
    let records = unsafe { ReadPtr::new(header.msg_iov.cast_const()) };
    let pieces = (0..header.msg_iovlen).map(|index| {
        let record = records.read_at(index).map_err(fault)?;
        Ok(piece(record.iov_base, record.iov_len))
    });
    pieces.collect()
}

/// Writes the sender of a datagram to `msg_name`, as far as it fits. Returns its length.
///
/// # Safety
/// C lends `msg_namelen` bytes at `msg_name` for this call.
unsafe fn write_name(header: &msghdr, from: SocketAddrV4) -> PosixResult<socklen_t> {
    if header.msg_name.is_null() {
        return Ok(header.msg_namelen);
    }
    let room = usize::try_from(header.msg_namelen).unwrap_or(0).min(ADDRESS_BYTES);
    // SAFETY: the caller of this function vouches for `room` bytes.
    unsafe { WriteBytes::new(header.msg_name, room) }.write(&bytes_of(from)).map_err(fault)?;
    Ok(socklen_t::try_from(ADDRESS_BYTES).unwrap_or(16))
}

/// `m3_send`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { ReadBytes::new(bytes, length) };
    length_call(|| transfer::send(fd, &[bytes], None, Flags(flags)))
}

/// `m3_sendto`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendto(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { ReadBytes::new(bytes, length) };
    let is_null = address.is_null();
    // SAFETY: C lends `address_length` bytes at `address` for this call.
    let address = unsafe { address_in(address, address_length) };
    length_call(|| {
        let to = if is_null { None } else { Some(address::read(address)?) };
        transfer::send(fd, &[bytes], to, Flags(flags))
    })
}

/// `m3_write`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { ReadBytes::new(bytes, length) };
    length_call(|| transfer::send(fd, &[bytes], None, Flags(0)))
}

/// `m3_sendmsg`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: C lends `message` for this call.
    let message = unsafe { ReadPtr::new(message) };
    length_call(|| {
        let header = message.read().map_err(fault)?;
        // SAFETY: C lends each piece of the message for this call.
        let pieces = pieces(&header, |start, bytes| unsafe { ReadBytes::new(start, bytes) })?;
        if header.msg_controllen != 0 {
            // Com-sockets have no control data, and must not drop it silently.
            return Err(Errno::INVAL);
        }
        let to = if header.msg_name.is_null() {
            None
        } else {
            // SAFETY: C lends `msg_namelen` bytes at `msg_name` for this call.
            Some(address::read(unsafe { address_in(header.msg_name.cast(), header.msg_namelen) })?)
        };
        transfer::send(fd, &pieces, to, Flags(flags))
    })
}

/// `m3_recv`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recv(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { WriteBytes::new(bytes, length) };
    length_call(|| Ok(transfer::receive(fd, &[bytes], Flags(flags))?.bytes))
}

/// `m3_recvfrom`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { WriteBytes::new(bytes, length) };
    // SAFETY: C lends both pointers for this call.
    let peer = unsafe { address_out(address, address_length) };
    length_call(|| {
        let received = transfer::receive(fd, &[bytes], Flags(flags))?;
        match received.from {
            Some(from) => peer.write(from)?,
            None => peer.write_none()?,
        }
        Ok(received.bytes)
    })
}

/// `m3_read`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_read(fd: c_int, bytes: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: C lends `length` bytes at `bytes` for this call.
    let bytes = unsafe { WriteBytes::new(bytes, length) };
    length_call(|| Ok(transfer::receive(fd, &[bytes], Flags(0))?.bytes))
}

/// `m3_recvmsg`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: C lends `message` for this call.
    let message = unsafe { WritePtr::new(message) };
    length_call(|| {
        let mut header = message.read().map_err(fault)?;
        // SAFETY: C lends each piece of the message for this call.
        let pieces = pieces(&header, |start, bytes| unsafe { WriteBytes::new(start, bytes) })?;
        message.check().map_err(fault)?;
        let received = transfer::receive(fd, &pieces, Flags(flags))?;
        header.msg_namelen = match received.from {
            // SAFETY: C lends `msg_namelen` bytes at `msg_name` for this call.
            Some(from) => unsafe { write_name(&header, from)? },
            None => 0,
        };
        header.msg_controllen = 0;
        header.msg_flags = if received.is_cut { libc::MSG_TRUNC } else { 0 };
        message.write(header).map_err(fault)?;
        Ok(received.bytes)
    })
}

/// `m3_stream_send_block`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_stream_send_block(fd: c_int, block: *mut c_void) -> c_int {
    int_call(|| block::send(fd, address_of(block)))
}

/// `m3_stream_receive_block`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_stream_receive_block(fd: c_int, block: *mut *mut c_void) -> ssize_t {
    // SAFETY: C lends `block` for this call.
    let block = unsafe { WritePtr::new(block) };
    length_call(|| block::receive(fd, block))
}
