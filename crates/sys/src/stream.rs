//! Connected sockets between two processes: what com-sockets are made of.
//!
//! The node daemon makes them and gives one end to each side. They refuse
//! descriptors where the kernel can (Linux 6.16); what is received here never takes any.

use crate::credentials::refuse_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recv, recvmsg, sendmsg, shutdown, socket_with,
    socketpair,
};
use std::path::Path;

/// Which way of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing more is received.
    Receive,
    /// Nothing more is sent.
    Send,
    /// Neither.
    Both,
}

/// Two ends of a connection for bytes.
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`.
///
/// # Source
/// socketpair(2), unix(7)
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    refuse_descriptors(&one);
    refuse_descriptors(&other);
    Ok((one, other))
}

/// Two ends of a connection for packets with descriptors: the first, which does not block, takes none.
///
/// # Errors
/// Of [`stream_pair`].
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    refuse_descriptors(&one);
    rustix::io::ioctl_fionbio(&one, true)?;
    Ok((one, other))
}

/// How to receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// Sleep until there is something, as long as the socket's own options say.
    pub wait: bool,
    /// Leave what was received where it is.
    pub peek: bool,
}

impl ReceiveFlags {
    fn flags(self) -> RecvFlags {
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::DONTWAIT, !self.wait);
        flags.set(RecvFlags::PEEK, self.peek);
        flags
    }
}

/// Receives bytes; 0 where the other side has ended.
///
/// # Errors
/// `AGAIN`, `INTR`, `CONNRESET`.
pub fn receive_bytes(
    socket: impl AsFd,
    bytes: &mut [u8],
    how: ReceiveFlags,
) -> Result<usize, Errno> {
    recv(socket, bytes, how.flags()).map(|(taken, _sent)| taken)
}

/// Sends two runs of bytes as one, as far as there is room; never raises SIGPIPE.
///
/// # Errors
/// `AGAIN`, `INTR`, `PIPE`, `CONNRESET`.
pub fn send_bytes(socket: impl AsFd, head: &[u8], body: &[u8], wait: bool) -> Result<usize, Errno> {
    let flags = if wait { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
    sendmsg(
        socket,
        &[IoSlice::new(head), IoSlice::new(body)],
        &mut SendAncillaryBuffer::default(),
        flags,
    )
}

/// Whether the other side has gone altogether, or the connection is broken.
///
/// # Errors
/// Of poll(2).
pub fn has_hung_up(socket: impl AsFd) -> Result<bool, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut fds, Some(&now))?;
    Ok(fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Ends one way of a connection, or both.
///
/// # Errors
/// `NOTCONN`.
pub fn shut_down(socket: impl AsFd, way: Direction) -> Result<(), Errno> {
    let how = match way {
        Direction::Receive => Shutdown::Read,
        Direction::Send => Shutdown::Write,
        Direction::Both => Shutdown::Both,
    };
    shutdown(socket, how)
}

fn datagram_socket() -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    refuse_descriptors(&socket);
    Ok(socket)
}

/// A socket for datagrams that are sent to `path`.
///
/// # Errors
/// `ADDRINUSE`, `ACCES`, `NAMETOOLONG`, `MFILE`.
pub fn bind_datagrams(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = datagram_socket()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A socket that sends datagrams to `path`; they come from `source`, a name that is taken for no longer
/// than this call.
///
/// # Errors
/// `CONNREFUSED`, `NOENT` where nobody receives there; those of [`datagrams_at`].
pub fn connect_datagrams(path: &Path, source: &Path) -> Result<OwnedFd, Errno> {
    let socket = datagram_socket()?;
    bind(&socket, &SocketAddrUnix::new(source)?)?;
    let connected = connect(&socket, &SocketAddrUnix::new(path)?);
    // The kernel keeps the name with the socket.
    let _ = std::fs::remove_file(source);
    connected.map(|()| socket)
}

/// A datagram as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes taken; those that did not fit are lost.
    pub taken: usize,
    /// Bytes it had.
    pub sent: usize,
    /// The last part of the name it came from; empty where it had none.
    pub source: String,
}

/// Receives one datagram; descriptors that came with it are dropped by the kernel.
///
/// # Errors
/// `AGAIN`, `INTR`.
pub fn receive_datagram(
    socket: impl AsFd,
    bytes: &mut [u8],
    how: ReceiveFlags,
) -> Result<Datagram, Errno> {
    let room = bytes.len();
    let mut control = rustix::net::RecvAncillaryBuffer::default();
    let flags = how.flags() | RecvFlags::TRUNC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let name = got.address.and_then(|address| SocketAddrUnix::try_from(address).ok());
    let name = name.and_then(|name| Some(String::from_utf8_lossy(name.path_bytes()?).into_owned()));
    let source =
        name.and_then(|name| name.rsplit('/').next().map(str::to_owned)).unwrap_or_default();
    Ok(Datagram { taken: got.bytes.min(room), sent: got.bytes, source })
}

/// The file that a Unix socket is bound at.
///
/// # Errors
/// `NOENT` where it has no such name.
pub fn bound_path(socket: impl AsFd) -> Result<std::path::PathBuf, Errno> {
    use std::os::unix::ffi::OsStrExt;
    let name = SocketAddrUnix::try_from(rustix::net::getsockname(socket)?)
        .map_err(|_other| Errno::INVAL)?;
    let bytes = name.path_bytes().ok_or(Errno::NOENT)?.to_vec();
    Ok(std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

/// Whether calls on this descriptor fail rather than sleep.
///
/// # Errors
/// Of ioctl(2).
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(fd, nonblocking)
}
