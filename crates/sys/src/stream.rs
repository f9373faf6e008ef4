//! Connected sockets between two processes, for com-sockets.
//!
//! The node daemon makes them and gives one end to each side. From Linux 6.16 on, they refuse
//! descriptors. The functions for receiving never take descriptors.

use crate::credentials::refuse_descriptors;
use crate::descriptors::above_standard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, recv, recvmsg, sendmsg, shutdown, socket_with,
    socketpair, sockopt,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// The direction of a connection that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The socket receives no more bytes.
    Receive,
    /// The socket sends no more bytes.
    Send,
    /// Both directions.
    Both,
}

/// Both ends of a connection for bytes.
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`.
///
/// # Source
/// socketpair(2), unix(7)
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let (one, other) = (above_standard(one)?, above_standard(other)?);
    refuse_descriptors(&one);
    refuse_descriptors(&other);
    Ok((one, other))
}

/// Connects to the listener for bytes at `path` within a time limit. The queue of a stopped
/// listener may be full.
///
/// # Errors
/// `NOENT`, `CONNREFUSED` without a listener; `ACCES`; `AGAIN` if the limit passed.
///
/// # Source
/// unix(7); socket(7), `SO_SNDTIMEO`
pub fn connect_stream_within(path: &Path, limit: Duration) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        above_standard(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)?;
    // A limit of 0 would be none.
    let limit = limit.max(Duration::from_millis(1));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// All bytes up to the end of the other side, which all come within this time limit.
///
/// # Errors
/// `AGAIN` if the limit passed; `MSGSIZE` if there are more than `max_bytes`; those of a receive.
pub fn read_within(socket: impl AsFd, max_bytes: usize, limit: Duration) -> Result<Vec<u8>, Errno> {
    let end = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        if left_ns == 0 || !crate::wait_readable(&[socket.as_fd()], left_ns)? {
            return Err(Errno::AGAIN);
        }
        match receive_bytes(&socket, &mut part, ReceiveFlags::default()) {
            Ok(0) => return Ok(bytes),
            Ok(taken) if bytes.len() + taken > max_bytes => return Err(Errno::MSGSIZE),
            Ok(taken) => bytes.extend_from_slice(&part[..taken]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Both ends of a connection for packets with descriptors. The first end does not block, and
/// refuses descriptors.
///
/// # Errors
/// Those of [`stream_pair`].
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let (one, other) = (above_standard(one)?, above_standard(other)?);
    refuse_descriptors(&one);
    rustix::io::ioctl_fionbio(&one, true)?;
    Ok((one, other))
}

/// Flags of a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// Sleep until there are bytes, within the socket's own time limit.
    pub wait: bool,
    /// Leave the received bytes in the socket.
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

/// Receives bytes; returns 0 after the end of the other side.
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

/// Sends two runs of bytes as one, as far as the socket accepts them. Never raises SIGPIPE.
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

/// Whether the other side is gone in both directions, or the connection is broken.
///
/// # Errors
/// Those of poll(2).
pub fn has_hung_up(socket: impl AsFd) -> Result<bool, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut fds, Some(&now))?;
    Ok(fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// The number of bytes in the receive queue of a socket.
///
/// # Errors
/// Those of ioctl(2).
///
/// # Source
/// unix(7), `SIOCINQ`
pub fn queued_bytes(socket: impl AsFd) -> Result<u64, Errno> {
    rustix::io::ioctl_fionread(socket)
}

/// Ends one direction of a connection, or both.
///
/// # Errors
/// `NOTCONN`.
pub fn shut_down(socket: impl AsFd, direction: Direction) -> Result<(), Errno> {
    let how = match direction {
        Direction::Receive => Shutdown::Read,
        Direction::Send => Shutdown::Write,
        Direction::Both => Shutdown::Both,
    };
    shutdown(socket, how)
}

fn datagram_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = above_standard(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)?;
    refuse_descriptors(&socket);
    Ok(socket)
}

/// A socket that receives datagrams at `path`.
///
/// # Errors
/// `ADDRINUSE`, `ACCES`, `NAMETOOLONG`, `MFILE`.
pub fn bind_datagrams(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = datagram_socket()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// A socket that sends datagrams to `path`, with the source address `source`. The file of `source`
/// exists only during this call.
///
/// # Errors
/// `CONNREFUSED`, `NOENT` without a receiver at `path`; those of [`bind_datagrams`].
pub fn connect_datagrams(path: &Path, source: &Path) -> Result<OwnedFd, Errno> {
    let socket = datagram_socket()?;
    bind(&socket, &SocketAddrUnix::new(source)?)?;
    let connected = connect(&socket, &SocketAddrUnix::new(path)?);
    // The kernel keeps the address with the socket.
    let _ = std::fs::remove_file(source);
    connected.map(|()| socket)
}

/// A received datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Received bytes. The kernel drops the rest of a longer datagram.
    pub taken: usize,
    /// Length of the datagram, in bytes.
    pub sent: usize,
    /// The last component of its source address; empty without one.
    pub source: String,
}

/// Receives one datagram. The kernel drops its descriptors.
///
/// # Errors
/// `AGAIN`, `INTR`.
pub fn receive_datagram(
    socket: impl AsFd,
    bytes: &mut [u8],
    how: ReceiveFlags,
) -> Result<Datagram, Errno> {
    let capacity = bytes.len();
    let mut control = rustix::net::RecvAncillaryBuffer::default();
    let flags = how.flags() | RecvFlags::TRUNC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let name = got.address.and_then(|address| SocketAddrUnix::try_from(address).ok());
    let name = name.and_then(|name| Some(String::from_utf8_lossy(name.path_bytes()?).into_owned()));
    let source =
        name.and_then(|name| name.rsplit('/').next().map(str::to_owned)).unwrap_or_default();
    Ok(Datagram { taken: got.bytes.min(capacity), sent: got.bytes, source })
}

/// Gives a socket the time limit and the buffer of another one, for sending.
///
/// # Errors
/// Those of setsockopt(2).
///
/// # Source
/// socket(7), `SO_SNDTIMEO`, `SO_SNDBUF`
pub fn copy_send_options(from: impl AsFd, to: impl AsFd) -> Result<(), Errno> {
    let limit = sockopt::socket_timeout(&from, sockopt::Timeout::Send)?;
    sockopt::set_socket_timeout(&to, sockopt::Timeout::Send, limit)?;
    // The kernel reports twice the size that was set.
    let bytes = sockopt::socket_send_buffer_size(&from)?;
    sockopt::set_socket_send_buffer_size(&to, bytes / 2)
}

/// The path of a bound Unix socket.
///
/// # Errors
/// `NOENT` if it is not bound to a path.
pub fn bound_path(socket: impl AsFd) -> Result<std::path::PathBuf, Errno> {
    use std::os::unix::ffi::OsStrExt;
    let name = SocketAddrUnix::try_from(rustix::net::getsockname(socket)?)
        .map_err(|_other| Errno::INVAL)?;
    let bytes = name.path_bytes().ok_or(Errno::NOENT)?.to_vec();
    Ok(std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

/// Makes calls on this descriptor fail instead of sleep, or sleep again.
///
/// # Errors
/// Those of ioctl(2).
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(fd, nonblocking)
}
