//! A listener: where connections arrive.
//!
//! Each arrives as one packet of the daemon's with its descriptors, so the queue is the kernel's. What a program polls
//! is an epoll that holds the socket they come through: a successor of a killed daemon brings another socket,
//! and the descriptor stays the same. The same epoll holds the sockets of connections that were prepared (see `spare`).

use crate::error::SockError;
use crate::pair::Pair;
use crate::party::Party;
use crate::spare::Spare;
use crate::stream::Stream;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use m3ipc_sys::{Errno, Poll};
use m3ipc_wire::{SockArrival, SockKind};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest frame of an arrival, in bytes.
const FRAME_BYTES: usize = 1024;
/// The token of the socket that connections come through; spares have others.
const SOCKET: u64 = 0;

/// What connections come through.
#[derive(Debug)]
pub(crate) struct Intake {
    poll: Poll,
    socket: Mutex<Arc<OwnedFd>>,
    /// Connections that were prepared, by their tokens.
    spares: Mutex<HashMap<u64, (Spare, Arc<Pair>)>>,
    next: AtomicU64,
}

impl Intake {
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let poll = Poll::new()?;
        poll.add(&socket, SOCKET)?;
        let socket = Mutex::new(Arc::new(socket));
        Ok(Self { poll, socket, spares: Mutex::default(), next: AtomicU64::new(SOCKET + 1) })
    }

    fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a successor's socket in place of the old one.
    pub(crate) fn replace(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let socket = socket.try_clone().map_err(|_cause| Errno::MFILE)?;
        let mut current = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.poll.remove(&*current);
        self.poll.add(&socket, SOCKET)?;
        *current = Arc::new(socket);
        Ok(())
    }

    fn spares(&self) -> MutexGuard<'_, HashMap<u64, (Spare, Arc<Pair>)>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a connection that was prepared to be opened.
    fn expect(&self, spare: Spare, pair: Arc<Pair>) -> Result<(), Errno> {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let mut spares = self.spares();
        self.poll.add(&spare.socket, token)?;
        spares.insert(token, (spare, pair));
        Ok(())
    }

    /// One that was opened; those whose other side has gone are told of to `gone`.
    fn opened(&self, gone: impl Fn(&Spare)) -> Result<Option<(Spare, Arc<Pair>)>, Errno> {
        if self.spares().is_empty() {
            return Ok(None);
        }
        let mut ready = Vec::new();
        self.poll.wait(&mut ready, Some(0))?;
        for event in ready {
            let mut spares = self.spares();
            let Some((spare, _)) = spares.get(&event.token) else { continue };
            let is_opened = spare.is_opened();
            if is_opened == Ok(false) {
                continue;
            }
            let _ = self.poll.remove(&spare.socket);
            let found = spares.remove(&event.token);
            match is_opened {
                Ok(_) => return Ok(found),
                Err(_ended) => found.iter().for_each(|(spare, _)| gone(spare)),
            }
        }
        Ok(None)
    }
}

/// A port where connections are taken.
#[derive(Debug)]
pub struct Listener {
    party: Arc<Party>,
    intake: Arc<Intake>,
    port: u16,
    nonblocking: AtomicBool,
}

impl Listener {
    pub(crate) fn new(party: Arc<Party>, port: u16, backlog: u32) -> Result<Self, SockError> {
        let intake = party.listen(port, backlog)?;
        Ok(Self { party, intake, port, nonblocking: AtomicBool::new(false) })
    }

    /// The address it takes connections at.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.party.address(), self.port)
    }

    /// Whether [`accept`](Self::accept) fails with `WouldBlock` rather than sleep.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Takes a connection, and tells whose it is.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`, `MFILE` where no descriptor is left, `NETDOWN` where the daemon has gone for good.
    ///
    /// # Source
    /// accept(2)
    pub fn accept(&self) -> io::Result<(Stream, SocketAddrV4)> {
        let stream = self.take(!self.nonblocking.load(Ordering::Relaxed), u64::MAX)?;
        let peer = stream.peer_addr();
        Ok((stream, peer))
    }

    /// The same, with a limit for the wait in nanoseconds.
    ///
    /// # Errors
    /// Of [`accept`](Self::accept).
    pub fn take(&self, wait: bool, limit_ns: u64) -> Result<Stream, SockError> {
        let mut frame = [0; FRAME_BYTES];
        loop {
            if let Some((spare, pair)) =
                self.intake.opened(|spare| self.party.closed(&spare.seat))?
            {
                return Ok(Stream::new(Arc::clone(&self.party), pair, spare.socket, spare.seat)?);
            }
            let socket = self.intake.socket();
            match m3ipc_sys::receive_packet(&*socket, &mut frame, false, true) {
                // Nothing ever comes through this socket again.
                Ok(packet) if packet.bytes == 0 => self.party.look_after_daemon()?,
                Ok(packet) if packet.truncated => {
                    let _ = m3ipc_sys::send_bytes(&*socket, &[1], &[], false);
                    // The connection ends with its descriptors: its other side hears of that.
                    let why = "no descriptor is left for a connection; raise `ulimit -n`";
                    return Err(SockError::new(Errno::MFILE, why));
                }
                Ok(packet) => {
                    // The daemon counts who waits; whether it hears this one now does not matter.
                    let _ = m3ipc_sys::send_bytes(&*socket, &[1], &[], false);
                    match self.arrival(&frame[..packet.bytes], packet.fds) {
                        // Its other side has died since: nobody is there to talk with.
                        Err(error) if error.errno() == Errno::CONNABORTED => {}
                        other => return other,
                    }
                }
                Err(Errno::AGAIN) if wait => {
                    if !m3ipc_sys::wait_readable(&[self.intake.poll.as_fd()], limit_ns)? {
                        return Err(SockError::new(Errno::AGAIN, "no connection came in time"));
                    }
                }
                Err(Errno::AGAIN) => {
                    return Err(SockError::new(Errno::AGAIN, "no connection waits"));
                }
                Err(Errno::CONNRESET) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn arrival(&self, frame: &[u8], mut fds: Vec<OwnedFd>) -> Result<Stream, SockError> {
        let arrival = m3ipc_wire::decode::<SockArrival>(frame);
        let (Ok(SockArrival(seat, spares)), false) = (arrival, fds.is_empty()) else {
            return Err(SockError::new(Errno::CONNABORTED, "an arrival that is none"));
        };
        let socket = fds.remove(0);
        let sockets = fds.split_off(if seat.with_pair { fds.len().min(2) } else { 0 });
        let pair = self.party.pair(&seat, &fds)?;
        for spare in Spare::all(spares, sockets) {
            let seat = spare.seat;
            // Without memory for it the connecting side finds it closed, and asks.
            if self.intake.expect(spare, Arc::clone(&pair)).is_err() {
                self.party.closed(&seat);
            }
        }
        Ok(Stream::new(Arc::clone(&self.party), pair, socket, seat)?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.party.is_here() {
            self.intake.spares().drain().for_each(|(_, (spare, _))| self.party.closed(&spare.seat));
        }
        self.party.release(SockKind::Stream, self.port);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.intake.poll.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// The address that stands for any of one's own.
pub(crate) fn is_own(address: Ipv4Addr, party: &Party) -> bool {
    address.is_unspecified() || address == party.address()
}
