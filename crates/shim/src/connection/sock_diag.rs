//! The peer of a socket, by the kernel's answer and never by bytes of the stream.
//!
//! A TCP socket is found by the four numbers of its connection, with both ends exchanged. A Unix
//! socket names the inode of its peer. Both answers hold the cookie, which no other socket ever
//! has, and the user. No privilege is needed.
//!
//! # Source
//! sock_diag(7)

use super::address::SocketAddress;
use crate::kernel::file::close;
use crate::kernel::{Errno, socket};
use std::os::fd::RawFd;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `UDIAG_SHOW_PEER` and `UDIAG_SHOW_UID`.
const UNIX_SHOW: u32 = 4 | 0x40;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_UID: u16 = 7;
/// Offset of `idiag_expires` in an answer for TCP.
const EXPIRES: usize = 68;
const REQUEST_BYTES: usize = 72;

/// The kernel's answer for one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// The cookie.
    pub cookie: u64,
    /// The user.
    pub user: u32,
    /// Bytes that lie unread in the socket.
    pub unread_bytes: u32,
    /// The inode of the peer of a Unix socket.
    pub peer_inode: u32,
    /// The state, by the numbers of tcp(7): 1 is established.
    pub state: u8,
    /// Whether a process has the socket: not in TIME_WAIT, and not before it is accepted.
    pub is_held: bool,
}

/// A netlink socket for questions, closed when dropped.
#[derive(Debug)]
pub struct Diag(RawFd);

impl Drop for Diag {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// The socket at an address.
///
/// # Errors
/// `ENOENT` where there is none.
pub fn look_up(address: &SocketAddress) -> Result<SocketInfo, Errno> {
    Diag::open()?.ask(address)
}

/// The peer of the socket at an address, and the peer's own address.
///
/// # Errors
/// `ENOENT` where there is none yet, or none on this machine.
pub fn peer(address: &SocketAddress) -> Result<(SocketInfo, SocketAddress), Errno> {
    let diag = Diag::open()?;
    let peer = if address.is_unix() {
        let own = diag.ask(address)?;
        if own.peer_inode == 0 {
            return Err(libc::ENOENT);
        }
        SocketAddress { inode: own.peer_inode, ..*address }
    } else {
        address.swapped()
    };
    diag.ask(&peer).map(|info| (info, peer))
}

impl Diag {
    /// A new socket.
    ///
    /// # Errors
    /// Of socket(2).
    pub fn open() -> Result<Self, Errno> {
        socket::open_diag().map(Self)
    }

    /// The socket at an address.
    ///
    /// # Errors
    /// `ENOENT` where there is none.
    pub fn ask(&self, address: &SocketAddress) -> Result<SocketInfo, Errno> {
        let request = if address.is_unix() { unix_request(address) } else { inet_request(address) };
        let length = usize::from(request[0]);
        socket::send_bytes(self.0, request.get(..length).unwrap_or(&[]), 0)?;
        let mut answer = [0_u8; 2048];
        let got = loop {
            match socket::receive_bytes(self.0, &mut answer, 0) {
                Err(libc::EINTR) => {}
                other => break other?,
            }
        };
        let answer = answer.get(..got).unwrap_or(&[]);
        if u16_at(answer, 4) != Some(SOCK_DIAG_BY_FAMILY) {
            // NLMSG_ERROR: a negative error number follows the header.
            let code = u32_at(answer, 16).map(|code| code.cast_signed().wrapping_neg());
            return Err(code.unwrap_or(libc::ENOENT));
        }
        let info = if address.is_unix() { unix_answer(answer) } else { inet_answer(answer) };
        info.ok_or(libc::ENOENT)
    }
}

fn header(bytes: u8) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[0] = bytes;
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6] = 1; // NLM_F_REQUEST
    request
}

fn inet_request(address: &SocketAddress) -> [u8; REQUEST_BYTES] {
    let mut request = header(72);
    request[16] = address.family;
    request[17] = 6; // TCP
    request[20..24].fill(0xff);
    request[24..26].copy_from_slice(&address.ports[0].to_ne_bytes());
    request[26..28].copy_from_slice(&address.ports[1].to_ne_bytes());
    request[28..44].copy_from_slice(&address.hosts[0]);
    request[44..60].copy_from_slice(&address.hosts[1]);
    request[64..72].fill(0xff); // any cookie
    request
}

fn unix_request(address: &SocketAddress) -> [u8; REQUEST_BYTES] {
    let mut request = header(40);
    request[16] = address.family;
    request[20..24].fill(0xff);
    request[24..28].copy_from_slice(&address.inode.to_ne_bytes());
    request[28..32].copy_from_slice(&UNIX_SHOW.to_ne_bytes());
    request[32..40].fill(0xff);
    request
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn cookie_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at + 4)?) << 32)
}

fn inet_answer(answer: &[u8]) -> Option<SocketInfo> {
    Some(SocketInfo {
        cookie: cookie_at(answer, 60)?,
        unread_bytes: u32_at(answer, EXPIRES + 4)?,
        user: u32_at(answer, EXPIRES + 12)?,
        peer_inode: 0,
        state: *answer.get(17)?,
        is_held: u32_at(answer, EXPIRES + 16)? != 0,
    })
}

fn unix_answer(answer: &[u8]) -> Option<SocketInfo> {
    let (cookie, state) = (cookie_at(answer, 24)?, *answer.get(18)?);
    let mut info =
        SocketInfo { cookie, state, user: u32::MAX, is_held: true, ..SocketInfo::default() };
    let mut at = 32;
    while let (Some(length), Some(kind)) = (u16_at(answer, at), u16_at(answer, at + 2)) {
        match kind {
            UNIX_DIAG_PEER => info.peer_inode = u32_at(answer, at + 4)?,
            UNIX_DIAG_UID => info.user = u32_at(answer, at + 4)?,
            _ => {}
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    Some(info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::process;
    use std::os::fd::AsRawFd;

    #[test]
    fn either_end_of_tcp_names_the_other() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let address = SocketAddress::of(one.as_raw_fd(), libc::AF_INET).unwrap();
        let (info, there) = peer(&address).unwrap();
        assert_eq!(info.cookie, socket::cookie(other.as_raw_fd()).unwrap());
        assert_eq!((info.user, info.unread_bytes), (process::user(), 0));
        assert_eq!(there, SocketAddress::of(other.as_raw_fd(), libc::AF_INET).unwrap());
        std::io::Write::write_all(&mut &one, b"seven b").unwrap();
        assert_eq!(look_up(&there).unwrap().unread_bytes, 7);
        assert!(look_up(&there).unwrap().is_held);
        // The end that closes first stays in TIME_WAIT for a minute, without a process.
        let mut all = Vec::new();
        drop(one);
        std::io::Read::read_to_end(&mut &other, &mut all).unwrap();
        drop(other);
        assert!(look_up(&address).map_or(true, |left| !left.is_held));
        drop(listener);
    }

    #[test]
    fn either_end_of_a_unix_socket_names_the_other() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let address = SocketAddress::of(one.as_raw_fd(), libc::AF_UNIX).unwrap();
        let (info, there) = peer(&address).unwrap();
        assert_eq!(info.cookie, socket::cookie(other.as_raw_fd()).unwrap());
        assert_eq!(info.user, process::user());
        assert_eq!(peer(&there).unwrap().0.cookie, socket::cookie(one.as_raw_fd()).unwrap());
        drop(other);
        assert_eq!(look_up(&there), Err(libc::ENOENT));
    }
}
