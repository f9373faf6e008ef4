//! Addresses of C: `struct sockaddr_in`.

use super::posix::{PosixResult, fault};
use crate::memory::{ReadBytes, ReadText, TooLong, WriteBytes, WritePtr};
use libc::{sockaddr_in, socklen_t};
use m3ipc_abi::VM_NAME_MAX_BYTES;
use m3ipc_sockets::Errno;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Size of an address in bytes.
pub(crate) const ADDRESS_BYTES: usize = size_of::<sockaddr_in>();

/// Reads an address.
pub(crate) fn read(address: ReadBytes) -> PosixResult<SocketAddrV4> {
    if address.len() < ADDRESS_BYTES {
        return Err(Errno::INVAL);
    }
    read_or_unspecified(address)?.ok_or(Errno::AFNOSUPPORT)
}

/// Reads an address; `None` for `AF_UNSPEC`.
pub(crate) fn read_or_unspecified(address: ReadBytes) -> PosixResult<Option<SocketAddrV4>> {
    let mut bytes = [0_u8; ADDRESS_BYTES];
    let length = address.len().min(ADDRESS_BYTES);
    address.read(&mut bytes[..length]).map_err(fault)?;
    let [family0, family1, port0, port1, a, b, c, d, ..] = bytes;
    match i32::from(u16::from_ne_bytes([family0, family1])) {
        _ if length < 2 => Err(Errno::INVAL),
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET if length < ADDRESS_BYTES => Err(Errno::INVAL),
        libc::AF_INET => {
            let port = u16::from_be_bytes([port0, port1]);
            Ok(Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port)))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Where a call writes an address, and its length.
#[derive(Clone, Copy)]
pub(crate) struct AddressOut {
    pub(crate) address: WriteBytes,
    pub(crate) length: WritePtr<socklen_t>,
}

impl AddressOut {
    /// Writes an address as far as it fits, and its length; nothing if the pointer is NULL.
    pub(crate) fn write(self, value: SocketAddrV4) -> PosixResult<()> {
        if self.address.is_null() {
            return Ok(());
        }
        let room = usize::try_from(self.length.read().map_err(fault)?).unwrap_or(0);
        self.address.write(&bytes_of(value)[..room.min(ADDRESS_BYTES)]).map_err(fault)?;
        let length = socklen_t::try_from(ADDRESS_BYTES).unwrap_or(16);
        self.length.write(length).map_err(fault)
    }

    /// Writes that there is no address.
    pub(crate) fn write_none(self) -> PosixResult<()> {
        if self.length.is_null() { Ok(()) } else { self.length.write(0).map_err(fault) }
    }
}

/// The bytes of an address, as in memory of C.
pub(crate) fn bytes_of(value: SocketAddrV4) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0_u8; ADDRESS_BYTES];
    bytes[..2].copy_from_slice(&u16::try_from(libc::AF_INET).unwrap_or(0).to_ne_bytes());
    bytes[2..4].copy_from_slice(&value.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&value.ip().octets());
    bytes
}

/// Reads the name of a domain.
pub(crate) fn read_domain_name(name: ReadText) -> PosixResult<String> {
    let name = name.read(VM_NAME_MAX_BYTES).map_err(fault)?;
    let name = name.map_err(|TooLong| Errno::NAMETOOLONG)?;
    String::from_utf8(name).map_err(|_not_utf8| Errno::INVAL)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    fn read_bytes(bytes: &[u8]) -> PosixResult<Option<SocketAddrV4>> {
        // SAFETY: a live slice that no other thread writes.
        read_or_unspecified(unsafe { ReadBytes::new(bytes.as_ptr().cast(), bytes.len()) })
    }

    #[test]
    fn an_address_survives_both_conversions() {
        let address = SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 7), 4711);
        assert_eq!(read_bytes(&bytes_of(address)), Ok(Some(address)));
    }

    #[test]
    fn a_short_address_is_invalid_and_another_family_is_refused() {
        let bytes = bytes_of(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
        assert_eq!(read_bytes(&bytes[..15]), Err(Errno::INVAL));
        assert_eq!(read_bytes(&bytes[..1]), Err(Errno::INVAL));
        assert_eq!(read_bytes(&[0, 0]), Ok(None));
        let mut other = bytes;
        other[..2].copy_from_slice(&1_u16.to_ne_bytes());
        assert_eq!(read_bytes(&other), Err(Errno::AFNOSUPPORT));
    }
}
