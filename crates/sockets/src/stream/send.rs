//! Sending: into blocks, and where there are none left, into the socket.
//!
//! Bytes that find no block go to the socket as a record, and so do those behind them until the receiver has taken
//! all of that: so the order is always blocks, then socket, then blocks. A full socket is not
//! writable, a sender that may wait sleeps in the kernel, and all limits, signals and errors are the kernel's.

use super::Connection;
use crate::outgoing::Outgoing;
use crate::record::{BODY_MAX_BYTES, RECORD_BYTES, Record, low_half};
use core::sync::atomic::Ordering;
use m3ipc_link::{AdaptiveSpin, SpinStep, WaitStrategy};
use m3ipc_sys::{Errno, send_bytes};
use m3ipc_wire::sock::half;

/// How long one sends without asking the kernel whether the other side lives, in ticks: below a millisecond.
const CHECK_TICKS: u64 = 1_000_000;

/// What the sender of a connection knows.
#[derive(Debug)]
pub(super) struct Sending {
    ring: Outgoing,
    /// Bytes announced by records.
    given: u64,
    /// All of them have been taken: blocks may be used.
    drained: bool,
    /// Bytes of the last record that the socket had no room for.
    owed: usize,
    checked_ticks: u64,
    rung: u64,
    overflows: u64,
    pace: AdaptiveSpin,
}

impl Sending {
    pub(super) fn new(ring: Outgoing) -> Self {
        Self {
            ring,
            given: 0,
            drained: true,
            owed: 0,
            checked_ticks: m3ipc_sys::ticks(),
            rung: 0,
            overflows: 0,
            pace: AdaptiveSpin::new(WaitStrategy::Adaptive),
        }
    }

    /// Sends as much as there is room for; all of it where the call may wait.
    pub(super) fn put(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        wait: bool,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match self.put_some(connection, &bytes[done..], wait) {
                Ok(0) if !wait => break,
                Ok(count) => done += count,
                Err(Errno::AGAIN | Errno::INTR) if done > 0 => break,
                // The next call tells of it.
                Err(errno) if done > 0 && errno != Errno::PROTO => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }

    #[inline]
    fn put_some(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        wait: bool,
    ) -> Result<usize, Errno> {
        if self.owed > 0 {
            let part = &bytes[..bytes.len().min(self.owed)];
            let sent = send_bytes(&connection.socket, &[], part, wait)?;
            self.owed -= sent.min(self.owed);
            return Ok(sent);
        }
        let mut waited = !wait;
        loop {
            if connection.pair.is_joined() && self.is_drained()? {
                let (count, ring) = self.ring.push(bytes)?;
                if ring {
                    match self.ring_bell(connection) {
                        // The other side took all of it, and ended before it was called.
                        Err(Errno::PIPE | Errno::CONNRESET) if self.ring.is_empty()? => {}
                        rung => rung?,
                    }
                } else if count > 0 {
                    self.check(connection)?;
                }
                if count > 0 {
                    return Ok(count);
                }
            }
            if !waited {
                waited = true;
                if self.watch(connection)? {
                    continue;
                }
            }
            return self.overflow(connection, bytes, wait);
        }
    }

    /// Whether the receiver has taken all that went through the socket.
    #[inline]
    fn is_drained(&mut self) -> Result<bool, Errno> {
        if !self.drained {
            // Acquire: pairs with the receiver's release of it.
            let taken = self.ring.way().word(half::TAKEN).load(Ordering::Acquire);
            if taken > self.given {
                return Err(Errno::PROTO);
            }
            self.drained = taken == self.given;
        }
        Ok(self.drained)
    }

    fn ring_bell(&mut self, connection: &Connection) -> Result<(), Errno> {
        self.checked_ticks = m3ipc_sys::ticks();
        match send_bytes(&connection.socket, &Record::Bell.encode(), &[], false) {
            // A full socket is readable already.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {
                self.rung += 1;
                self.ring.way().word(half::WAKEUPS).store(self.rung, Ordering::Relaxed);
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Asks the kernel now and then whether the other side lives, where nothing else would.
    #[inline]
    fn check(&mut self, connection: &Connection) -> Result<(), Errno> {
        let now = m3ipc_sys::ticks();
        if now.wrapping_sub(self.checked_ticks) < CHECK_TICKS && !connection.is_suspect() {
            return Ok(());
        }
        self.checked_ticks = now;
        // What exactly is wrong the socket says to who uses it.
        if m3ipc_sys::has_hung_up(&connection.socket)? {
            self.ring_bell(connection)
        } else {
            Ok(())
        }
    }

    /// Looks for room for as long as a sleep would cost; `true` where there is some.
    fn watch(&mut self, connection: &Connection) -> Result<bool, Errno> {
        if !connection.pair.is_joined() {
            return Ok(false);
        }
        let here = m3ipc_sys::current_cpu();
        self.ring.tell_cpu(here);
        let mut patience = self.pace.begin();
        let found = loop {
            if self.is_drained()? && self.ring.has_room()? {
                break true;
            }
            let same_cpu = self.ring.way().cpu(half::RECEIVER_CPU).load(Ordering::Relaxed) == here;
            if patience.next(same_cpu) == SpinStep::Sleep {
                break false;
            }
        };
        self.pace.learn(&patience);
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
        // The kernel takes a packet of its own size, which is larger than a head, or nothing.
        let sent = sent.checked_sub(RECORD_BYTES).ok_or(Errno::PROTO)?;
        self.owed = body.len() - sent;
        self.given += u64::from(count);
        self.drained = false;
        self.overflows += 1;
        self.ring.way().word(half::GIVEN).store(self.given, Ordering::Relaxed);
        self.ring.way().word(half::OVERFLOWS).store(self.overflows, Ordering::Relaxed);
        Ok(sent)
    }

    pub(super) fn bells(&self) -> super::Bells {
        super::Bells { rung: self.rung, spared: self.ring.spared() }
    }

    /// Whether the other side has taken everything.
    pub(super) fn is_empty(&mut self) -> Result<bool, Errno> {
        Ok(self.is_drained()? && self.ring.is_empty()?)
    }

    /// The connection ends here.
    pub(super) fn end(&mut self, slot: usize) {
        self.ring.end(slot);
    }
}
