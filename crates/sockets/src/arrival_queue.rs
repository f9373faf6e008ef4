//! The queue of a listener: connections that have arrived and are not accepted yet.

use crate::pair::Pair;
use crate::prepared::PreparedConnection;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::{Errno, Packet, ParentOnlyFd, Poll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The epoll token of the packet sockets. Prepared connections have other tokens.
const SOCKET_TOKEN: u64 = 0;

/// A socket on which the daemon sends connections. A child by fork does not keep them open.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    /// Declared before `socket`: it must forget the number before the socket closes.
    _closed_in_children: ParentOnlyFd,
    socket: OwnedFd,
}

impl PacketSocket {
    fn new(socket: OwnedFd) -> Self {
        Self { _closed_in_children: ParentOnlyFd::new(&socket), socket }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The queue of connections that have arrived.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    poll: Poll,
    /// The packet sockets of the present daemon, which is the last, and of killed daemons.
    sockets: Mutex<VecDeque<Arc<PacketSocket>>>,
    /// Prepared connections by their epoll tokens.
    prepared: Mutex<HashMap<u64, (PreparedConnection, Arc<Pair>)>>,
    next: AtomicU64,
}

impl ArrivalQueue {
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let poll = Poll::new()?;
        poll.add(&socket, SOCKET_TOKEN)?;
        Ok(Self {
            poll,
            sockets: Mutex::new(VecDeque::from([Arc::new(PacketSocket::new(socket))])),
            prepared: Mutex::default(),
            next: AtomicU64::new(SOCKET_TOKEN + 1),
        })
    }

    fn sockets(&self) -> MutexGuard<'_, VecDeque<Arc<PacketSocket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the packet socket of a successor daemon.
    pub(crate) fn add_socket(&self, socket: OwnedFd) -> Result<(), Errno> {
        self.poll.add(&socket, SOCKET_TOKEN)?;
        self.sockets().push_back(Arc::new(PacketSocket::new(socket)));
        Ok(())
    }

    /// Whether no successor daemon has brought another packet socket than this one.
    pub(crate) fn is_latest(&self, socket: &Arc<PacketSocket>) -> bool {
        self.sockets().back().is_some_and(|latest| Arc::ptr_eq(latest, socket))
    }

    /// The next packet, with its socket. An empty packet means that the latest socket has ended.
    ///
    /// A killed daemon leaves packets in its socket. They come first, and then the socket closes.
    pub(crate) fn next_packet(
        &self,
        frame: &mut [u8],
    ) -> Result<(Arc<PacketSocket>, Packet), Errno> {
        let all: Vec<_> = self.sockets().iter().map(Arc::clone).collect();
        for socket in &all {
            match m3ipc_sys::receive_packet(&**socket, frame, false, true) {
                Ok(packet) if packet.bytes == 0 && !self.is_latest(socket) => {
                    let _ = self.poll.remove(&**socket);
                    self.sockets().retain(|other| !Arc::ptr_eq(other, socket));
                }
                Ok(packet) => return Ok((Arc::clone(socket), packet)),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
    }

    pub(crate) fn prepared(&self) -> MutexGuard<'_, HashMap<u64, (PreparedConnection, Arc<Pair>)>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a prepared connection until its peer opens it.
    pub(crate) fn watch_prepared(
        &self,
        connection: PreparedConnection,
        pair: Arc<Pair>,
    ) -> Result<(), Errno> {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let mut prepared = self.prepared();
        self.poll.add(&connection.socket, token)?;
        prepared.insert(token, (connection, pair));
        Ok(())
    }

    /// Takes a prepared connection that its peer has opened. Calls `gone` for each one whose peer
    /// left.
    pub(crate) fn take_opened(
        &self,
        gone: impl Fn(&PreparedConnection),
    ) -> Result<Option<(PreparedConnection, Arc<Pair>)>, Errno> {
        if self.prepared().is_empty() {
            return Ok(None);
        }
        let mut ready = Vec::new();
        self.poll.wait(&mut ready, Some(0))?;
        for event in ready {
            let mut prepared = self.prepared();
            let Some((connection, _)) = prepared.get(&event.token) else { continue };
            let is_opened = connection.is_opened();
            if is_opened == Ok(false) {
                continue;
            }
            let _ = self.poll.remove(&connection.socket);
            let found = prepared.remove(&event.token);
            match is_opened {
                Ok(_) => return Ok(found),
                Err(_ended) => found.iter().for_each(|(connection, _)| gone(connection)),
            }
        }
        Ok(None)
    }
}

impl AsFd for ArrivalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
