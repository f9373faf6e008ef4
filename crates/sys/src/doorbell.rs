//! The bell: a datagram socket that carries no data, only readiness.
//!
//! One socket with one owner listens; each peer rings through a socket of its
//! own that the node daemon has connected for it. So nobody can drain it but
//! its owner, a full bell is a ringing bell, and ringing never blocks.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    recv, send, socket_with,
};
use std::path::Path;

fn datagram_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

/// The listening half, held by the endpoint alone.
#[derive(Debug)]
pub struct DoorbellReceiver(OwnedFd);

impl DoorbellReceiver {
    /// Hangs a bell at `path`, which only the daemon can reach.
    ///
    /// # Errors
    /// `ADDRINUSE`, `ACCES`, `MFILE`.
    pub fn bind(path: &Path) -> Result<OwnedFd, Errno> {
        let socket = datagram_socket()?;
        crate::credentials::refuse_descriptors(&socket);
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// The bell behind a descriptor that the daemon gave.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Takes all that has rung; `true` if anything had.
    pub fn drain(&self) -> bool {
        let mut byte = [0_u8; 1];
        let mut rang = false;
        // Bounded: a peer that rings for ever must not keep us here.
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

/// The ringing half, held by one peer.
#[derive(Debug)]
pub struct DoorbellSender(OwnedFd);

impl DoorbellSender {
    /// A clapper for the bell at `path`.
    ///
    /// # Errors
    /// `CONNREFUSED`, `NOENT` where the bell has gone.
    pub fn connect(path: &Path) -> Result<OwnedFd, Errno> {
        let socket = datagram_socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// The clapper behind a descriptor that the daemon gave.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Rings; never blocks. A full bell rings already; `false` where the bell has gone.
    pub fn ring(&self) -> bool {
        let rung = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        matches!(rung, Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS))
    }
}
