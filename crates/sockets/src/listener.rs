//! A listener: the place where connections arrive.
//!
//! The daemon sends each connection as one packet with its descriptors, so the queue is the
//! kernel's. A program polls an epoll descriptor that holds the socket of those packets. A
//! successor of a killed daemon brings another socket, and the program's descriptor stays the same.
//! The same epoll also holds the sockets of [prepared connections](crate::prepared).

use crate::arrival_queue::ArrivalQueue;
use crate::error::SockError;
use crate::member::DomainMember;
use crate::prepared::PreparedConnection;
use crate::stream::Stream;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sys::Errno;
use m3ipc_wire::{SockArrival, SockKind};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// The longest frame of an arrival, in bytes.
const FRAME_BYTES: usize = 1024;
/// A port that accepts connections.
#[derive(Debug)]
pub struct Listener {
    member: Arc<DomainMember>,
    queue: Arc<ArrivalQueue>,
    port: u16,
    nonblocking: AtomicBool,
}

impl Listener {
    pub(crate) fn new(
        member: Arc<DomainMember>,
        port: u16,
        backlog: u32,
    ) -> Result<Self, SockError> {
        let queue = member.listen(port, backlog)?;
        Ok(Self { member, queue, port, nonblocking: AtomicBool::new(false) })
    }

    /// The address of this listener.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.member.address(), self.port)
    }

    /// Sets whether [`accept`](Self::accept) fails with `WouldBlock` instead of sleeping.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Accepts a connection. Returns it with the peer's address.
    ///
    /// # Errors
    /// `AGAIN`, `INTR`, `NETDOWN` where no daemon can be started, `ADDRINUSE` where a successor
    /// of the daemon gave the port to another process, `NOTCONN` in a child by fork. `MFILE` where
    /// no descriptor is left: the connection has ended.
    ///
    /// # Source
    /// accept(2)
    pub fn accept(&self) -> io::Result<(Stream, SocketAddrV4)> {
        let stream = self.accept_timeout(!self.nonblocking.load(Ordering::Relaxed), u64::MAX)?;
        let peer = stream.peer_addr();
        Ok((stream, peer))
    }

    /// Accepts a connection within a limit in nanoseconds; without `wait` the call never sleeps.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    pub fn accept_timeout(&self, wait: bool, limit_ns: u64) -> Result<Stream, SockError> {
        self.member.check_process()?;
        let mut frame = [0; FRAME_BYTES];
        loop {
            if let Some((connection, pair)) =
                self.queue.take_opened(|connection| self.member.report_closed(&connection.info))?
            {
                return Ok(Stream::new(
                    Arc::clone(&self.member),
                    pair,
                    connection.socket,
                    connection.info,
                )?);
            }
            match self.queue.next_packet(&mut frame) {
                // The daemon is gone: this socket brings no more packets.
                Ok((ended, packet)) if packet.bytes == 0 => {
                    self.member.renew_listener(self.port, &self.queue, &ended)?;
                }
                Ok((socket, packet)) if packet.truncated => {
                    let _ = m3ipc_sys::send_bytes(&*socket, &[1], &[], false);
                    // The connection ends with its lost descriptors, and its peer is told by the
                    // kernel.
                    self.report_lost(&frame[..packet.bytes]);
                    let why = "no descriptor is left for a connection; raise `ulimit -n`";
                    return Err(SockError::new(Errno::MFILE, why));
                }
                Ok((socket, packet)) => {
                    // The daemon counts waiting connections. A lost acknowledgement only delays the
                    // count.
                    let _ = m3ipc_sys::send_bytes(&*socket, &[1], &[], false);
                    match self.open_arrival(&frame[..packet.bytes], packet.fds) {
                        // The peer has died since it connected.
                        Err(error) if error.errno() == Errno::CONNABORTED => {}
                        other => return other,
                    }
                }
                Err(Errno::AGAIN) if wait => {
                    if !m3ipc_sys::wait_readable(&[self.queue.as_fd()], limit_ns)? {
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

    /// Reports the connections of a packet whose descriptors are lost.
    fn report_lost(&self, frame: &[u8]) {
        if let Ok(SockArrival(info, prepared)) = m3ipc_wire::decode::<SockArrival>(frame) {
            prepared.iter().chain([&info]).for_each(|info| self.member.report_closed(info));
        }
    }

    fn open_arrival(&self, frame: &[u8], mut fds: Vec<OwnedFd>) -> Result<Stream, SockError> {
        let arrival = m3ipc_wire::decode::<SockArrival>(frame);
        let (Ok(SockArrival(info, prepared)), false) = (arrival, fds.is_empty()) else {
            return Err(SockError::new(
                Errno::CONNABORTED,
                "the node daemon announced a connection without a socket; see its log",
            ));
        };
        let socket = fds.remove(0);
        let sockets = fds.split_off(if info.with_pair { fds.len().min(2) } else { 0 });
        let pair = self.member.pair_or_close(&info, &prepared, &fds)?;
        for connection in PreparedConnection::pair_up(prepared, sockets) {
            let info = connection.info;
            // Without memory for it the socket closes. The peer then asks the daemon instead.
            if self.queue.watch_prepared(connection, Arc::clone(&pair)).is_err() {
                self.member.report_closed(&info);
            }
        }
        Ok(Stream::new(Arc::clone(&self.member), pair, socket, info)?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.member.is_original() {
            self.queue
                .prepared()
                .drain()
                .for_each(|(_, (connection, _))| self.member.report_closed(&connection.info));
        }
        self.member.release(SockKind::Stream, self.port);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Whether an address is this member's, or the unspecified address.
pub(crate) fn is_own(address: Ipv4Addr, member: &DomainMember) -> bool {
    address.is_unspecified() || address == member.address()
}
