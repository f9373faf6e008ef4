//! Datagrams: messages with boundaries, to one socket or to all.
//!
//! A datagram socket is a kernel socket. The daemon binds it at a path that only the daemon can
//! reach. Each sender gets a socket that the daemon has connected to it. Boundaries, readiness,
//! back-pressure and the sender's name are therefore the kernel's, and no sender can use another
//! name. The bytes pass through the kernel.

use crate::control::unexpected_answer;
use crate::domain::Domain;
use crate::error::SockError;
use crate::member::DomainMember;
use crate::stream::ReceiveOptions;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::{Errno, ReceiveFlags};
use m3ipc_wire::{Reply, SockKind, SockReply, SockRequest};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest datagram, in bytes. UDP has the same limit.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;
/// The most sockets to receivers that one datagram socket keeps open.
const SENDERS_MAX: usize = 64;

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Bytes that were copied into the caller's buffer.
    pub taken: usize,
    /// Bytes that the datagram had. Bytes beyond the buffer are lost.
    pub sent: usize,
    /// The address of the sender.
    pub from: SocketAddrV4,
}

/// A datagram socket, bound to a port of its domain.
#[derive(Debug)]
pub struct DatagramSocket {
    member: Arc<DomainMember>,
    socket: OwnedFd,
    port: u16,
    senders: Mutex<HashMap<SocketAddrV4, Arc<OwnedFd>>>,
    peer: Mutex<Option<SocketAddrV4>>,
    broadcasts: AtomicBool,
    nonblocking: AtomicBool,
}

impl Domain {
    /// Binds a datagram socket to this port; 0 means any free port.
    ///
    /// # Errors
    /// `ADDRINUSE`, `MFILE`, `NETDOWN`.
    pub fn datagrams(&self, port: u16) -> Result<DatagramSocket, SockError> {
        let member = Arc::clone(self.member());
        let (port, socket) = member.bind(SockKind::Datagram, port)?;
        let socket = socket.ok_or_else(unexpected_answer)?;
        Ok(DatagramSocket {
            member,
            socket,
            port,
            senders: Mutex::default(),
            peer: Mutex::default(),
            broadcasts: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
        })
    }
}

impl DatagramSocket {
    /// Puts a duplicate of the own descriptor in its place. Returns the former one.
    #[doc(hidden)]
    pub fn replace_descriptor(&mut self, duplicate: OwnedFd) -> OwnedFd {
        core::mem::replace(&mut self.socket, duplicate)
    }

    /// The address of this socket.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.member.address(), self.port)
    }

    /// Sets whether calls fail with `AGAIN` instead of sleeping.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(m3ipc_sys::set_nonblocking(&self.socket, nonblocking)?)
    }

    /// Sets whether this socket may send to the broadcast address. It may not by default.
    pub fn set_broadcast(&self, broadcasts: bool) {
        self.broadcasts.store(broadcasts, Ordering::Relaxed);
    }

    /// Makes the next sends obey `SO_SNDTIMEO` and `SO_SNDBUF` of this descriptor as they are now.
    pub fn renew_send_options(&self) {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether this socket may send to the broadcast address.
    #[must_use]
    pub fn may_broadcast(&self) -> bool {
        self.broadcasts.load(Ordering::Relaxed)
    }

    /// Sets the only peer of [`send`](Self::send) and of [`receive`](Self::receive); `None` removes
    /// it.
    ///
    /// # Errors
    /// `HOSTUNREACH` where the domain has no member; `ACCES` for the broadcast address without
    /// [`set_broadcast`](Self::set_broadcast); `NOTCONN` in a child by fork, as of every call.
    pub fn connect(&self, to: Option<SocketAddrV4>) -> Result<(), SockError> {
        self.member.check_process()?;
        let own = |to: SocketAddrV4| {
            if to.ip().is_unspecified() {
                SocketAddrV4::new(self.member.address(), to.port())
            } else {
                to
            }
        };
        let to = to.map(own);
        if let Some(to) = to {
            match self.sender_to(to) {
                // As with UDP, the receiver may bind its port later.
                Ok(_) => {}
                Err(error) if error.errno() == Errno::CONNREFUSED => {}
                Err(error) => return Err(error),
            }
        }
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = to;
        Ok(())
    }

    /// The peer that [`connect`](Self::connect) set; none in a child by fork.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddrV4> {
        self.member.check_process().ok()?;
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends to the peer that [`connect`](Self::connect) set.
    ///
    /// # Errors
    /// `DESTADDRREQ` without a peer; those of [`send_to`](Self::send_to).
    pub fn send(&self, bytes: &[u8], wait: bool) -> Result<usize, SockError> {
        self.member.check_process()?;
        match self.peer_addr() {
            Some(to) => self.send_to(bytes, to, wait),
            None => Err(SockError::new(
                Errno::DESTADDRREQ,
                "the socket has no peer; call connect first, or send_to",
            )),
        }
    }

    /// Sends a datagram, whole or not at all.
    ///
    /// A datagram to the broadcast address goes to every socket bound at the port, the caller's own
    /// included. A socket with a full queue misses it; the others get it.
    ///
    /// # Errors
    /// `MSGSIZE` beyond [`DATAGRAM_MAX_BYTES`]; `HOSTUNREACH` and `CONNREFUSED` without a receiver;
    /// `AGAIN` where the receiver's queue is full and the call does not wait; `ACCES` for the
    /// broadcast address without [`set_broadcast`](Self::set_broadcast); `INTR`, `NETDOWN`.
    ///
    /// # Source
    /// sendto(2)
    pub fn send_to(&self, bytes: &[u8], to: SocketAddrV4, wait: bool) -> Result<usize, SockError> {
        self.member.check_process()?;
        if bytes.len() > DATAGRAM_MAX_BYTES {
            let why = format!("{} bytes exceed the longest datagram, 65,507 bytes", bytes.len());
            return Err(SockError::new(Errno::MSGSIZE, why));
        }
        let wait = wait && !self.nonblocking.load(Ordering::Relaxed);
        if *to.ip() == self.member.broadcast() {
            return self.send_to_all(bytes, to.port());
        }
        let to = if to.ip().is_unspecified() {
            SocketAddrV4::new(self.member.address(), to.port())
        } else {
            to
        };
        let sender = self.sender_to(to)?;
        match m3ipc_sys::send_bytes(&*sender, bytes, &[], wait) {
            Ok(sent) => Ok(sent),
            // The receiver is gone. Another process may have the port by now.
            Err(Errno::CONNREFUSED | Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => {
                self.forget_sender(to);
                Ok(m3ipc_sys::send_bytes(&*self.sender_to(to)?, bytes, &[], wait)?)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn send_to_all(&self, bytes: &[u8], port: u16) -> Result<usize, SockError> {
        if !self.may_broadcast() {
            let why = "sending to the broadcast address needs SO_BROADCAST (set_broadcast)";
            return Err(SockError::new(Errno::ACCESS, why));
        }
        let (Reply::Sock(SockReply::Addresses(all)), _) =
            self.member.ask(SockRequest::DatagramAddresses { port })?
        else {
            return Err(unexpected_answer());
        };
        for address in all {
            // A broadcast never waits: a full receiver loses the datagram, as on a network.
            let to = SocketAddrV4::new(Ipv4Addr::from(address), port);
            let Ok(sender) = self.sender_to(to) else { continue };
            let sent = m3ipc_sys::send_bytes(&*sender, bytes, &[], false);
            if sent.is_err_and(|errno| errno != Errno::AGAIN) {
                // The receiver is gone. Another process may have the port by now.
                self.forget_sender(to);
                let _ = self
                    .sender_to(to)
                    .map(|sender| m3ipc_sys::send_bytes(&*sender, bytes, &[], false));
            }
        }
        Ok(bytes.len())
    }

    fn forget_sender(&self, to: SocketAddrV4) {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).remove(&to);
    }

    /// The socket that sends to a receiver; the daemon gives it at the first use.
    fn sender_to(&self, to: SocketAddrV4) -> Result<Arc<OwnedFd>, SockError> {
        let senders = || self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = senders().get(&to) {
            return Ok(Arc::clone(sender));
        }
        if *to.ip() == self.member.broadcast() {
            let may = self.may_broadcast();
            let refused = || {
                SockError::new(
                    Errno::ACCESS,
                    "sending to the broadcast address needs SO_BROADCAST (set_broadcast)",
                )
            };
            return if may {
                Err(SockError::new(
                    Errno::CONNREFUSED,
                    "the broadcast address accepts datagrams from send_to alone",
                ))
            } else {
                Err(refused())
            };
        }
        let request =
            SockRequest::Route { from: self.port, address: u32::from(*to.ip()), port: to.port() };
        let (_, mut fds) = self.member.ask(request)?;
        let sender = fds.pop().ok_or_else(unexpected_answer)?;
        m3ipc_sys::copy_send_options(&self.socket, &sender)?;
        let sender = Arc::new(sender);
        let mut senders = senders();
        if senders.len() >= SENDERS_MAX {
            senders.clear();
        }
        senders.insert(to, Arc::clone(&sender));
        Ok(sender)
    }

    /// Receives one datagram. Bytes beyond the end of `bytes` are lost.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`.
    ///
    /// # Source
    /// recvfrom(2)
    pub fn receive(
        &self,
        bytes: &mut [u8],
        options: ReceiveOptions,
    ) -> Result<ReceivedDatagram, Errno> {
        self.member.check_process().map_err(|error| error.errno())?;
        let wait = options.wait && !self.nonblocking.load(Ordering::Relaxed);
        let only = self.peer_addr().filter(|peer| *peer.ip() != self.member.broadcast());
        loop {
            let got = m3ipc_sys::receive_datagram(
                &self.socket,
                bytes,
                ReceiveFlags { wait, peek: options.peek },
            )?;
            let Some(from) = self.source(&got.source) else { continue };
            if only.is_none_or(|only| only == from) {
                return Ok(ReceivedDatagram { taken: got.taken, sent: got.sent, from });
            }
            if options.peek {
                // A datagram of another sender is dropped, as the kernel does for a connected
                // socket.
                let _ = m3ipc_sys::receive_datagram(&self.socket, &mut [], ReceiveFlags::default());
            }
        }
    }

    /// The sender's address, from the name that the daemon gave the sender's socket.
    fn source(&self, name: &str) -> Option<SocketAddrV4> {
        let mut parts = name.strip_prefix("from.")?.split('.');
        let (domain, port) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(SocketAddrV4::new(self.member.address_of(domain), port))
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        self.member.release(SockKind::Datagram, self.port);
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
