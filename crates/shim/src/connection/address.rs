//! The address by which the kernel finds a socket, and the names of its ends.

use crate::kernel::socket::{NameOf, name};
use crate::kernel::{Errno, file};
use std::os::fd::RawFd;

/// An IPv4 address inside of an IPv6 address begins so.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const INET: u8 = 2;
const INET6: u8 = 10;
const UNIX: u8 = 1;

/// The address of a socket: family and ports (or the inode), own host, the peer's host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAddress {
    /// `AF_INET`, `AF_INET6` or `AF_UNIX`.
    pub family: u8,
    /// The inode of a Unix socket.
    pub inode: u32,
    /// Own port and the peer's, in network byte order.
    pub ports: [u16; 2],
    /// Own host and the peer's; of `AF_INET` the first four bytes.
    pub hosts: [[u8; 16]; 2],
}

impl SocketAddress {
    /// The address of a socket of ours.
    ///
    /// # Errors
    /// Of fstat(2), getsockname(2) and getpeername(2); `EAFNOSUPPORT` for another family.
    pub fn of(fd: RawFd, family: i32) -> Result<Self, Errno> {
        if family == libc::AF_UNIX {
            let inode = u32::try_from(file::stat(fd)?.st_ino).map_err(|_| libc::EINVAL)?;
            return Ok(Self { family: UNIX, inode, ..Self::default() });
        }
        let (own, peer) = (host(fd, NameOf::Own)?, host(fd, NameOf::Peer)?);
        Ok(Self { family: own.0, inode: 0, ports: [own.1, peer.1], hosts: [own.2, peer.2] })
    }

    /// Whether this is a Unix socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        self.family == UNIX
    }

    /// The address of the other end of a TCP connection.
    #[must_use]
    pub fn swapped(self) -> Self {
        let ([own, peer], [here, there]) = (self.ports, self.hosts);
        Self { ports: [peer, own], hosts: [there, here], ..self }
    }

    /// The address as six words of shared memory.
    #[must_use]
    pub fn encode(&self) -> [u64; 6] {
        let word = |bytes: &[u8; 16], at: usize| {
            bytes[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_ne_bytes(*chunk))
        };
        let ports = u64::from(self.ports[0]) << 16 | u64::from(self.ports[1]);
        let [own, peer] = &self.hosts;
        [
            u64::from(self.family) << 32 | u64::from(self.inode),
            ports,
            word(own, 0),
            word(own, 8),
            word(peer, 0),
            word(peer, 8),
        ]
    }

    /// The address in six words of shared memory. Any words give an address, perhaps of no socket.
    #[must_use]
    pub fn decode(words: [u64; 6]) -> Self {
        let bytes = |first: u64, second: u64| {
            let mut both = [0; 16];
            both[..8].copy_from_slice(&first.to_ne_bytes());
            both[8..].copy_from_slice(&second.to_ne_bytes());
            both
        };
        let [kind, ports, a, b, c, d] = words;
        Self {
            family: kind.to_le_bytes()[4],
            inode: u32::try_from(kind & 0xffff_ffff).unwrap_or(0),
            ports: [
                u16::try_from(ports >> 16 & 0xffff).unwrap_or(0),
                u16::try_from(ports & 0xffff).unwrap_or(0),
            ],
            hosts: [bytes(a, b), bytes(c, d)],
        }
    }
}

/// Family, port and host of one end. An IPv4 address inside of an IPv6 address counts as IPv4.
fn host(fd: RawFd, of: NameOf) -> Result<(u8, u16, [u8; 16]), Errno> {
    let mut bytes = [0_u8; 128];
    name(fd, of, &mut bytes)?;
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_ne_bytes([bytes[2], bytes[3]]);
    let mut host = [0; 16];
    match family {
        libc::AF_INET => {
            host[..4].copy_from_slice(&bytes[4..8]);
            Ok((INET, port, host))
        }
        libc::AF_INET6 if bytes[8..20] == MAPPED => {
            host[..4].copy_from_slice(&bytes[20..24]);
            Ok((INET, port, host))
        }
        libc::AF_INET6 => {
            host.copy_from_slice(&bytes[8..24]);
            Ok((INET6, port, host))
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Bytes of a name at most.
const NAME_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// The name of one end of a socket, as the program knows it.
#[derive(Clone, Copy, Debug)]
pub struct SocketName {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl SocketName {
    /// Asks the kernel; `None` where the socket has no such name.
    #[must_use]
    pub fn ask(fd: RawFd, of: NameOf) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES];
        let length = name(fd, of, &mut bytes).ok()?;
        Some(Self { bytes, length })
    }

    /// A name without a family, for a socket whose name is not known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { bytes: [0; NAME_BYTES], length: 0 }
    }

    fn family(&self) -> i32 {
        i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// The bytes of the name that the room of a caller takes, and the full length.
    ///
    /// `None` for a family without a name, which has two bytes.
    #[must_use]
    pub fn copied(&self, room: usize) -> Option<(&[u8], usize)> {
        let copied = self.length.min(room).min(NAME_BYTES);
        (self.length > 2).then_some((&self.bytes[..copied], self.length))
    }

    /// The port of a TCP socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        matches!(self.family(), libc::AF_INET | libc::AF_INET6)
            .then(|| u16::from_be_bytes([self.bytes[2], self.bytes[3]]))
    }

    /// The same name with `@` in front of an abstract path, as tools write it.
    #[must_use]
    pub fn printable(mut self) -> Self {
        if self.family() == libc::AF_UNIX && self.length > 2 && self.bytes[2] == 0 {
            self.bytes[2] = b'@';
        }
        self
    }

    /// The path of a Unix socket; `None` where there is none.
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        if self.family() != libc::AF_UNIX || self.length <= 2 {
            return None;
        }
        let path = &self.bytes[2..self.length.min(NAME_BYTES)];
        Some(path.split(|byte| *byte == 0).next().unwrap_or(path)).filter(|path| !path.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn an_address_survives_shared_memory() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let address = SocketAddress::of(one.as_raw_fd(), libc::AF_INET).unwrap();
        assert_eq!(SocketAddress::decode(address.encode()), address);
        assert_eq!(address.swapped().swapped(), address);
        let name = SocketName::ask(one.as_raw_fd(), NameOf::Own).unwrap();
        assert_eq!(name.port(), Some(one.local_addr().unwrap().port()));
        assert_eq!(name.path(), None);
    }

    #[test]
    fn an_abstract_path_begins_with_an_at_sign() {
        let mut name = SocketName::unknown();
        name.bytes[..6].copy_from_slice(&[1, 0, 0, b'a', b'b', b'c']);
        name.length = 6;
        assert_eq!(name.path(), None);
        assert_eq!(name.printable().path(), Some(&b"@abc"[..]));
        assert_eq!(name.copied(4), Some((&[1, 0, 0, b'a'][..], 6)));
        name.length = 2;
        assert!(name.copied(100).is_none() && name.printable().path().is_none());
    }
}
