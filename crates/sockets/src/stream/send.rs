//! Sending: into blocks, and into the socket where no block is free.
//!
//! Bytes without a free block go to the socket as a record. So do all later bytes until the
//! receiver has taken them. The order is therefore always blocks, then socket, then blocks. A full
//! socket is not writable, a waiting sender sleeps in the kernel, and all limits, signals and
//! errors are the kernel's.

use super::connection::{Connection, WakeupCounts};
use crate::record::{BODY_MAX_BYTES, RECORD_BYTES, Record, low_half};
use crate::send_ring::{SendRing, current_cpu};
use core::sync::atomic::Ordering;
use m3ipc_link::{AdaptiveSpin, SpinStep, WaitStrategy};
use m3ipc_sys::{Errno, send_bytes};
use m3ipc_wire::sock::half;

/// The time between two checks that the peer lives, in ticks: below a millisecond. One connection
/// checks for all with this peer.
const CHECK_TICKS: u64 = 1_000_000;
/// The time between two checks of each connection, in ticks: half a second or more. Another
/// connection does not show that the peer closed this one past the library.
const OWN_CHECK_TICKS: u64 = 1 << 31;

/// The sender's state of a connection.
#[derive(Debug)]
pub(super) struct SendHalf {
    ring: SendRing,
    /// Bytes announced by records.
    announced: u64,
    /// The receiver has taken all announced bytes, so blocks may be used.
    drained: bool,
    /// Bytes of the last record that had no room in the socket.
    unsent: usize,
    checked_ticks: u64,
    /// The system had no memory for the last wakeup record. The next send repeats it.
    owes_wakeup: bool,
    wakeups: u64,
    overflows: u64,
    spin: AdaptiveSpin,
}

impl SendHalf {
    pub(super) fn new(ring: SendRing) -> Self {
        Self {
            ring,
            announced: 0,
            drained: true,
            unsent: 0,
            checked_ticks: m3ipc_sys::ticks(),
            owes_wakeup: false,
            wakeups: 0,
            overflows: 0,
            spin: AdaptiveSpin::new(WaitStrategy::Adaptive),
        }
    }

    /// Sends the bytes that have room; a waiting call sends all of them.
    pub(super) fn send(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        wait: bool,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match self.send_some(connection, &bytes[done..], wait) {
                Ok(0) if !wait => break,
                Ok(count) => done += count,
                Err(Errno::AGAIN | Errno::INTR) if done > 0 => break,
                // The next call returns this error.
                Err(errno) if done > 0 && errno != Errno::PROTO => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }

    #[inline]
    fn send_some(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        wait: bool,
    ) -> Result<usize, Errno> {
        if self.unsent > 0 {
            let part = &bytes[..bytes.len().min(self.unsent)];
            let sent = send_bytes(&connection.socket, &[], part, wait)?;
            self.unsent -= sent.min(self.unsent);
            return Ok(sent);
        }
        let mut waited = !wait;
        loop {
            if connection.pair.is_pool_read() && self.is_drained()? {
                let (count, wake) = self.ring.push(bytes, &|id| connection.sibling(id))?;
                if wake || self.owes_wakeup {
                    match self.send_wakeup(connection) {
                        // The peer took all bytes and ended before the wakeup record was sent.
                        Err(Errno::PIPE | Errno::CONNRESET) if self.ring.is_empty()? => {}
                        sent => sent?,
                    }
                } else if count > 0 {
                    self.check_peer(connection)?;
                }
                if count > 0 {
                    connection.polled().note_next_out(self.ring.next_offset());
                    return Ok(count);
                }
            }
            if !waited {
                waited = true;
                if self.spin_for_room(connection)? {
                    continue;
                }
            }
            return self.overflow(connection, bytes, wait);
        }
    }

    /// Whether the receiver has taken all bytes that went through the socket.
    #[inline]
    fn is_drained(&mut self) -> Result<bool, Errno> {
        if !self.drained {
            // Acquire: pairs with the release in `ReceiveHalf::take_ready`.
            let taken = self.ring.words().word(half::TAKEN).load(Ordering::Acquire);
            if taken > self.announced {
                return Err(Errno::PROTO);
            }
            self.drained = taken == self.announced;
        }
        Ok(self.drained)
    }

    /// Sends a wakeup record for published bytes. The only errors are those after which the peer
    /// takes no more bytes: after any other one the caller would send the bytes again.
    fn send_wakeup(&mut self, connection: &Connection) -> Result<(), Errno> {
        self.checked_ticks = m3ipc_sys::ticks();
        self.owes_wakeup = false;
        match send_bytes(&connection.socket, &Record::Wakeup.encode(), &[], false) {
            // A full socket is readable already.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {
                self.wakeups += 1;
                self.ring.words().word(half::WAKEUPS).store(self.wakeups, Ordering::Relaxed);
                Ok(())
            }
            Err(errno @ (Errno::PIPE | Errno::CONNRESET)) => Err(errno),
            Err(_no_memory) => {
                self.owes_wakeup = true;
                Ok(())
            }
        }
    }

    /// Asks the kernel at intervals whether the peer lives, where no other call would. A process
    /// ends with all its connections, so one check counts for all that it has with this one.
    #[inline]
    fn check_peer(&mut self, connection: &Connection) -> Result<(), Errno> {
        let now = m3ipc_sys::ticks();
        if !connection.is_suspect() && !connection.polled().has_peer_ended() {
            let own_age = now.wrapping_sub(self.checked_ticks);
            let is_alive = || now.wrapping_sub(connection.pair.alive_ticks()) < CHECK_TICKS;
            if own_age < CHECK_TICKS || (own_age < OWN_CHECK_TICKS && is_alive()) {
                return Ok(());
            }
        }
        self.check_peer_now(connection, now)
    }

    #[cold]
    fn check_peer_now(&mut self, connection: &Connection, now: u64) -> Result<(), Errno> {
        self.checked_ticks = now;
        // The socket reports its own error to the next send.
        match m3ipc_sys::has_hung_up(&connection.socket) {
            Ok(true) => self.send_wakeup(connection),
            Ok(false) => {
                connection.pair.note_alive(now);
                Ok(())
            }
            // A signal, for example. The bytes are published already, so a later send asks again.
            Err(_not_known) => Ok(()),
        }
    }

    /// Spins for at most the cost of a sleep; `true` where room came.
    fn spin_for_room(&mut self, connection: &Connection) -> Result<bool, Errno> {
        if !connection.pair.is_pool_read() {
            return Ok(false);
        }
        let here = current_cpu();
        self.ring.publish_cpu(here);
        let mut spin_wait = self.spin.begin();
        let found = loop {
            if self.is_drained()? && self.ring.has_room()? {
                break true;
            }
            let same_cpu =
                self.ring.words().cpu(half::RECEIVER_CPU).load(Ordering::Relaxed) == here;
            if spin_wait.next(same_cpu) == SpinStep::Sleep {
                break false;
            }
        };
        self.spin.learn(&spin_wait);
        Ok(found)
    }

    fn overflow(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        wait: bool,
    ) -> Result<usize, Errno> {
        let body = &bytes[..bytes.len().min(BODY_MAX_BYTES)];
        let (count, behind) = (low_half(body.len() as u64), low_half(self.ring.tail()));
        let head = Record::Bytes { count, behind }.encode();
        self.checked_ticks = m3ipc_sys::ticks();
        let sent = send_bytes(&connection.socket, &head, body, wait)?;
        // A packet of the kernel is larger than a head, so the kernel took the head or nothing.
        let sent = sent.checked_sub(RECORD_BYTES).ok_or(Errno::PROTO)?;
        self.unsent = body.len() - sent;
        self.announced += u64::from(count);
        self.drained = false;
        self.overflows += 1;
        self.ring.words().word(half::GIVEN).store(self.announced, Ordering::Relaxed);
        self.ring.words().word(half::OVERFLOWS).store(self.overflows, Ordering::Relaxed);
        self.ring.announce_overflow(&|id| connection.sibling(id));
        Ok(sent)
    }

    pub(super) fn wakeup_counts(&self) -> WakeupCounts {
        WakeupCounts { sent: self.wakeups, suppressed: self.ring.suppressed() }
    }

    /// Whether the receiver has taken everything.
    pub(super) fn is_empty(&mut self) -> Result<bool, Errno> {
        Ok(self.is_drained()? && self.ring.is_empty()?)
    }

    /// Closes the half.
    pub(super) fn close(&mut self, slot: usize) {
        self.ring.end(slot);
    }
}
