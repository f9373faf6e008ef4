//! The sender's side of one direction: bytes in blocks of the own pool.
//!
//! The bytes of a stream are numbered, and each block holds one run of them. A ring with one entry
//! for each credit names the blocks of the bytes from head to tail.

use crate::copy_route::{CopyRoute, Route};
use crate::pair::{DirectionWords, Pair, Place};
use core::sync::atomic::Ordering;
use m3ipc_link::armed;
use m3ipc_link::notification::{SuppressionState, publish_tail};
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, half};
use std::sync::Arc;

const BLOCK: u64 = SOCK_BLOCK_BYTES as u64;
/// The time that a receiver has to come by itself, or to take more bytes, before the sender sends a
/// wakeup record, in ticks. A record costs as much: one system call on each side.
const GRACE_TICKS: u64 = 2_400;
/// The longest such time for a receiver that goes on taking bytes.
const GRACE_MAX_TICKS: u64 = 20_000;
/// Sends without that grace after a receiver did not come: the first number, and the highest.
const IMMEDIATE_SENDS: (u32, u32) = (2, 16);

/// The sender's side of one direction. All numbers are private; shared words are checked copies.
#[derive(Debug)]
pub(crate) struct SendRing {
    words: DirectionWords,
    /// Bytes published.
    tail: u64,
    /// Bytes that the receiver had taken at the last check.
    head: u64,
    /// The blocks from `first` up to, but not including, `next` are held.
    first: u64,
    next: u64,
    blocks: [u32; SOCK_CREDITS],
    route: CopyRoute,
    suppressed: u64,
    /// Sends that wake the receiver without grace, and their number after the next miss.
    immediate: u32,
    next_immediate: u32,
    cpu: u32,
    /// The place of the peer's poller that awaited this connection last: its number, the place, and
    /// the memory of its bitmap.
    place: Option<(u64, Place, Arc<Pair>)>,
}

/// Finds a pair with the same peer.
pub(crate) type FindSibling<'a> = &'a dyn Fn(u64) -> Option<Arc<Pair>>;

/// The index of a block of the stream in the ring and in `blocks`.
#[inline]
pub(crate) fn ring_index(block: u64) -> usize {
    remainder(block, SOCK_CREDITS)
}

/// The number of this thread's CPU for the shared words: 0 there means that it is unknown.
#[inline]
pub(crate) fn current_cpu() -> u32 {
    m3ipc_sys::current_cpu().wrapping_add(1)
}

/// The remainder of a division. It is below `limit`, so the cast loses nothing.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn remainder(number: u64, limit: usize) -> usize {
    (number % limit as u64) as usize
}

impl SendRing {
    pub(crate) fn new(words: DirectionWords) -> Self {
        words.pair.pool.reserve();
        let blocks = [0; SOCK_CREDITS];
        Self {
            words,
            tail: 0,
            head: 0,
            first: 0,
            next: 0,
            blocks,
            route: CopyRoute::default(),
            suppressed: 0,
            immediate: 0,
            next_immediate: IMMEDIATE_SENDS.0,
            cpu: 0,
            place: None,
        }
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn suppressed(&self) -> u64 {
        self.suppressed
    }

    fn held(&self) -> usize {
        block_count(self.next - self.first)
    }

    /// Makes room for one byte where that is possible; an error where the receiver's head is
    /// impossible.
    pub(crate) fn has_room(&mut self) -> Result<bool, Errno> {
        if self.tail < self.next * BLOCK {
            return Ok(true);
        }
        self.reclaim()?;
        if self.held() >= SOCK_CREDITS {
            return Ok(false);
        }
        let pool = &self.words.pair.pool;
        let block = pool.allocate(self.held()).or_else(|| {
            self.words.pair.reclaim_read(None);
            pool.allocate(self.held())
        });
        let Some(block) = block else { return Ok(false) };
        self.blocks[ring_index(self.next)] = block;
        // The publication of the tail also publishes this word.
        self.words.block(ring_index(self.next)).store(block, Ordering::Relaxed);
        self.next += 1;
        Ok(true)
    }

    /// Frees the blocks that the receiver has read past.
    fn reclaim(&mut self) -> Result<(), Errno> {
        // Acquire: pairs with the release in `ReceiveRing::pull`, after the receiver's last read.
        let head = self.words.word(half::HEAD).load(Ordering::Acquire);
        if head < self.head || head > self.tail {
            return Err(Errno::PROTO);
        }
        self.head = head;
        while self.first < head / BLOCK {
            let block = self.blocks[ring_index(self.first)];
            self.first += 1;
            self.words.pair.pool.free_block(block, Some(self.held()));
        }
        Ok(())
    }

    /// Where the next bytes go in the own pool.
    #[inline]
    pub(crate) fn next_offset(&self) -> usize {
        let block = self.blocks[ring_index(self.tail / BLOCK)] as usize;
        block * SOCK_BLOCK_BYTES + remainder(self.tail, SOCK_BLOCK_BYTES)
    }

    /// Whether the receiver has taken everything.
    pub(crate) fn is_empty(&mut self) -> Result<bool, Errno> {
        self.reclaim()?;
        Ok(self.head == self.tail)
    }

    /// Puts bytes into blocks. Returns their number, and whether a wakeup record must be sent.
    #[inline]
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        sibling: FindSibling<'_>,
    ) -> Result<(usize, bool), Errno> {
        // The line comes while the bytes are copied.
        m3ipc_sys::prefetch(self.words.word(half::TAIL));
        let (mut done, mut wake, mut needed) = (0, false, false);
        // In the line that the publication takes anyway: the count shows one send later. The CPU
        // tells the receiver whether to spin or to yield.
        self.publish_cpu(current_cpu());
        self.words.word(half::WAKEUPS_SUPPRESSED).store(self.suppressed, Ordering::Relaxed);
        while done < bytes.len() && self.has_room()? {
            let offset = remainder(self.tail, SOCK_BLOCK_BYTES);
            let count = (SOCK_BLOCK_BYTES - offset).min(bytes.len() - done);
            self.put(offset, &bytes[done..done + count], bytes.len());
            done += count;
            needed = match self.words.suppression().state() {
                SuppressionState::Sent => false,
                SuppressionState::Armed(place) => {
                    wake |= self.announce(place, sibling)
                        && self.words.suppression().request(self.tail);
                    false
                }
                SuppressionState::Needed if self.words.polling().covers(self.tail) => false,
                SuppressionState::Needed if self.immediate > 0 => {
                    wake |= self.words.suppression().request(self.tail);
                    false
                }
                SuppressionState::Needed => true,
            };
        }
        if needed && !self.receiver_comes() {
            wake |= self.words.suppression().request(self.tail);
        }
        self.immediate = self.immediate.saturating_sub(1);
        self.suppressed += u64::from(!wake && done > 0);
        Ok((done, wake))
    }

    /// Writes a piece of a message into the present block, and publishes it. The receiver copies it
    /// while the sender fills the next block.
    #[inline]
    fn put(&mut self, offset: usize, piece: &[u8], message_bytes: usize) {
        let block = self.blocks[ring_index(self.tail / BLOCK)];
        let (words, cpu) = (&self.words, self.cpu);
        let shares_cpu = || words.cpu(half::RECEIVER_CPU).load(Ordering::Relaxed) == cpu;
        let route = self.route.choose(message_bytes, piece.len(), shares_cpu);
        let began = if route == Route::Timed { m3ipc_sys::ticks() } else { 0 };
        let pool = &self.words.pair.pool;
        match route {
            Route::Through | Route::Timed => pool.write(block, offset, piece),
            Route::Past => pool.write_past_caches(block, offset, piece),
        }
        self.tail += piece.len() as u64;
        publish_tail(self.words.word(half::TAIL), self.tail);
        if route == Route::Timed {
            // The publication waits until all lines of the piece belong to this CPU.
            self.route.learn(piece.len(), m3ipc_sys::ticks().wrapping_sub(began));
        }
    }

    /// Tells the poller that awaits the connection of bytes; `true` where it may need a record.
    #[inline]
    fn announce(&mut self, number: u64, sibling: FindSibling<'_>) -> bool {
        if self.place.as_ref().is_none_or(|known| known.0 != number) {
            self.place = Self::find_place(&self.words.pair, number, sibling);
        }
        let Some((_, place, pair)) = &self.place else { return true };
        armed::announce(&pair.bitmap(true, place.bitmap), place.row, self.words.slot)
    }

    /// The place with this number. A peer that names another one gets records.
    #[cold]
    fn find_place(
        own: &Arc<Pair>,
        number: u64,
        sibling: FindSibling<'_>,
    ) -> Option<(u64, Place, Arc<Pair>)> {
        let place = Place::decode(number)?;
        let pair = if place.pair == own.id { Arc::clone(own) } else { sibling(place.pair)? };
        Some((number, place, pair))
    }

    /// Tells an armed poller of bytes in the socket, which has reported them already.
    pub(crate) fn announce_overflow(&mut self, sibling: FindSibling<'_>) {
        if let Some(place) = self.words.suppression().armed() {
            let _ = self.announce(place, sibling);
        }
    }

    /// Whether the published bytes need a wakeup record, or a bit of a poller.
    #[inline]
    fn needs_record(&self) -> bool {
        self.words.suppression().state() != SuppressionState::Sent
            && !self.words.polling().covers(self.tail)
    }

    /// Whether a receiver that does not poll now comes by itself within the time of a wakeup
    /// record.
    ///
    /// A receiver that keeps up with the sender is usually between two calls when it does not poll.
    /// Each advance of its head restarts the time, up to [`GRACE_MAX_TICKS`].
    fn receiver_comes(&mut self) -> bool {
        let began = m3ipc_sys::ticks();
        let (mut seen, mut moved) = (self.head, began);
        loop {
            let needed = self.needs_record();
            // The peer's head decides only whether a wakeup record is sent, so it needs no check.
            let head = self.words.word(half::HEAD).load(Ordering::Acquire);
            if !needed || head >= self.tail {
                self.next_immediate = IMMEDIATE_SENDS.0;
                return true;
            }
            let now = m3ipc_sys::ticks();
            if head != seen && now.wrapping_sub(began) < GRACE_MAX_TICKS {
                (seen, moved) = (head, now);
            }
            if now.wrapping_sub(moved) > GRACE_TICKS {
                self.immediate = self.next_immediate;
                self.next_immediate = (2 * self.next_immediate + 1).min(IMMEDIATE_SENDS.1);
                return false;
            }
            m3ipc_sys::relax();
        }
    }

    /// Publishes the CPU of the sender where it has changed.
    #[inline]
    pub(crate) fn publish_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.words.cpu(half::SENDER_CPU).store(cpu, Ordering::Relaxed);
        }
    }

    pub(crate) fn words(&self) -> &DirectionWords {
        &self.words
    }

    /// Closes the direction. The peer may still read the blocks that it has not read.
    pub(crate) fn end(&mut self, slot: usize) {
        let _ = self.reclaim();
        // After a complete read even the half-full block is free.
        let from = if self.head == self.tail { self.next } else { self.first };
        let blocks = |range: core::ops::Range<u64>| {
            range.map(|at| self.blocks[ring_index(at)]).collect::<Vec<_>>()
        };
        for block in blocks(self.first..from) {
            self.words.pair.pool.free_block(block, None);
        }
        self.words.pair.keep_until_read(slot, self.tail, blocks(from..self.next));
    }
}

/// A number of blocks, at most the credits.
fn block_count(blocks: u64) -> usize {
    usize::try_from(blocks).unwrap_or(SOCK_CREDITS)
}
