//! Receiving: blocks first, then the socket, then a look, then sleep.
//!
//! Bells that the receiver knows of and has not taken out of the socket are *stale*: their door has been turned back. They are
//! taken out where no bytes are left, so that the socket is readable if and only if there is something to read.

use super::Connection;
use crate::incoming::Incoming;
use crate::record::{RECORD_BYTES, Record, low_half};
use core::sync::atomic::Ordering;
use m3ipc_link::notification::NotificationSuppression;
use m3ipc_link::{AdaptiveSpin, SpinStep, WaitStrategy};
use m3ipc_sys::{Errno, ReceiveFlags, receive_bytes};
use m3ipc_wire::sock::half;

/// Looks for a bell that is on its way, where the connection ends.
const LAST_LOOKS: u32 = 64;

/// Records that a call which does not wait reads at most before it says that there is nothing.
const TRIES: u32 = 64;

const LOOK: ReceiveFlags = ReceiveFlags { wait: false, peek: true };
const TAKE: ReceiveFlags = ReceiveFlags { wait: false, peek: false };

/// How a call wants its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Sleep until there are some.
    pub wait: bool,
    /// Leave them there.
    pub peek: bool,
}

/// Bytes that follow in the socket, once all of blocks before them have been taken.
#[derive(Clone, Copy, Debug)]
struct Due {
    count: u32,
    behind: u64,
}

/// What a look into the socket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Something has changed: bytes, a bell, an error.
    More,
    Nothing,
    /// The other side has ended, and everything of it was taken.
    End,
}

/// What the receiver of a connection knows.
#[derive(Debug)]
pub(super) struct Receiving {
    ring: Incoming,
    due: Option<Due>,
    /// Bells in the socket whose door has been turned back.
    stale: u32,
    /// Bytes announced by records, and bytes taken out of them.
    announced: u64,
    taken: u64,
    /// An error that the kernel told of once, behind bytes that were sent before.
    pending: Option<Errno>,
    pace: AdaptiveSpin,
}

impl Receiving {
    pub(super) fn new(ring: Incoming) -> Self {
        let pace = AdaptiveSpin::new(WaitStrategy::Adaptive);
        Self { ring, due: None, stale: 0, announced: 0, taken: 0, pending: None, pace }
    }

    /// Bytes, at least one; none where the other side has ended.
    pub(super) fn take(
        &mut self,
        connection: &Connection,
        bytes: &mut [u8],
        how: How,
    ) -> Result<usize, Errno> {
        let (mut looked, mut tries) = (bytes.is_empty(), 0);
        loop {
            let got = self.at_hand(connection, bytes, how.peek)?;
            if got > 0 {
                if !how.peek {
                    self.settle(connection);
                }
                return Ok(got);
            }
            match self.pending.take() {
                // A bell that was on its way when the other side ended is nothing that it did not read.
                Some(Errno::CONNRESET) if connection.is_all_taken() => {}
                Some(errno) => return Err(errno),
                None => {}
            }
            if bytes.is_empty() {
                return Ok(0);
            }
            if how.wait && !looked {
                looked = true;
                if self.watch(if how.peek { 0 } else { bytes.len() as u64 }) {
                    continue;
                }
            }
            tries += 1;
            match self.look(connection)? {
                Found::More if how.wait || tries < TRIES => continue,
                Found::End => return Ok(0),
                _ if !how.wait => return Err(Errno::AGAIN),
                _ => self.sleep(connection)?,
            }
        }
    }

    /// Bytes that can be read at once.
    pub(super) fn available(&mut self) -> Result<u64, Errno> {
        Ok(self.ring.available()? + self.due.map_or(0, |due| u64::from(due.count)))
    }

    #[inline]
    fn at_hand(
        &mut self,
        connection: &Connection,
        bytes: &mut [u8],
        peek: bool,
    ) -> Result<usize, Errno> {
        let due = match self.due {
            Some(due) => due,
            None if peek => return self.ring.pull(bytes, u64::MAX, true),
            None => return self.ring.take(bytes),
        };
        let before = self.ring.pull(bytes, due.behind - self.ring.head(), peek)?;
        if before > 0 || bytes.is_empty() || due.behind > self.ring.head() {
            return Ok(before);
        }
        let want = bytes.len().min(due.count as usize);
        match receive_bytes(
            &connection.socket,
            &mut bytes[..want],
            ReceiveFlags { wait: false, peek },
        ) {
            Ok(got) if got > 0 && !peek => {
                // No more than `count`, which has 32 bits.
                let left = due.count - u32::try_from(got).unwrap_or(due.count).min(due.count);
                self.due = (left > 0).then_some(Due { count: left, ..due });
                self.taken += got as u64;
                // Release: pairs with the sender's look, after which it uses blocks again.
                self.ring.way().word(half::TAKEN).store(self.taken, Ordering::Release);
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

    /// Looks for bytes for as long as a sleep would cost; `true` where some came.
    fn watch(&mut self, want: u64) -> bool {
        let until = self.ring.head() + want;
        let way = self.ring.way().clone();
        if self.due.is_some()
            || !NotificationSuppression::new(way.word(half::SUPPRESSION)).begin_polling(until)
        {
            return false;
        }
        let here = m3ipc_sys::current_cpu();
        self.ring.tell_cpu(here);
        let mut patience = self.pace.begin();
        let found = loop {
            let more = self.ring.claimed_tail() != self.ring.head()
                || way.word(half::GIVEN).load(Ordering::Relaxed) != self.announced;
            if more {
                break true;
            }
            let same_cpu = way.cpu(half::SENDER_CPU).load(Ordering::Relaxed) == here;
            if patience.next(same_cpu) == SpinStep::Sleep {
                break false;
            }
        };
        NotificationSuppression::new(way.word(half::SUPPRESSION)).end_polling(until);
        self.pace.learn(&patience);
        found
    }

    /// Looks into the socket, where blocks had nothing.
    fn look(&mut self, connection: &Connection) -> Result<Found, Errno> {
        if self.due.is_some() {
            return Ok(self
                .told(receive_bytes(&connection.socket, &mut [0], LOOK), 1)
                .unwrap_or(Found::More));
        }
        if NotificationSuppression::new(self.ring.way().word(half::SUPPRESSION)).rearm() {
            self.stale += 1;
        }
        if self.ring.available()? > 0 {
            return Ok(Found::More);
        }
        // A bell that is not stale may be of a door that is rung this moment: it stays until that is answered.
        let peek = self.stale == 0;
        let mut head = [0; RECORD_BYTES];
        let got = receive_bytes(&connection.socket, &mut head, ReceiveFlags { wait: false, peek });
        if let Some(found) = self.told(got, RECORD_BYTES) {
            // Who ended may have published before.
            let more = found == Found::End && self.ring.available()? > 0;
            return Ok(if more { Found::More } else { found });
        }
        let record = match got {
            Ok(RECORD_BYTES) => Record::decode(head).ok_or(Errno::PROTO)?,
            _ => return Err(Errno::PROTO),
        };
        match record {
            Record::Bell if !peek => self.stale -= 1,
            Record::Bell
                if NotificationSuppression::new(self.ring.way().word(half::SUPPRESSION))
                    .rearm() =>
            {
                self.stale += 1
            }
            // Nobody's bell: a sender asked the kernel whether we live.
            Record::Bell => drop(receive_bytes(&connection.socket, &mut head, TAKE)),
            Record::Bytes { count, behind } => {
                if peek {
                    let _ = receive_bytes(&connection.socket, &mut head, TAKE);
                }
                self.announce(connection, count, behind)?;
            }
        }
        Ok(Found::More)
    }

    /// What an answer of the kernel means that is no record of `whole` bytes.
    fn told(&mut self, got: Result<usize, Errno>, whole: usize) -> Option<Found> {
        match got {
            Ok(0) => Some(Found::End),
            Ok(bytes) if bytes == whole => None,
            Ok(_) => None,
            Err(Errno::AGAIN | Errno::INTR) => Some(Found::Nothing),
            Err(errno) => {
                self.pending = Some(errno);
                Some(Found::More)
            }
        }
    }

    /// Bytes follow in the socket, behind some of blocks.
    fn announce(&mut self, connection: &Connection, count: u32, behind: u32) -> Result<(), Errno> {
        let head = self.ring.head();
        // The low half of a position that is at most a few blocks away.
        let ahead = u64::from(behind.wrapping_sub(low_half(head)));
        if ahead > self.ring.available()? {
            return Err(Errno::PROTO);
        }
        self.due = Some(Due { count, behind: head + ahead });
        self.announced += u64::from(count);
        // They came this way perhaps because we do not read the other side's pool yet.
        connection.join_pool();
        Ok(())
    }

    /// After bytes were taken: where none are left, no bell may be left either.
    #[inline]
    fn settle(&mut self, connection: &Connection) {
        if let Err(errno) = self.try_settle(connection) {
            self.pending = Some(errno);
        }
    }

    fn try_settle(&mut self, connection: &Connection) -> Result<(), Errno> {
        if self.due.is_some() {
            return Ok(());
        }
        let door = || NotificationSuppression::new(self.ring.way().word(half::SUPPRESSION));
        if self.ring.claimed_tail() != self.ring.head() {
            // Whoever waits for edges is owed one at the next arrival, also where he has left something.
            if connection.is_nonblocking() && door().rearm() {
                self.stale += 1;
            }
            return Ok(());
        }
        if door().rearm() {
            self.stale += 1;
            if self.ring.claimed_tail() != self.ring.head() {
                return Ok(());
            }
        }
        while self.stale > 0 {
            let mut head = [0; RECORD_BYTES];
            let got = receive_bytes(&connection.socket, &mut head, TAKE);
            if self.told(got, RECORD_BYTES).is_some() {
                break;
            }
            match Record::decode(head).filter(|_| got == Ok(RECORD_BYTES)).ok_or(Errno::PROTO)? {
                Record::Bell => self.stale -= 1,
                Record::Bytes { count, behind } => {
                    self.announce(connection, count, behind)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sleeps in the kernel: it knows of limits, signals, ends and errors.
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

    /// The connection ends here: bells without bytes must not look like bytes that were never read.
    pub(super) fn end(&mut self, connection: &Connection) {
        for _ in 0..LAST_LOOKS {
            if self.try_settle(connection).is_err() || self.stale == 0 || self.due.is_some() {
                return;
            }
            // Its door has been turned and it is not in the socket yet.
            std::thread::yield_now();
        }
    }
}
