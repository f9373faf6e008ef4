//! Who is at the other end of a socket: asked of the kernel, never of the stream.
//!
//! TCP is looked up by the four numbers of a connection, turned around; a Unix socket tells the inode of its peer. Both give
//! the cookie, which no other socket ever has, and the user. Needs no privilege.
//!
//! # Source
//! sock_diag(7)

use super::raw::{self, Errno};
use std::os::fd::RawFd;

const TCPDIAG: u16 = 20; // SOCK_DIAG_BY_FAMILY
const UNIX_SHOW: u32 = 4 | 0x40; // UDIAG_SHOW_PEER, UDIAG_SHOW_UID
const UNIX_PEER: u16 = 2;
const UNIX_UID: u16 = 7;
const EXPIRES: usize = 68;

/// Where a socket is found: family and ports (or the inode), own address, the other address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// AF_INET, AF_INET6 or AF_UNIX.
    pub family: u8,
    /// Of a Unix socket.
    pub inode: u32,
    /// Own port and the other one, as they are on the wire.
    pub ports: [u16; 2],
    /// Own address and the other one; of AF_INET the first four bytes.
    pub hosts: [[u8; 16]; 2],
}

/// What the kernel says of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Its cookie.
    pub cookie: u64,
    /// Its user.
    pub user: u32,
    /// Bytes that lie unread in it.
    pub unread: u32,
    /// The inode of its peer, of a Unix socket.
    pub peer: u32,
    /// Its state, as tcp(7) numbers them: 1 is established.
    pub state: u8,
    /// Whether any process has it: not so in TIME_WAIT, nor before it is accepted.
    pub is_held: bool,
}

impl Address {
    /// Where this socket is found.
    pub(super) fn of(fd: RawFd, family: i32) -> Result<Self, Errno> {
        if family == libc::AF_UNIX {
            let inode = u32::try_from(raw::stat(fd)?.st_ino).map_err(|_| libc::EINVAL)?;
            return Ok(Self { family: 1, inode, ..Self::default() });
        }
        let (own, other) = (name(fd, libc::SYS_getsockname)?, name(fd, libc::SYS_getpeername)?);
        Ok(Self { family: own.0, inode: 0, ports: [own.1, other.1], hosts: [own.2, other.2] })
    }

    /// The other end of a TCP connection.
    pub(super) fn turned(self) -> Self {
        let ([own, other], [here, there]) = (self.ports, self.hosts);
        Self { ports: [other, own], hosts: [there, here], ..self }
    }

    /// As six words of shared memory.
    pub(super) fn encode(&self) -> [u64; 6] {
        let half = |bytes: &[u8; 16], at: usize| {
            bytes[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_ne_bytes(*chunk))
        };
        let ports = u64::from(self.ports[0]) << 16 | u64::from(self.ports[1]);
        let [own, other] = &self.hosts;
        [
            u64::from(self.family) << 32 | u64::from(self.inode),
            ports,
            half(own, 0),
            half(own, 8),
            half(other, 0),
            half(other, 8),
        ]
    }

    /// Whatever lies there is an address; of a socket that is not there, perhaps.
    pub(super) fn decode(words: [u64; 6]) -> Self {
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

/// A socket's name: family, port, host. Addresses of IPv4 in the clothes of IPv6 are IPv4.
#[allow(unsafe_code)]
fn name(fd: RawFd, which: libc::c_long) -> Result<(u8, u16, [u8; 16]), Errno> {
    let mut bytes = [0_u8; 128];
    let mut length: libc::socklen_t = 128;
    let (at, size) = (bytes.as_mut_ptr() as usize, (&raw mut length) as usize);
    // SAFETY: both are live, and `length` is the buffer's.
    unsafe { raw::call(which, [raw::reg(fd), at, size, 0, 0, 0])? };
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_ne_bytes([bytes[2], bytes[3]]);
    let mut host = [0; 16];
    match family {
        libc::AF_INET => host[..4].copy_from_slice(&bytes[4..8]),
        libc::AF_INET6 => host.copy_from_slice(&bytes[8..24]),
        _ => return Err(libc::EAFNOSUPPORT),
    }
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    if family == libc::AF_INET6 && host[..12] == MAPPED {
        let mut four = [0; 16];
        four[..4].copy_from_slice(&host[12..]);
        return Ok((2, port, four));
    }
    Ok((if family == libc::AF_INET { 2 } else { 10 }, port, host))
}

/// The cookie of a socket of ours.
pub(super) fn cookie(fd: RawFd) -> Result<u64, Errno> {
    raw::option::<u64>(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// A conversation with the kernel, closed when dropped.
struct Line(RawFd);

impl Drop for Line {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

#[allow(unsafe_code)]
fn open() -> Result<Line, Errno> {
    let kind = raw::reg(libc::SOCK_RAW | libc::SOCK_CLOEXEC);
    let (family, protocol) = (raw::reg(libc::AF_NETLINK), raw::reg(libc::NETLINK_SOCK_DIAG));
    // SAFETY: no pointers.
    let fd = unsafe { raw::call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0])? };
    RawFd::try_from(fd).map(Line).map_err(|_| libc::EMFILE)
}

/// What the kernel says of the socket at this address.
///
/// # Errors
/// `ENOENT` where there is none.
pub(super) fn look_up(address: &Address) -> Result<Found, Errno> {
    let line = open()?;
    ask(&line, address)
}

/// The other end of the socket at this address, and where that is found.
///
/// # Errors
/// `ENOENT` where there is none yet, or on this machine.
pub(super) fn peer(address: &Address) -> Result<(Found, Address), Errno> {
    let line = open()?;
    let other = if address.family == 1 {
        let own = ask(&line, address)?;
        if own.peer == 0 {
            return Err(libc::ENOENT);
        }
        Address { inode: own.peer, ..*address }
    } else {
        address.turned()
    };
    ask(&line, &other).map(|found| (found, other))
}

fn ask(line: &Line, address: &Address) -> Result<Found, Errno> {
    let mut request = [0_u8; 72];
    let length = if address.family == 1 {
        unix_request(&mut request, address)
    } else {
        inet_request(&mut request, address)
    };
    raw::send_bytes(line.0, request.get(..length).unwrap_or(&[]), 0)?;
    let mut answer = [0_u8; 2048];
    let got = loop {
        match raw::receive_bytes(line.0, &mut answer, 0) {
            Err(libc::EINTR) => {}
            other => break other?,
        }
    };
    let answer = answer.get(..got).unwrap_or(&[]);
    let kind = u16::from_ne_bytes([*answer.get(4).unwrap_or(&0), *answer.get(5).unwrap_or(&0)]);
    if kind != TCPDIAG {
        // NLMSG_ERROR: a negative errno follows the head.
        return Err(
            number(answer, 16).map_or(libc::ENOENT, |code| code.cast_signed().wrapping_neg())
        );
    }
    if address.family == 1 { unix_answer(answer) } else { inet_answer(answer) }.ok_or(libc::ENOENT)
}

fn head(request: &mut [u8], length: u8) {
    request[0] = length;
    request[4..6].copy_from_slice(&TCPDIAG.to_ne_bytes());
    request[6] = 1; // NLM_F_REQUEST
}

fn inet_request(request: &mut [u8; 72], address: &Address) -> usize {
    head(request, 72);
    request[16] = address.family;
    request[17] = 6; // TCP
    request[20..24].fill(0xff);
    request[24..26].copy_from_slice(&address.ports[0].to_ne_bytes());
    request[26..28].copy_from_slice(&address.ports[1].to_ne_bytes());
    request[28..44].copy_from_slice(&address.hosts[0]);
    request[44..60].copy_from_slice(&address.hosts[1]);
    request[64..72].fill(0xff); // any cookie
    72
}

fn unix_request(request: &mut [u8; 72], address: &Address) -> usize {
    head(request, 40);
    request[16] = 1;
    request[20..24].fill(0xff);
    request[24..28].copy_from_slice(&address.inode.to_ne_bytes());
    request[28..32].copy_from_slice(&UNIX_SHOW.to_ne_bytes());
    request[32..40].fill(0xff);
    40
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn cookie_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(number(bytes, at)?) | u64::from(number(bytes, at + 4)?) << 32)
}

fn inet_answer(answer: &[u8]) -> Option<Found> {
    Some(Found {
        cookie: cookie_at(answer, 60)?,
        unread: number(answer, EXPIRES + 4)?,
        user: number(answer, EXPIRES + 12)?,
        peer: 0,
        state: *answer.get(17)?,
        is_held: number(answer, EXPIRES + 16)? != 0,
    })
}

fn unix_answer(answer: &[u8]) -> Option<Found> {
    let (cookie, state) = (cookie_at(answer, 24)?, *answer.get(18)?);
    let mut found = Found { cookie, state, user: u32::MAX, is_held: true, ..Found::default() };
    let mut at = 32;
    while let Some(head) = number(answer, at) {
        let (length, kind) = (head.to_le_bytes(), (head >> 16).to_le_bytes());
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        match u16::from_le_bytes([kind[0], kind[1]]) {
            UNIX_PEER => found.peer = number(answer, at + 4)?,
            UNIX_UID => found.user = number(answer, at + 4)?,
            _ => {}
        }
        at += length.max(4).next_multiple_of(4);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn either_end_of_tcp_names_the_other() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let address = Address::of(one.as_raw_fd(), libc::AF_INET).unwrap();
        let (found, there) = peer(&address).unwrap();
        assert_eq!(found.cookie, cookie(other.as_raw_fd()).unwrap());
        assert_eq!((found.user, found.unread), (raw::user(), 0));
        assert_eq!(there, Address::of(other.as_raw_fd(), libc::AF_INET).unwrap());
        std::io::Write::write_all(&mut &one, b"seven b").unwrap();
        assert_eq!(look_up(&there).unwrap().unread, 7);
        assert!(look_up(&there).unwrap().is_held);
        assert_eq!(Address::decode(there.encode()), there);
        // Who closes first keeps the kernel busy for a minute, and nobody has it.
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
        let address = Address::of(one.as_raw_fd(), libc::AF_UNIX).unwrap();
        let (found, there) = peer(&address).unwrap();
        assert_eq!(found.cookie, cookie(other.as_raw_fd()).unwrap());
        assert_eq!(found.user, raw::user());
        assert_eq!(peer(&there).unwrap().0.cookie, cookie(one.as_raw_fd()).unwrap());
        drop(other);
        assert_eq!(look_up(&there), Err(libc::ENOENT));
    }
}
