//! A trial: whether connections of this process can get shared memory, and if not, why.
//!
//! Programs ask nobody and go on in the kernel. `m3 sock run` asks before it runs one: it makes
//! and removes the pair of two sockets of its own, by the steps of the programs. They are Unix
//! sockets, or TCP sockets where the kernel does not name the peers of the former.

use super::address::SocketAddress;
use super::{pairs, sock_diag};
use crate::kernel::socket::cookie;
use crate::kernel::{Errno, process};
use crate::memory::user_directory::{DirectoryFault, Name, UserDirectory};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

/// Why no connection gets shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The directory of the memory may not be used.
    Directory(DirectoryFault),
    /// A file for the memory of a connection cannot be made.
    Memory(Errno),
    /// The kernel names the peers of neither Unix nor TCP sockets.
    Peers(Errno),
}

/// The obstacle in the way of connections of this user, if there is one.
#[must_use]
pub fn obstacle() -> Option<Obstacle> {
    let was_present = UserDirectory::present().is_some();
    let directory = match UserDirectory::check() {
        Ok(directory) => directory,
        Err(fault) => return Some(Obstacle::Directory(fault)),
    };
    let found = make_and_remove(directory).err();
    if !was_present {
        // A program makes it again; with files of one in it the directory stays.
        let _ = std::fs::remove_dir(OsStr::from_bytes(directory.path().to_bytes()));
    }
    found
}

/// Two connected sockets by their numbers, and where the kernel finds them.
type Ends = [(u64, SocketAddress); 2];
/// The same while their descriptors are open.
type OpenPair = (Ends, [OwnedFd; 2]);

fn make_and_remove(directory: &UserDirectory) -> Result<(), Obstacle> {
    let unix = UnixStream::pair().map_err(errno).and_then(|(one, other)| {
        let ends = ends(one.as_raw_fd(), other.as_raw_fd(), libc::AF_UNIX)?;
        Ok((ends, [one.into(), other.into()]))
    });
    // A kernel may name the peers of one family alone.
    let (ends, _open): OpenPair = match unix {
        Ok(found) => found,
        Err(cause) => tcp_pair().map_err(|_| Obstacle::Peers(cause))?,
    };
    let made = pairs::claim(directory, &ends);
    for (cookie, _) in ends {
        directory.remove(Name::Pair(cookie));
    }
    made.map(drop).map_err(Obstacle::Memory)
}

fn errno(cause: std::io::Error) -> Errno {
    cause.raw_os_error().unwrap_or(libc::EIO)
}

fn tcp_pair() -> Result<OpenPair, Errno> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(errno)?;
    let one = TcpStream::connect(listener.local_addr().map_err(errno)?).map_err(errno)?;
    let (other, _) = listener.accept().map_err(errno)?;
    let ends = ends(one.as_raw_fd(), other.as_raw_fd(), libc::AF_INET)?;
    Ok((ends, [one.into(), other.into()]))
}

fn ends(one: RawFd, other: RawFd, family: i32) -> Result<Ends, Errno> {
    let address = SocketAddress::of(one, family)?;
    let (peer, there) = sock_diag::peer(&address)?;
    let own = cookie(one)?;
    // A kernel that knows a socket by another number, or by another user, names no peers.
    if peer.cookie != cookie(other)? || peer.user != process::user() || own == peer.cookie {
        return Err(libc::EOPNOTSUPP);
    }
    let mut ends = [(own, address), (peer.cookie, there)];
    ends.sort_by_key(|(cookie, _)| *cookie);
    Ok(ends)
}
