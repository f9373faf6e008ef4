//! Addresses of C: `struct sockaddr_in`.

use super::answer::{Answer, fault};
use crate::memory;
use core::ffi::c_char;
use libc::{sockaddr, sockaddr_in, socklen_t};
use m3ipc_abi::VM_NAME_MAX_BYTES;
use m3ipc_sockets::Errno;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Size of an address, in bytes.
const NAME_BYTES: usize = size_of::<sockaddr_in>();

/// Copies an address in.
pub(super) fn read(address: *const sockaddr, length: socklen_t) -> Answer<SocketAddrV4> {
    if usize::try_from(length).unwrap_or(0) < NAME_BYTES {
        return Err(Errno::INVAL);
    }
    read_or_none(address, length)?.ok_or(Errno::AFNOSUPPORT)
}

/// The same; none for `AF_UNSPEC`.
pub(super) fn read_or_none(
    address: *const sockaddr,
    length: socklen_t,
) -> Answer<Option<SocketAddrV4>> {
    let mut bytes = [0_u8; NAME_BYTES];
    let length = usize::try_from(length).unwrap_or(0).min(NAME_BYTES);
    memory::read_bytes(address.cast(), &mut bytes[..length]).map_err(fault)?;
    let [f0, f1, p0, p1, a, b, c, d, ..] = bytes;
    match i32::from(u16::from_ne_bytes([f0, f1])) {
        _ if length < 2 => Err(Errno::INVAL),
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET if length < NAME_BYTES => Err(Errno::INVAL),
        libc::AF_INET => {
            Ok(Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1]))))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Copies an address out, as far as there is room; nothing where nobody asks.
pub(super) fn write(
    address: *mut sockaddr,
    length: *mut socklen_t,
    name: SocketAddrV4,
) -> Answer<()> {
    if address.is_null() {
        return Ok(());
    }
    let room = memory::read(length).map_err(fault)?;
    let room = usize::try_from(room).unwrap_or(0).min(NAME_BYTES);
    let mut bytes = [0_u8; NAME_BYTES];
    bytes[..2].copy_from_slice(&u16::try_from(libc::AF_INET).unwrap_or(0).to_ne_bytes());
    bytes[2..4].copy_from_slice(&name.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&name.ip().octets());
    memory::write_bytes(address.cast(), &bytes[..room]).map_err(fault)?;
    memory::write(length, socklen_t::try_from(NAME_BYTES).unwrap_or(16)).map_err(fault)
}

/// Copies a name of a domain in.
pub(super) fn read_text(name: *const c_char) -> Answer<String> {
    let name = memory::read_text(name, VM_NAME_MAX_BYTES).map_err(fault)?;
    let name = name.map_err(|_too_long| Errno::NAMETOOLONG)?;
    String::from_utf8(name).map_err(|_no_text| Errno::INVAL)
}

/// There is no address to tell of.
pub(super) fn write_none(length: *mut socklen_t) -> Answer<()> {
    if length.is_null() { Ok(()) } else { memory::write(length, 0).map_err(fault) }
}
