//! A stream: a connection of bytes between two domains.
//!
//! Its descriptor is a kernel socket, and only the peer holds the other end. The kernel therefore
//! reports the peer's end and death, makes sleepers wait and wake, and serves poll, select and
//! epoll. The bytes pass through blocks of shared memory. They pass through the socket only where
//! free blocks are short.

mod block;
mod connection;
mod receive;
mod send;

#[doc(hidden)]
pub use block::ArrivedBlock;
pub use connection::WakeupCounts;
pub use receive::ReceiveOptions;

pub(crate) use connection::Connection;

use crate::member::DomainMember;
use crate::pair::Pair;
use crate::polled::Registration;
use crate::receive_ring::ReceiveRing;
use crate::send_ring::SendRing;
use m3ipc_sys::{Direction, Errno, shut_down};
use m3ipc_wire::SockConnection;
use receive::ReceiveHalf;
use send::SendHalf;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a non-blocking call yields to another thread that holds the same half.
const LOCK_ATTEMPTS: u32 = 100;

/// A connection of bytes.
///
/// Several threads may use a stream at once. The bytes of one call stay together. A stream belongs
/// to the process that connected or accepted it: in a child by fork every call fails.
#[derive(Debug)]
pub struct Stream {
    pub(crate) connection: Connection,
    sending: Mutex<SendHalf>,
    receiving: Mutex<ReceiveHalf>,
}

impl Stream {
    pub(crate) fn new(
        member: Arc<DomainMember>,
        pair: Arc<Pair>,
        socket: OwnedFd,
        info: SockConnection,
    ) -> Result<Self, Errno> {
        let slot = usize::from(info.slot);
        pair.reclaim_read(Some(slot));
        let (out, back) = (pair.direction(slot, pair.side), pair.direction(slot, 1 - pair.side));
        let (Some(out), Some(back)) = (out, back) else { return Err(Errno::PROTO) };
        let connection = Connection::new(member, pair, socket, info, out.clone(), back.clone());
        connection.map_peer_pool();
        Ok(Self {
            connection,
            sending: Mutex::new(SendHalf::new(SendRing::new(out))),
            receiving: Mutex::new(ReceiveHalf::new(ReceiveRing::new(back))),
        })
    }

    /// The address of this side.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        let (address, port) = self.connection.info().own;
        SocketAddrV4::new(Ipv4Addr::from(address), port)
    }

    /// The address of the peer.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddrV4 {
        let (address, port) = self.connection.info().peer;
        SocketAddrV4::new(Ipv4Addr::from(address), port)
    }

    /// The process id and the user id of the peer, which the daemon has from the kernel.
    #[must_use]
    pub fn peer_process(&self) -> (i32, u32) {
        self.connection.info().by
    }

    /// Sets whether calls fail with `WouldBlock` instead of sleeping.
    ///
    /// # Errors
    /// `BUSY` where a stream in a [`Poller`](crate::Poller) would wait; `NOTCONN` in a child by
    /// fork; those of fcntl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.check_process()?;
        let registration = self.connection.registration();
        if !nonblocking && registration.as_ref().is_some_and(Registration::is_alive) {
            return Err(Errno::BUSY.into());
        }
        Ok(self.connection.set_nonblocking(nonblocking)?)
    }

    /// Whether the stream is non-blocking.
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.connection.is_nonblocking()
    }

    /// Receives into `bytes`. Returns the number of bytes; 0 means that the peer has ended its
    /// sending.
    ///
    /// # Errors
    /// `AGAIN` without bytes where the call does not wait or the socket's time limit has passed;
    /// `INTR`; `CONNRESET` where the peer left without reading everything; `PROTO` where the peer
    /// broke the rules, which ends the connection; `NOTCONN` in a child by fork.
    ///
    /// # Source
    /// recv(2)
    pub fn receive(&self, bytes: &mut [u8], how: ReceiveOptions) -> Result<usize, Errno> {
        self.check_process()?;
        let how = ReceiveOptions { wait: how.wait && !self.is_nonblocking(), ..how };
        let mut receiving = lock_half(&self.receiving, how.wait)?;
        let done = receiving.take(&self.connection, bytes, how);
        receiving.note_next(self.connection.polled());
        if matches!(done, Ok(0) | Err(Errno::CONNRESET | Errno::PIPE)) {
            self.connection.mark_suspect();
        }
        self.end_if_broken(done)
    }

    /// Sends `bytes`. Returns the number of bytes that had room; a waiting call sends all of them.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`, `PROTO`, `NOTCONN` as in [`receive`](Self::receive); `PIPE` and `CONNRESET`
    /// where the peer takes no more bytes. No signal is raised.
    ///
    /// # Source
    /// send(2)
    pub fn send(&self, bytes: &[u8], wait: bool) -> Result<usize, Errno> {
        self.check_sender()?;
        let wait = wait && !self.is_nonblocking();
        let done = lock_half(&self.sending, wait)?.send(&self.connection, bytes, wait);
        self.end_if_broken(done)
    }

    /// The number of bytes that a receive would return at once.
    ///
    /// # Errors
    /// `PROTO`, `NOTCONN`.
    pub fn available(&self) -> Result<u64, Errno> {
        self.check_process()?;
        let there = match lock_half(&self.receiving, false) {
            Ok(mut receiving) => receiving.available(&self.connection),
            // Another thread sleeps in the half, and takes what comes.
            Err(_held) => Ok(self.connection.polled().bytes_in_blocks()),
        };
        self.end_if_broken(there)
    }

    /// The wakeup records of the direction in which this side sends; none in a child by fork.
    #[must_use]
    pub fn wakeups(&self) -> WakeupCounts {
        if self.check_process().is_err() {
            return WakeupCounts::default();
        }
        self.sending.lock().unwrap_or_else(PoisonError::into_inner).wakeup_counts()
    }

    /// Whether the peer has taken everything that this side sent.
    ///
    /// # Errors
    /// `PROTO`, `NOTCONN`.
    pub fn is_taken(&self) -> Result<bool, Errno> {
        self.check_process()?;
        let empty = lock_half(&self.sending, true)?.is_empty();
        self.end_if_broken(empty)
    }

    /// Shuts down one direction or both, also while other threads are in calls.
    ///
    /// # Errors
    /// `NOTCONN` where the connection has ended, and in a child by fork.
    ///
    /// # Source
    /// shutdown(2)
    pub fn shutdown(&self, direction: Direction) -> Result<(), Errno> {
        self.check_process()?;
        self.connection.shut_down(direction)
    }

    /// Puts a duplicate of the own descriptor in its place. Returns the former one.
    #[doc(hidden)]
    pub fn replace_descriptor(&mut self, duplicate: OwnedFd) -> OwnedFd {
        core::mem::replace(&mut self.connection.socket, duplicate)
    }

    pub(crate) fn check_process(&self) -> Result<(), Errno> {
        if self.connection.pair.is_original() { Ok(()) } else { Err(Errno::NOTCONN) }
    }

    fn check_sender(&self) -> Result<(), Errno> {
        self.check_process()?;
        if self.connection.has_send_ended() { Err(Errno::PIPE) } else { Ok(()) }
    }

    /// Ends the connection where the peer broke the rules.
    fn end_if_broken<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        if matches!(done, Err(Errno::PROTO)) {
            self.connection.polled().publish_end();
            let _ = shut_down(&self.connection.socket, Direction::Both);
        }
        done
    }
}

/// Locks one half for one call.
fn lock_half<T>(half: &Mutex<T>, wait: bool) -> Result<MutexGuard<'_, T>, Errno> {
    if wait {
        return Ok(half.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..LOCK_ATTEMPTS {
        match half.try_lock() {
            Ok(half) => return Ok(half),
            Err(TryLockError::Poisoned(half)) => return Ok(half.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    // Another thread sleeps in this half.
    Err(Errno::AGAIN)
}

impl Drop for Stream {
    fn drop(&mut self) {
        let connection = &self.connection;
        // A child by fork has none of the words that this changes.
        if !connection.pair.is_original() {
            return;
        }
        connection.polled().publish_end();
        if let Some(registration) = connection.registration().take() {
            registration.end(&connection.socket, connection.polled());
        }
        let receiving = self.receiving.get_mut().unwrap_or_else(PoisonError::into_inner);
        receiving.close(connection);
        self.sending
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .close(usize::from(connection.info().slot));
        connection.report_closed();
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.socket.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.connection.socket.as_raw_fd()
    }
}

const WAIT: ReceiveOptions = ReceiveOptions { wait: true, peek: false };

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(bytes, WAIT)?)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.send(bytes, true)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(bytes, WAIT)?)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.send(bytes, true)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
