//! A stream: a connection of bytes between two domains.
//!
//! Its descriptor is a socket of the kernel's whose other end only the other side holds. The kernel tells of the other side's end
//! and death, sleeps and wakes, and makes poll, select and epoll work; the bytes pass through blocks of
//! shared memory, and through the socket only where blocks are short.

mod block;
mod receive;
mod send;

pub use receive::How;

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pair::Pair;
use crate::party::Party;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use m3ipc_sys::{Direction, Errno, shut_down};
use m3ipc_wire::SockConnection;
use m3ipc_wire::sock::half;
use receive::Receiving;
use send::Sending;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// How long one waits until the daemon is asked once more for the other side's pool, in ticks: some milliseconds.
const ASK_AGAIN_TICKS: u64 = 20_000_000;

/// How often the CPU is given to another thread that is in the same direction, by a call that does not wait.
const TURNS: u32 = 100;

/// How often a receiver was called, and how often that was not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bells {
    /// Bells that were rung.
    pub rung: u64,
    /// Times that something was sent and no bell was needed.
    pub spared: u64,
}

/// What both directions use.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) pair: Arc<Pair>,
    party: Arc<Party>,
    seat: SockConnection,
    /// What this side sends on.
    out: crate::pair::Way,
    nonblocking: AtomicBool,
    asked_ticks: AtomicU64,
    /// This side sends no more.
    ended: AtomicBool,
    /// The other side has ended a way, or the connection: senders ask the kernel each time.
    suspect: AtomicBool,
    /// The endpoint of the process at the other end, once that is known.
    there: AtomicI32,
}

impl Connection {
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Whether senders are to ask the kernel each time.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Whether the other side says that it has taken everything that this one sent: what it left in its socket then were bells.
    pub(crate) fn is_all_taken(&self) -> bool {
        let word = |at| self.out.word(at).load(Ordering::Acquire);
        word(half::HEAD) == word(half::TAIL) && word(half::TAKEN) == word(half::GIVEN)
    }

    /// Gets the other side's pool, where it can be had and is not mapped yet.
    pub(crate) fn join_pool(&self) {
        if !self.pair.misses_pool() {
            return;
        }
        let (now, asked) = (m3ipc_sys::ticks(), self.asked_ticks.load(Ordering::Relaxed));
        if asked == 0 || now.wrapping_sub(asked) > ASK_AGAIN_TICKS {
            let again = self.party.join_pool(&self.pair);
            self.asked_ticks.store(if again { 0 } else { now.max(1) }, Ordering::Relaxed);
        }
    }
}

/// A connection of bytes.
///
/// Any number of threads may use it at once; what one call sends, or receives, stays together. It belongs to the
/// process that connected or accepted it: in a child by fork every call fails.
#[derive(Debug)]
pub struct Stream {
    connection: Connection,
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
}

impl Stream {
    pub(crate) fn new(
        party: Arc<Party>,
        pair: Arc<Pair>,
        socket: OwnedFd,
        seat: SockConnection,
    ) -> Result<Self, Errno> {
        let slot = usize::from(seat.slot);
        pair.settle(Some(slot));
        let (out, back) = (pair.way(slot, pair.side), pair.way(slot, 1 - pair.side));
        let (Some(out), Some(back)) = (out, back) else { return Err(Errno::PROTO) };
        let connection = Connection {
            socket,
            pair,
            party,
            seat,
            out: out.clone(),
            nonblocking: AtomicBool::new(false),
            asked_ticks: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
            there: AtomicI32::new(m3ipc::NONE.0),
        };
        connection.join_pool();
        Ok(Self {
            connection,
            sending: Mutex::new(Sending::new(Outgoing::new(out))),
            receiving: Mutex::new(Receiving::new(Incoming::new(back))),
        })
    }

    /// One's own address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        let (address, port) = self.connection.seat.own;
        SocketAddrV4::new(Ipv4Addr::from(address), port)
    }

    /// The other side's address.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddrV4 {
        let (address, port) = self.connection.seat.peer;
        SocketAddrV4::new(Ipv4Addr::from(address), port)
    }

    /// The other side's process and user, as the node daemon knows them from the kernel.
    #[must_use]
    pub fn peer_process(&self) -> (i32, u32) {
        self.connection.seat.by
    }

    /// Whether calls fail with `WouldBlock` rather than sleep.
    ///
    /// # Errors
    /// Of fcntl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.connection.nonblocking.store(nonblocking, Ordering::Relaxed);
        m3ipc_sys::set_nonblocking(&self.connection.socket, nonblocking)?;
        Ok(())
    }

    /// Whether [`set_nonblocking`](Self::set_nonblocking) was said.
    #[must_use]
    pub fn is_nonblocking(&self) -> bool {
        self.connection.is_nonblocking()
    }

    /// Receives into `bytes`: how many; 0 where the other side has ended.
    ///
    /// # Errors
    /// `AGAIN` where nothing is there and the call does not wait, or a time limit of the socket has passed; `INTR`; `CONNRESET`
    /// where the other side went without having read everything; `PROTO` where it broke the rules of the connection, which
    /// is over then; `NOTCONN` in a child by fork.
    ///
    /// # Source
    /// recv(2)
    pub fn receive(&self, bytes: &mut [u8], how: How) -> Result<usize, Errno> {
        self.check_here()?;
        let how = How { wait: how.wait && !self.is_nonblocking(), ..how };
        let mut receiving = own(&self.receiving, how.wait)?;
        let done = receiving.take(&self.connection, bytes, how);
        if matches!(done, Ok(0) | Err(Errno::CONNRESET | Errno::PIPE)) {
            self.connection.suspect.store(true, Ordering::Relaxed);
        }
        self.judge(done)
    }

    /// Sends `bytes`: how many there was room for; all of them where the call may wait.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`, `PROTO`, `NOTCONN` as [`receive`](Self::receive); `PIPE` and `CONNRESET` where the other side
    /// takes nothing any more. No signal is raised.
    ///
    /// # Source
    /// send(2)
    pub fn send(&self, bytes: &[u8], wait: bool) -> Result<usize, Errno> {
        self.check_sends()?;
        let wait = wait && !self.is_nonblocking();
        let done = own(&self.sending, wait)?.put(&self.connection, bytes, wait);
        self.judge(done)
    }

    /// Bytes that lie ready.
    ///
    /// # Errors
    /// `PROTO`, `NOTCONN`.
    pub fn available(&self) -> Result<u64, Errno> {
        self.check_here()?;
        let there = own(&self.receiving, true)?.available();
        self.judge(there)
    }

    /// The bells of what this side sends: those that were rung, and those that nobody needed.
    #[must_use]
    pub fn bells(&self) -> Bells {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner).bells()
    }

    /// Whether the other side has taken everything that was sent.
    ///
    /// # Errors
    /// `PROTO`, `NOTCONN`.
    pub fn is_taken(&self) -> Result<bool, Errno> {
        self.check_here()?;
        let empty = own(&self.sending, true)?.is_empty();
        self.judge(empty)
    }

    /// Ends one way, or both; also while other threads are in calls.
    ///
    /// # Errors
    /// `NOTCONN` where the connection is over.
    ///
    /// # Source
    /// shutdown(2)
    pub fn end(&self, way: Direction) -> Result<(), Errno> {
        shut_down(&self.connection.socket, way)?;
        if way != Direction::Receive {
            self.connection.ended.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn check_here(&self) -> Result<(), Errno> {
        if self.connection.pair.is_here() { Ok(()) } else { Err(Errno::NOTCONN) }
    }

    fn check_sends(&self) -> Result<(), Errno> {
        self.check_here()?;
        if self.connection.ended.load(Ordering::Acquire) { Err(Errno::PIPE) } else { Ok(()) }
    }

    /// Whoever broke the rules is not listened to any more.
    fn judge<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        if matches!(done, Err(Errno::PROTO)) {
            let _ = shut_down(&self.connection.socket, Direction::Both);
        }
        done
    }
}

/// One direction, for one call.
fn own<T>(half: &Mutex<T>, wait: bool) -> Result<MutexGuard<'_, T>, Errno> {
    if wait {
        return Ok(half.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..TURNS {
        match half.try_lock() {
            Ok(half) => return Ok(half),
            Err(TryLockError::Poisoned(half)) => return Ok(half.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    // Another thread sleeps in it.
    Err(Errno::AGAIN)
}

impl Drop for Stream {
    fn drop(&mut self) {
        let connection = &self.connection;
        if !connection.pair.is_here() {
            // A child has none of the mappings: what lies there now is not to be unmapped.
            std::mem::forget(Arc::clone(&connection.pair));
            return;
        }
        let receiving = self.receiving.get_mut().unwrap_or_else(PoisonError::into_inner);
        receiving.end(connection);
        self.sending
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .end(usize::from(connection.seat.slot));
        connection.party.closed(&connection.seat);
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

const WAIT: How = How { wait: true, peek: false };

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
