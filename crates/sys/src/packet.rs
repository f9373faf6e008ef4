//! The sockets of the control plane: Unix SEQPACKET, with one frame in each packet.
//!
//! Descriptors travel from the daemon to members only. Credentials of the sender travel from
//! members to the daemon.
//!
//! # Safety
//! The function for the inherited descriptor takes it over once.
#![allow(unsafe_code)]

use crate::descriptors::above_standard;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, chmod};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect as connect_to, listen as listen_on, recv, recvmsg, sendmsg,
    socket_with, sockopt,
};
use std::path::Path;
use std::time::Duration;

/// The number of the request on all supported machines; that of `TIOCOUTQ`.
const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
/// Highest number of descriptors of one packet.
pub const PACKET_FDS_MAX: usize = 8;

/// The bytes that were sent through a socket and that its other side has not read, with the
/// kernel's overhead.
///
/// # Errors
/// Those of ioctl(2).
///
/// # Source
/// unix(7), `SIOCOUTQ`
pub fn unread_bytes(socket: impl AsFd) -> Result<usize, Errno> {
    // SAFETY: SIOCOUTQ writes one int, as unix(7) says. The getter provides the place for it.
    let bytes = unsafe {
        let outq = rustix::ioctl::Getter::<SIOCOUTQ, i32>::new();
        rustix::ioctl::ioctl(socket, outq)?
    };
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// The result of one received packet.
#[derive(Debug)]
pub struct Packet {
    /// Length of the packet in bytes; 0 if the peer is gone.
    pub bytes: usize,
    /// Its descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
    /// The process id of the sender, if the socket passes credentials.
    pub sender_pid: Option<i32>,
    /// Whether the packet or its descriptors did not fit.
    pub truncated: bool,
}

fn packet_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    above_standard(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Listens at `path`, non-blocking. The socket has these permission bits before anyone can connect.
/// No other user can write in its directory.
///
/// # Errors
/// `ADDRINUSE` if the path exists; `NAMETOOLONG`, `ACCES`, ...
///
/// # Source
/// unix(7)
pub fn listen(path: &Path, mode: u32) -> Result<OwnedFd, Errno> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    crate::credentials::refuse_descriptors(&socket);
    pass_credentials(&socket)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The umask decided the bits so far. A bound socket refuses connections until it listens.
    chmod(path, Mode::from_raw_mode(mode))?;
    listen_on(&socket, 4096)?;
    Ok(socket)
}

/// The listener from systemd: descriptor 3, if it is for this process.
///
/// # Source
/// sd_listen_fds(3)
#[must_use]
pub fn inherited_listener() -> Option<OwnedFd> {
    let pid: u32 = crate::text_variable("LISTEN_PID")?.parse().ok()?;
    let count: i32 = crate::text_variable("LISTEN_FDS")?.parse().ok()?;
    if pid != std::process::id() || count < 1 {
        return None;
    }
    // SAFETY: systemd gave descriptor 3 to this process (LISTEN_PID says so), and no other code
    // here uses it.
    let listener = unsafe { OwnedFd::from_raw_fd(3) };
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC).ok()?;
    rustix::io::ioctl_fionbio(&listener, true).ok()?;
    crate::credentials::refuse_descriptors(&listener);
    pass_credentials(&listener).ok()?;
    Some(listener)
}

/// Accepts one connection, non-blocking. The kernel passes the credentials of every sender.
///
/// # Errors
/// `AGAIN` without a waiting connection; `MFILE`, `NFILE`.
pub fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = above_standard(accept_with(listener, flags)?)?;
    pass_credentials(&socket)?;
    Ok(socket)
}

/// Asks the kernel for the credentials of senders. The kernel adds them if either end has asked
/// when the packet is sent. The first packet may precede the accept, so the sender asks too. From
/// Linux 6.16 on, an accepted socket inherits the setting of its listener.
fn pass_credentials(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_socket_passcred(socket, true)
}

/// Connects to the listener at `path`.
///
/// # Errors
/// `NOENT`, `CONNREFUSED` without a listener; `ACCES`.
pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    connect_socket(packet_socket(SocketFlags::empty())?, path)
}

/// Connects to the listener at `path` within a time limit. The queue of a stopped listener may be
/// full.
///
/// # Errors
/// As [`connect`]; `AGAIN` if the limit passed.
///
/// # Source
/// socket(7), `SO_SNDTIMEO`
pub fn connect_within(path: &Path, limit: Duration) -> Result<OwnedFd, Errno> {
    let socket = packet_socket(SocketFlags::empty())?;
    // A limit of 0 would be none.
    let limit = limit.max(Duration::from_millis(1));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
    connect_socket(socket, path)
}

fn connect_socket(socket: OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    pass_credentials(&socket)?;
    connect_to(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends one packet, and never raises SIGPIPE. The call does not block unless `wait` is set.
///
/// # Errors
/// `AGAIN`, `PIPE`, `CONNRESET`, `TOOMANYREFS`, `MSGSIZE`.
pub fn send_packet(
    socket: impl AsFd,
    frame: &[u8],
    fds: &[BorrowedFd<'_>],
    wait: bool,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let flags = if wait { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
    let sent = sendmsg(socket, &[IoSlice::new(frame)], &mut control, flags)?;
    if sent == frame.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// The length of the packet that a receive takes next, in bytes; 0 if the peer is gone. Never
/// waits.
///
/// # Errors
/// `AGAIN`, `INTR`, `CONNRESET`.
///
/// # Source
/// recv(2), `MSG_PEEK` and `MSG_TRUNC`
pub fn next_packet_bytes(socket: impl AsFd) -> Result<usize, Errno> {
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    recv(socket, &mut [0; 1], flags).map(|(_begin, bytes)| bytes)
}

/// Receives one packet into `buffer`. Without `take_fds`, the kernel drops the packet's
/// descriptors, and the packet counts as truncated: the close of a foreign descriptor can block for
/// ever.
///
/// # Errors
/// `AGAIN` (without `wait`), `INTR`, `CONNRESET`.
pub fn receive_packet(
    socket: impl AsFd,
    buffer: &mut [u8],
    wait: bool,
    take_fds: bool,
) -> Result<Packet, Errno> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX), ScmCredentials(1))];
    let credentials_only = rustix::cmsg_space!(ScmCredentials(1));
    let control_bytes = if take_fds { space.len() } else { credentials_only };
    let mut control = RecvAncillaryBuffer::new(&mut space[..control_bytes]);
    let flags =
        if wait { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
    let message = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut packet = Packet {
        bytes: message.bytes,
        fds: Vec::new(),
        sender_pid: None,
        truncated: message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC),
    };
    for part in control.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(fds) => {
                for fd in fds {
                    match above_standard(fd) {
                        Ok(fd) => packet.fds.push(fd),
                        // As where the kernel finds no number for it.
                        Err(_full) => packet.truncated = true,
                    }
                }
            }
            RecvAncillaryMessage::ScmCredentials(cred) => {
                packet.sender_pid = Some(cred.pid.as_raw_nonzero().get());
            }
            _ => {}
        }
    }
    Ok(packet)
}
