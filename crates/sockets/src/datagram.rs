//! Datagrams: messages with boundaries, to one or to all.
//!
//! A datagram socket is one of the kernel's, which the daemon has bound where only it can reach it; who sends there gets a
//! socket of its own that the daemon has connected. So boundaries, readiness, back-pressure and the sender's
//! name are the kernel's, and nobody can send in another's name. The bytes pass through the kernel.

use crate::control::unexpected;
use crate::domain::Domain;
use crate::error::SockError;
use crate::party::Party;
use crate::stream::How;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::{Errno, ReceiveFlags};
use m3ipc_wire::{Reply, SockKind, SockReply, SockRequest};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest datagram, in bytes: as that of UDP.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;
/// Ways to others that one socket keeps open.
const WAYS_MAX: usize = 64;

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were put into the caller's buffer.
    pub taken: usize,
    /// Bytes that the datagram had; what did not fit is lost.
    pub sent: usize,
    /// Who sent it.
    pub from: SocketAddrV4,
}

/// A socket for datagrams, bound to a port of its domain.
#[derive(Debug)]
pub struct Datagrams {
    party: Arc<Party>,
    socket: OwnedFd,
    port: u16,
    ways: Mutex<HashMap<SocketAddrV4, Arc<OwnedFd>>>,
    peer: Mutex<Option<SocketAddrV4>>,
    broadcasts: AtomicBool,
    nonblocking: AtomicBool,
}

impl Domain {
    /// A socket for datagrams at this port, any free one for 0.
    ///
    /// # Errors
    /// `ADDRINUSE`, `MFILE`, `NETDOWN`.
    pub fn datagrams(&self, port: u16) -> Result<Datagrams, SockError> {
        let party = Arc::clone(self.party());
        let (port, socket) = party.bind(SockKind::Datagram, port)?;
        let socket = socket.ok_or_else(unexpected)?;
        Ok(Datagrams {
            party,
            socket,
            port,
            ways: Mutex::default(),
            peer: Mutex::default(),
            broadcasts: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
        })
    }
}

impl Datagrams {
    /// One's own address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.party.address(), self.port)
    }

    /// Whether calls fail with `AGAIN` rather than sleep.
    ///
    /// # Errors
    /// Of ioctl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(m3ipc_sys::set_nonblocking(&self.socket, nonblocking)?)
    }

    /// Whether datagrams may be sent to all, which is refused otherwise.
    pub fn set_broadcast(&self, broadcasts: bool) {
        self.broadcasts.store(broadcasts, Ordering::Relaxed);
    }

    /// Whether [`set_broadcast`](Self::set_broadcast) was said.
    #[must_use]
    pub fn may_broadcast(&self) -> bool {
        self.broadcasts.load(Ordering::Relaxed)
    }

    /// From now on [`send`](Self::send) goes there, and only what comes from there is received; `None`: as before.
    ///
    /// # Errors
    /// `HOSTUNREACH` where nobody is in that domain; `ACCES` for the broadcast address without leave.
    pub fn connect(&self, to: Option<SocketAddrV4>) -> Result<(), SockError> {
        let own = |to: SocketAddrV4| {
            if to.ip().is_unspecified() {
                SocketAddrV4::new(self.party.address(), to.port())
            } else {
                to
            }
        };
        let to = to.map(own);
        if let Some(to) = to {
            match self.reach(to) {
                // As of UDP: it may be bound later.
                Ok(_) => {}
                Err(error) if error.errno() == Errno::CONNREFUSED => {}
                Err(error) => return Err(error),
            }
        }
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = to;
        Ok(())
    }

    /// Whom [`connect`](Self::connect) named.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddrV4> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends to whom [`connect`](Self::connect) named.
    ///
    /// # Errors
    /// `DESTADDRREQ` where nobody was; of [`send_to`](Self::send_to).
    pub fn send(&self, bytes: &[u8], wait: bool) -> Result<usize, SockError> {
        match self.peer_addr() {
            Some(to) => self.send_to(bytes, to, wait),
            None => Err(SockError::new(Errno::DESTADDRREQ, "the socket is connected to nobody")),
        }
    }

    /// Sends a datagram, whole or not at all. To the broadcast address it goes to every socket that is bound at the port, the
    /// caller's own included; one whose queue is full, and only that one, does not get it.
    ///
    /// # Errors
    /// `MSGSIZE` beyond [`DATAGRAM_MAX_BYTES`]; `HOSTUNREACH`, `CONNREFUSED` where nobody is there; `AGAIN` where the receiver's
    /// queue is full and the call does not wait; `ACCES` for the broadcast address without leave; `INTR`, `NETDOWN`.
    ///
    /// # Source
    /// sendto(2)
    pub fn send_to(&self, bytes: &[u8], to: SocketAddrV4, wait: bool) -> Result<usize, SockError> {
        if bytes.len() > DATAGRAM_MAX_BYTES {
            let why = format!("{} bytes are more than a datagram has", bytes.len());
            return Err(SockError::new(Errno::MSGSIZE, why));
        }
        let wait = wait && !self.nonblocking.load(Ordering::Relaxed);
        if *to.ip() == self.party.broadcast() {
            return self.send_to_all(bytes, to.port());
        }
        let to = if to.ip().is_unspecified() {
            SocketAddrV4::new(self.party.address(), to.port())
        } else {
            to
        };
        let way = self.reach(to)?;
        match m3ipc_sys::send_bytes(&*way, bytes, &[], wait) {
            Ok(sent) => Ok(sent),
            // Who was there has gone; perhaps another is there now.
            Err(Errno::CONNREFUSED | Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => {
                self.forget(to);
                Ok(m3ipc_sys::send_bytes(&*self.reach(to)?, bytes, &[], wait)?)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn send_to_all(&self, bytes: &[u8], port: u16) -> Result<usize, SockError> {
        if !self.may_broadcast() {
            let why = "to send to all needs leave: SO_BROADCAST, or set_broadcast";
            return Err(SockError::new(Errno::ACCESS, why));
        }
        let (Reply::Sock(SockReply::Addresses(all)), _) =
            self.party.ask(SockRequest::DatagramAddresses { port })?
        else {
            return Err(unexpected());
        };
        for address in all {
            // Nobody waits for a slow one: to that one the datagram is lost, as on a network.
            let to = SocketAddrV4::new(Ipv4Addr::from(address), port);
            let Ok(way) = self.reach(to) else { continue };
            if matches!(m3ipc_sys::send_bytes(&*way, bytes, &[], false), Err(errno) if errno != Errno::AGAIN)
            {
                self.forget(to);
                let _ = self.reach(to).map(|way| m3ipc_sys::send_bytes(&*way, bytes, &[], false));
            }
        }
        Ok(bytes.len())
    }

    fn forget(&self, to: SocketAddrV4) {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).remove(&to);
    }

    /// The way to a receiver, from the daemon where there is none yet.
    fn reach(&self, to: SocketAddrV4) -> Result<Arc<OwnedFd>, SockError> {
        let ways = || self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = ways().get(&to) {
            return Ok(Arc::clone(way));
        }
        if *to.ip() == self.party.broadcast() {
            let may = self.may_broadcast();
            let refused =
                || SockError::new(Errno::ACCESS, "to send to all needs leave: SO_BROADCAST");
            return if may {
                Err(SockError::new(Errno::CONNREFUSED, "all are many"))
            } else {
                Err(refused())
            };
        }
        let request =
            SockRequest::Route { from: self.port, address: u32::from(*to.ip()), port: to.port() };
        let (_, mut fds) = self.party.ask(request)?;
        let way = Arc::new(fds.pop().ok_or_else(unexpected)?);
        let mut ways = ways();
        if ways.len() >= WAYS_MAX {
            ways.clear();
        }
        ways.insert(to, Arc::clone(&way));
        Ok(way)
    }

    /// Receives one datagram; what does not fit into `bytes` is lost.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`.
    ///
    /// # Source
    /// recvfrom(2)
    pub fn receive(&self, bytes: &mut [u8], how: How) -> Result<Received, Errno> {
        let wait = how.wait && !self.nonblocking.load(Ordering::Relaxed);
        let only = self.peer_addr().filter(|peer| *peer.ip() != self.party.broadcast());
        loop {
            let got = m3ipc_sys::receive_datagram(
                &self.socket,
                bytes,
                ReceiveFlags { wait, peek: how.peek },
            )?;
            let Some(from) = self.source(&got.source) else { continue };
            if only.is_none_or(|only| only == from) {
                return Ok(Received { taken: got.taken, sent: got.sent, from });
            }
            if how.peek {
                // Of another: it is dropped, as the kernel drops it for a connected socket.
                let _ = m3ipc_sys::receive_datagram(&self.socket, &mut [], ReceiveFlags::default());
            }
        }
    }

    /// Domain and port, from the name that the daemon gave the sender's socket.
    fn source(&self, name: &str) -> Option<SocketAddrV4> {
        let mut parts = name.strip_prefix("from.")?.split('.');
        let (domain, port) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(SocketAddrV4::new(self.party.address_of(domain), port))
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.party.release(SockKind::Datagram, self.port);
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Datagrams {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
