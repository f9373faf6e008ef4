//! The doorbell: a datagram socket that carries no data, only readiness.
//!
//! The owner has the receiver. Each peer has a sender, which the node daemon connected for it. So
//! only the owner can drain the doorbell, a full doorbell still wakes its owner, and ringing never
//! blocks.

use crate::descriptors::above_standard;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    recv, send, socket_with,
};
use std::path::Path;

fn datagram_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    above_standard(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// The receiver of a doorbell. Only its owner has it.
#[derive(Debug)]
pub struct DoorbellReceiver(OwnedFd);

impl DoorbellReceiver {
    /// Binds a doorbell at `path`, which only the daemon can reach.
    ///
    /// # Errors
    /// `ADDRINUSE`, `ACCES`, `MFILE`.
    pub fn bind(path: &Path) -> Result<OwnedFd, Errno> {
        let socket = datagram_socket()?;
        crate::credentials::refuse_descriptors(&socket);
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// The receiver in a descriptor from the daemon.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Takes all pending rings. `true` if there was one.
    pub fn drain(&self) -> bool {
        let mut byte = [0_u8; 1];
        let mut rang = false;
        // The bound keeps a peer that rings for ever from holding the owner here.
        for _ in 0..1024 {
            if recv(&self.0, &mut byte[..], RecvFlags::DONTWAIT).is_err() {
                break;
            }
            rang = true;
        }
        rang
    }
}

impl AsFd for DoorbellReceiver {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A sender of a doorbell. One peer has it.
#[derive(Debug)]
pub struct DoorbellSender(OwnedFd);

impl DoorbellSender {
    /// Connects a sender to the doorbell at `path`.
    ///
    /// # Errors
    /// `CONNREFUSED`, `NOENT` if the doorbell is gone.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let socket = datagram_socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// The sender in a descriptor from the daemon.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Rings, and never blocks. A full doorbell counts as rung. `false` if the doorbell is gone, or
    /// the system has no memory for the ring.
    pub fn ring(&self) -> bool {
        let rung = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        matches!(rung, Ok(_) | Err(Errno::AGAIN))
    }
}

impl From<DoorbellSender> for OwnedFd {
    fn from(sender: DoorbellSender) -> Self {
        sender.0
    }
}
