//! The queue of a listener: connections that have arrived and are not accepted yet.

use crate::pair::Pair;
use crate::prepared::PreparedConnection;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_sys::{Errno, Poll};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The epoll token of the packet socket. Prepared connections have other tokens.
const SOCKET_TOKEN: u64 = 0;

/// The queue of connections that have arrived.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    poll: Poll,
    socket: Mutex<Arc<OwnedFd>>,
    /// Prepared connections by their epoll tokens.
    prepared: Mutex<HashMap<u64, (PreparedConnection, Arc<Pair>)>>,
    next: AtomicU64,
}

impl ArrivalQueue {
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let poll = Poll::new()?;
        poll.add(&socket, SOCKET_TOKEN)?;
        let socket = Mutex::new(Arc::new(socket));
        Ok(Self {
            poll,
            socket,
            prepared: Mutex::default(),
            next: AtomicU64::new(SOCKET_TOKEN + 1),
        })
    }

    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the packet socket by that of a successor daemon.
    pub(crate) fn replace(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let socket = socket.try_clone().map_err(|_cause| Errno::MFILE)?;
        let mut current = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.poll.remove(&*current);
        self.poll.add(&socket, SOCKET_TOKEN)?;
        *current = Arc::new(socket);
        Ok(())
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
