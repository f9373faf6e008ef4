//! The control plane's sockets: Unix SEQPACKET, one frame a packet, with
//! descriptors (daemon to member only) and the sender's credentials (member to daemon).
//!
//! # Safety
//! The one inherited descriptor is taken over once.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect as connect_to, listen as listen_on, recvmsg, sendmsg, socket_with,
    sockopt,
};
use std::path::Path;

/// The most descriptors that travel with one packet.
pub const PACKET_FDS_MAX: usize = 8;

/// What came with one packet.
#[derive(Debug)]
pub struct Packet {
    /// Length of the packet in bytes; 0 where the peer has gone.
    pub bytes: usize,
    /// Its descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
    /// The process id of the sender, where the socket passes credentials.
    pub sender_pid: Option<i32>,
    /// Whether the packet or its descriptors did not fit.
    pub truncated: bool,
}

fn packet_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)
}

/// Listens at `path`, non-blocking.
///
/// # Errors
/// `ADDRINUSE` where the path exists, `NAMETOOLONG`, `ACCES`, ...
///
/// # Source
/// unix(7)
pub fn listen(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    crate::credentials::refuse_descriptors(&socket);
    pass_credentials(&socket)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen_on(&socket, 4096)?;
    Ok(socket)
}

/// The listener that systemd passes on: descriptor 3, if it is meant for this very process.
///
/// # Source
/// sd_listen_fds(3)
#[must_use]
pub fn inherited_listener() -> Option<OwnedFd> {
    let pid: u32 = std::env::var("LISTEN_PID").ok()?.parse().ok()?;
    let count: i32 = std::env::var("LISTEN_FDS").ok()?.parse().ok()?;
    if pid != std::process::id() || count < 1 {
        return None;
    }
    // SAFETY: systemd gives this process descriptor 3, and nobody else here knows of it.
    let listener = unsafe { OwnedFd::from_raw_fd(3) };
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC).ok()?;
    rustix::io::ioctl_fionbio(&listener, true).ok()?;
    crate::credentials::refuse_descriptors(&listener);
    pass_credentials(&listener).ok()?;
    Some(listener)
}

/// Accepts one connection, non-blocking, with the credentials of every sender passed on.
///
/// # Errors
/// `AGAIN` where nobody waits; `MFILE`, `NFILE`.
pub fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    let socket = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    pass_credentials(&socket)?;
    Ok(socket)
}

/// The kernel adds a sender's credentials where either end asks for them when
/// the packet is sent. The first packet may be sent before the listener's owner
/// has asked, so the sender asks too; from Linux 6.16 on the listener's own wish is inherited.
fn pass_credentials(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::set_socket_passcred(socket, true)
}

/// Connects to the listener at `path`.
///
/// # Errors
/// `NOENT`, `CONNREFUSED` where nobody listens, `ACCES`.
pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = packet_socket(SocketFlags::empty())?;
    pass_credentials(&socket)?;
    connect_to(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Sends one packet; never raises SIGPIPE. Non-blocking by `wait = false`.
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

/// Receives one packet into `buffer`. Where `take_fds` is false, descriptors
/// that came with it are dropped by the kernel and the packet counts as
/// truncated: to close a stranger's descriptor oneself can block for ever.
///
/// # Errors
/// `AGAIN` (with `wait = false`), `INTR`, `CONNRESET`.
pub fn receive_packet(
    socket: impl AsFd,
    buffer: &mut [u8],
    wait: bool,
    take_fds: bool,
) -> Result<Packet, Errno> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX), ScmCredentials(1))];
    let credentials_only = rustix::cmsg_space!(ScmCredentials(1));
    let room = if take_fds { space.len() } else { credentials_only };
    let mut control = RecvAncillaryBuffer::new(&mut space[..room]);
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
            RecvAncillaryMessage::ScmRights(fds) => packet.fds.extend(fds),
            RecvAncillaryMessage::ScmCredentials(cred) => {
                packet.sender_pid = Some(cred.pid.as_raw_nonzero().get());
            }
            _ => {}
        }
    }
    Ok(packet)
}
