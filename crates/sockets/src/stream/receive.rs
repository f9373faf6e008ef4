//! Receiving: first from blocks, then from the socket, then by spinning, then by sleeping.
//!
//! A *stale* wakeup record lies in the socket although its suppression word was rearmed already.
//! The receiver takes stale records out when no bytes are left. The socket is thus readable if and
//! only if bytes can be read.

use super::connection::Connection;
use crate::polled::PolledConnection;
use crate::receive_ring::ReceiveRing;
use crate::record::{RECORD_BYTES, Record, low_half};
use crate::send_ring::current_cpu;
use core::sync::atomic::Ordering;
use m3ipc_link::{AdaptiveSpin, SpinStep, WaitStrategy};
use m3ipc_sys::{Errno, ReceiveFlags, receive_bytes};
use m3ipc_wire::sock::half;

/// Polls for a wakeup record that is on its way when the connection closes.
const LAST_POLLS: u32 = 64;

/// Calls in a row that leave the socket to a poller, at most: a program may stop to ask the poller.
const LEFT_MAX: u32 = 63;

/// The most records that a non-waiting call reads before it reports that nothing is there.
const TRIES: u32 = 64;

/// Polls of a wait before the clock is read.
const FAST_POLLS: u32 = 64;

/// A receive that waits: the fast path.
const SHORT: ReceiveOptions = ReceiveOptions { wait: true, peek: false };
const PEEK: ReceiveFlags = ReceiveFlags { wait: false, peek: true };
const TAKE: ReceiveFlags = ReceiveFlags { wait: false, peek: false };

/// Options of a receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Sleep until bytes come.
    pub wait: bool,
    /// Leave the bytes where they are.
    pub peek: bool,
}

/// Bytes in the socket that follow the bytes of blocks below `behind`.
#[derive(Clone, Copy, Debug)]
struct SocketBytes {
    count: u32,
    behind: u64,
}

/// The result of a poll of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    /// Something changed: bytes, a wakeup record, or an error.
    Changed,
    Nothing,
    /// The peer has ended its sending, and this side has taken everything.
    End,
}

/// The receiver's state of a connection.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    ring: ReceiveRing,
    in_socket: Option<SocketBytes>,
    /// Wakeup records in the socket whose suppression word was rearmed.
    stale: u32,
    /// Bytes announced by records, and bytes taken out of the socket.
    announced: u64,
    taken: u64,
    /// An error that the kernel reported once, behind bytes that were sent before it.
    pending: Option<Errno>,
    /// Calls in a row that left the socket to a poller.
    left_to_poller: u32,
    /// The sender's count of bytes in the socket before the last look at the socket.
    seen_given: u64,
    /// The last bytes came within the first polls of a wait.
    comes_soon: bool,
    spin: AdaptiveSpin,
}

impl ReceiveHalf {
    pub(super) fn new(ring: ReceiveRing) -> Self {
        let spin = AdaptiveSpin::new(WaitStrategy::Adaptive);
        Self {
            ring,
            in_socket: None,
            stale: 0,
            announced: 0,
            taken: 0,
            pending: None,
            left_to_poller: 0,
            seen_given: 0,
            comes_soon: false,
            spin,
        }
    }

    /// Takes at least one byte; 0 means that the peer has ended its sending.
    pub(super) fn take(
        &mut self,
        connection: &Connection,
        bytes: &mut [u8],
        options: ReceiveOptions,
    ) -> Result<usize, Errno> {
        if options == SHORT && self.may_take_soon(bytes) {
            let got = self.ring.take_soon(bytes, FAST_POLLS)?;
            if got > 0 {
                if self.ring.words().suppression().is_sent() {
                    self.drain_wakeups(connection);
                }
                return Ok(got);
            }
            self.comes_soon = false;
        }
        let (mut spun, mut tries) = (bytes.is_empty(), 0);
        loop {
            let got = self.take_ready(connection, bytes, options.peek)?;
            if got > 0 {
                if !options.peek {
                    self.drain_wakeups(connection);
                }
                return Ok(got);
            }
            match self.pending.take() {
                // The peer's only unread bytes were wakeup records, so it lost nothing.
                Some(Errno::CONNRESET) if connection.is_all_taken() => {}
                Some(errno) => return Err(errno),
                None => {}
            }
            if bytes.is_empty() {
                return Ok(0);
            }
            if options.wait && !spun {
                spun = true;
                if self.spin_for_bytes(if options.peek { 0 } else { bytes.len() as u64 }) {
                    continue;
                }
            }
            if !options.wait && self.leaves_kernel_to_poller(connection)? {
                self.note_nothing(connection);
                return Err(Errno::AGAIN);
            }
            tries += 1;
            match self.poll_socket(connection)? {
                SocketState::Changed if options.wait || tries < TRIES => continue,
                SocketState::End => return Ok(0),
                SocketState::Nothing if !options.wait => {
                    self.note_nothing(connection);
                    return Err(Errno::AGAIN);
                }
                _ if !options.wait => return Err(Errno::AGAIN),
                _ => self.sleep(connection)?,
            }
        }
    }

    /// Tells a poller where the next bytes lie.
    #[inline]
    pub(super) fn note_next(&self, polled: &PolledConnection) {
        polled.note_next_in(self.ring.next_offset());
    }

    /// Tells a poller that these words of the sender announce no bytes that can be read.
    fn note_nothing(&self, connection: &Connection) {
        connection.polled().note_nothing(self.ring.checked_tail(), self.seen_given);
    }

    /// Whether the fast path is open: the last wait was short, and the socket has nothing to say.
    #[inline]
    fn may_take_soon(&self, bytes: &[u8]) -> bool {
        self.comes_soon
            && self.in_socket.is_none()
            && self.stale == 0
            && self.pending.is_none()
            && !bytes.is_empty()
            && !self.ring.words().suppression().is_sent()
    }

    /// The number of bytes that can be read at once.
    pub(super) fn available(&mut self, connection: &Connection) -> Result<u64, Errno> {
        let mut tries = 0;
        // The next bytes may lie in the socket, behind a record that was not read yet.
        while self.ring.available()? == 0
            && self.in_socket.is_none()
            && self.pending.is_none()
            && tries < TRIES
            && self.poll_socket(connection)? == SocketState::Changed
        {
            tries += 1;
        }
        let Some(rest) = self.in_socket else { return self.ring.available() };
        // The sender may have had no room for all of the record's bytes yet.
        let in_socket = u64::from(rest.count).min(m3ipc_sys::queued_bytes(&connection.socket)?);
        Ok(self.ring.available()? + in_socket)
    }

    #[inline]
    fn take_ready(
        &mut self,
        connection: &Connection,
        bytes: &mut [u8],
        peek: bool,
    ) -> Result<usize, Errno> {
        let rest = match self.in_socket {
            Some(rest) => rest,
            None if peek => return self.ring.pull(bytes, u64::MAX, true),
            None => return self.ring.take(bytes),
        };
        let before = self.ring.pull(bytes, rest.behind - self.ring.head(), peek)?;
        if before > 0 || bytes.is_empty() || rest.behind > self.ring.head() {
            return Ok(before);
        }
        let want = bytes.len().min(rest.count as usize);
        match receive_bytes(
            &connection.socket,
            &mut bytes[..want],
            ReceiveFlags { wait: false, peek },
        ) {
            Ok(got) if got > 0 && !peek => {
                // `got` is at most `count`, which has 32 bits.
                let left = rest.count - u32::try_from(got).unwrap_or(rest.count).min(rest.count);
                self.in_socket = (left > 0).then_some(SocketBytes { count: left, ..rest });
                self.taken += got as u64;
                // Release: pairs with the acquire in `SendHalf::is_drained`; the sender then uses
                // blocks again.
                self.ring.words().word(half::TAKEN).store(self.taken, Ordering::Release);
                Ok(got)
            }
            Ok(got) => Ok(got),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => {
                self.pending = Some(errno);
                Ok(0)
            }
        }
    }

    /// Spins for at most the cost of a sleep; `true` where bytes came.
    fn spin_for_bytes(&mut self, want: u64) -> bool {
        let until = self.ring.head() + want;
        if self.in_socket.is_some() || self.ring.words().suppression().is_sent() {
            return false;
        }
        let here = current_cpu();
        self.ring.publish_cpu(here);
        let words = self.ring.words();
        words.polling().begin(until);
        let mut spin_wait = self.spin.begin();
        let mut polls = 0;
        let found = loop {
            let more = self.ring.claimed_tail() != self.ring.head()
                || words.word(half::GIVEN).load(Ordering::Relaxed) != self.announced;
            if more {
                break true;
            }
            let same_cpu = words.cpu(half::SENDER_CPU).load(Ordering::Relaxed) == here;
            polls += if same_cpu { FAST_POLLS } else { 1 };
            if spin_wait.next(same_cpu) == SpinStep::Sleep {
                break false;
            }
        };
        words.polling().end();
        self.comes_soon = found && polls < FAST_POLLS;
        self.spin.learn(&spin_wait);
        found
    }

    /// Whether a poller asks the kernel about this socket, so that a call that does not wait need
    /// not: nothing but bytes in blocks has come since the last call.
    #[inline]
    fn leaves_kernel_to_poller(&mut self, connection: &Connection) -> Result<bool, Errno> {
        let words = self.ring.words();
        let given = words.word(half::GIVEN).load(Ordering::Acquire);
        self.seen_given = given;
        let leaves = words.suppression().armed().is_some()
            && !connection.polled().must_ask_kernel()
            && self.in_socket.is_none()
            && self.stale == 0
            && given == self.announced
            && self.left_to_poller < LEFT_MAX;
        self.left_to_poller = if leaves { self.left_to_poller + 1 } else { 0 };
        // Read the tail once more: the connection was armed before this look, or it is not armed.
        Ok(leaves && self.ring.available()? == 0)
    }

    /// Changes the suppression word from SENT, to what a poller wants.
    #[inline]
    fn rearm(&self, connection: &Connection) -> bool {
        let (suppression, polled) = (self.ring.words().suppression(), connection.polled());
        let rest = polled.rest();
        let was_sent = suppression.rearm_to(rest);
        if was_sent && polled.rest() != rest {
            // The stream left its poller meanwhile.
            suppression.disarm();
        }
        was_sent
    }

    /// Polls the socket after the blocks were empty.
    fn poll_socket(&mut self, connection: &Connection) -> Result<SocketState, Errno> {
        self.seen_given = self.ring.words().word(half::GIVEN).load(Ordering::Acquire);
        if self.in_socket.is_some() {
            return Ok(self
                .socket_state(receive_bytes(&connection.socket, &mut [0], PEEK), 1)
                .unwrap_or(SocketState::Changed));
        }
        if self.rearm(connection) {
            self.stale += 1;
        }
        if self.ring.available()? > 0 {
            return Ok(SocketState::Changed);
        }
        // A record that is not stale may belong to a suppression word that a sender changes right
        // now. It stays in the socket until the word is rearmed.
        let peek = self.stale == 0;
        let mut head = [0; RECORD_BYTES];
        connection.polled().asks_kernel();
        let got = receive_bytes(&connection.socket, &mut head, ReceiveFlags { wait: false, peek });
        if got != Err(Errno::AGAIN) {
            // More may lie behind this, and an edge tells of it only once.
            connection.polled().ask_kernel();
        }
        if let Some(found) = self.socket_state(got, RECORD_BYTES) {
            // The peer may have published bytes before it ended.
            let more = found == SocketState::End && self.ring.available()? > 0;
            return Ok(if more { SocketState::Changed } else { found });
        }
        let record = match got {
            Ok(RECORD_BYTES) => Record::decode(head).ok_or(Errno::PROTO)?,
            _ => return Err(Errno::PROTO),
        };
        match record {
            Record::Wakeup if !peek => self.stale -= 1,
            Record::Wakeup if self.rearm(connection) => self.stale += 1,
            // A sender asked the kernel whether this side lives. The record has no other meaning.
            Record::Wakeup => drop(receive_bytes(&connection.socket, &mut head, TAKE)),
            Record::Bytes { count, behind } => {
                if peek {
                    let _ = receive_bytes(&connection.socket, &mut head, TAKE);
                }
                self.expect_bytes(connection, count, behind)?;
            }
        }
        Ok(SocketState::Changed)
    }

    /// The socket's state behind a result that is no record of `whole` bytes.
    fn socket_state(&mut self, got: Result<usize, Errno>, whole: usize) -> Option<SocketState> {
        match got {
            Ok(0) => Some(SocketState::End),
            Ok(bytes) if bytes == whole => None,
            Ok(_) => None,
            Err(Errno::AGAIN | Errno::INTR) => Some(SocketState::Nothing),
            Err(errno) => {
                self.pending = Some(errno);
                Some(SocketState::Changed)
            }
        }
    }

    /// Notes bytes that follow in the socket, behind some bytes of blocks.
    fn expect_bytes(
        &mut self,
        connection: &Connection,
        count: u32,
        behind: u32,
    ) -> Result<(), Errno> {
        let head = self.ring.head();
        // `behind` has only the low half of a position that is at most a few blocks away.
        let ahead = u64::from(behind.wrapping_sub(low_half(head)));
        if ahead > self.ring.available()? {
            return Err(Errno::PROTO);
        }
        self.in_socket = Some(SocketBytes { count, behind: head + ahead });
        self.announced += u64::from(count);
        // The bytes may have come this way because this side has not mapped the peer's pool yet.
        connection.map_peer_pool();
        Ok(())
    }

    /// After a take: where no bytes are left, no wakeup record may be left either.
    #[inline]
    fn drain_wakeups(&mut self, connection: &Connection) {
        if let Err(errno) = self.try_drain_wakeups(connection) {
            self.pending = Some(errno);
        }
    }

    fn try_drain_wakeups(&mut self, connection: &Connection) -> Result<(), Errno> {
        if self.in_socket.is_some() {
            return Ok(());
        }
        if self.ring.claimed_tail() != self.ring.head() {
            // An edge-triggered poll is owed one edge at the next arrival, also where bytes were
            // left.
            if connection.is_nonblocking() && self.rearm(connection) {
                self.stale += 1;
            }
            return Ok(());
        }
        if self.rearm(connection) {
            self.stale += 1;
            if self.ring.claimed_tail() != self.ring.head() {
                return Ok(());
            }
        }
        while self.stale > 0 {
            let mut head = [0; RECORD_BYTES];
            let got = receive_bytes(&connection.socket, &mut head, TAKE);
            if self.socket_state(got, RECORD_BYTES).is_some() {
                break;
            }
            match Record::decode(head).filter(|_| got == Ok(RECORD_BYTES)).ok_or(Errno::PROTO)? {
                Record::Wakeup => self.stale -= 1,
                Record::Bytes { count, behind } => {
                    self.expect_bytes(connection, count, behind)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sleeps in the kernel, which knows of time limits, signals, ends and errors.
    fn sleep(&mut self, connection: &Connection) -> Result<(), Errno> {
        match receive_bytes(&connection.socket, &mut [0], ReceiveFlags { wait: true, peek: true }) {
            Ok(_) => Ok(()),
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => Err(errno),
            Err(errno) => {
                self.pending = Some(errno);
                Ok(())
            }
        }
    }

    /// Closes the half. Wakeup records without bytes must not look like unread bytes.
    pub(super) fn close(&mut self, connection: &Connection) {
        for _ in 0..LAST_POLLS {
            if self.try_drain_wakeups(connection).is_err()
                || self.stale == 0
                || self.in_socket.is_some()
            {
                return;
            }
            // A sender has claimed a record that is not in the socket yet.
            std::thread::yield_now();
        }
    }
}
