//! What is sent through blocks: one way of a connection, as its sender has it.
//!
//! The bytes of a stream are numbered; those of one number divided by the size of a block share a block. The sender names
//! the blocks of the bytes from head to tail in a ring of as many places as a connection has credits.

use crate::pair::Way;
use core::sync::atomic::Ordering;
use m3ipc_link::notification::{NotificationSuppression, publish_tail};
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, half};

const BLOCK: u64 = SOCK_BLOCK_BYTES as u64;
/// How long a receiver is given to come by itself, or to take something more, before a bell is rung for it, in ticks: what a bell
/// costs, which is a call of the system's on both sides.
const GRACE_TICKS: u64 = 2_400;
/// How long one that goes on taking is given at most.
const GRACE_MOST_TICKS: u64 = 20_000;
/// Sends after which one that did not come is given that again: the first time, and at most.
const SKIPS: (u32, u32) = (2, 16);

/// The sender's side of a way. All numbers are its own; the shared ones are told, never believed.
#[derive(Debug)]
pub(crate) struct Outgoing {
    way: Way,
    /// Bytes published.
    tail: u64,
    /// Bytes that the receiver said it has taken, when it was last asked.
    head: u64,
    /// Blocks held: of the bytes of `first` up to, but not including, `next`.
    first: u64,
    next: u64,
    blocks: [u32; SOCK_CREDITS],
    spared: u64,
    /// Sends for which the bell is rung at once, and how many those are the next time that a receiver does not come.
    at_once: u32,
    skips: u32,
    cpu: u32,
}

/// The place in the ring of blocks, and in the array of them, of a block of the stream.
#[inline]
pub(crate) fn place(block: u64) -> usize {
    below(block, SOCK_CREDITS)
}

/// The rest of a division by a number of ours: nothing is lost.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn below(number: u64, limit: usize) -> usize {
    (number % limit as u64) as usize
}

impl Outgoing {
    pub(crate) fn new(way: Way) -> Self {
        way.pair.pool.open();
        let blocks = [0; SOCK_CREDITS];
        Self {
            way,
            tail: 0,
            head: 0,
            first: 0,
            next: 0,
            blocks,
            spared: 0,
            at_once: 0,
            skips: SKIPS.0,
            cpu: u32::MAX,
        }
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn spared(&self) -> u64 {
        self.spared
    }

    fn held(&self) -> usize {
        place_count(self.next - self.first)
    }

    /// Whether there is, or may be, room for a byte; an error where the receiver's numbers cannot be.
    pub(crate) fn has_room(&mut self) -> Result<bool, Errno> {
        if self.tail < self.next * BLOCK {
            return Ok(true);
        }
        self.reclaim()?;
        if self.held() >= SOCK_CREDITS {
            return Ok(false);
        }
        let pool = &self.way.pair.pool;
        let block = pool.take(self.held()).or_else(|| {
            self.way.pair.settle(None);
            pool.take(self.held())
        });
        let Some(block) = block else { return Ok(false) };
        self.blocks[place(self.next)] = block;
        // Published with the tail.
        self.way.block(place(self.next)).store(block, Ordering::Relaxed);
        self.next += 1;
        Ok(true)
    }

    /// Takes back the blocks that the receiver has read past.
    fn reclaim(&mut self) -> Result<(), Errno> {
        // Acquire: pairs with the receiver's release of its head, after it has read.
        let head = self.way.word(half::HEAD).load(Ordering::Acquire);
        if head < self.head || head > self.tail {
            return Err(Errno::PROTO);
        }
        self.head = head;
        while self.first < head / BLOCK {
            let block = self.blocks[place(self.first)];
            self.first += 1;
            self.way.pair.pool.give(block, Some(self.held()));
        }
        Ok(())
    }

    /// Whether the receiver has taken everything.
    pub(crate) fn is_empty(&mut self) -> Result<bool, Errno> {
        self.reclaim()?;
        Ok(self.head == self.tail)
    }

    /// Puts as much as there is room for into blocks: how much, and whether the bell must be rung.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(usize, bool), Errno> {
        let (mut done, mut ring, mut unheard) = (0, false, false);
        while done < bytes.len() && self.has_room()? {
            let offset = below(self.tail, SOCK_BLOCK_BYTES);
            let count = (SOCK_BLOCK_BYTES - offset).min(bytes.len() - done);
            let block = self.blocks[place(self.tail / BLOCK)];
            self.way.pair.pool.write(block, offset, &bytes[done..done + count]);
            self.tail += count as u64;
            done += count;
            // Each block at once: the receiver copies one while we fill the next.
            publish_tail(self.way.word(half::TAIL), self.tail);
            unheard =
                NotificationSuppression::new(self.way.word(half::SUPPRESSION)).is_needed(self.tail);
            if unheard && self.at_once > 0 {
                ring |= NotificationSuppression::new(self.way.word(half::SUPPRESSION))
                    .request(self.tail);
                unheard = false;
            }
        }
        if unheard && !self.comes() {
            ring |=
                NotificationSuppression::new(self.way.word(half::SUPPRESSION)).request(self.tail);
        }
        self.at_once = self.at_once.saturating_sub(1);
        if !ring && done > 0 {
            self.spared += 1;
            self.way.word(half::WAKEUPS_SUPPRESSED).store(self.spared, Ordering::Relaxed);
        }
        Ok((done, ring))
    }

    /// Whether the receiver, who does not look just now, comes by itself within the time that a bell would cost: one that takes
    /// bytes as fast as they are sent is between two calls most of the time that it is not in one. The time begins anew, up to a
    /// limit, when it has taken something.
    fn comes(&mut self) -> bool {
        let began = m3ipc_sys::ticks();
        let (mut seen, mut moved) = (self.head, began);
        loop {
            let unheard =
                NotificationSuppression::new(self.way.word(half::SUPPRESSION)).is_needed(self.tail);
            // What it says it has taken decides whether it is called, and nothing else.
            let head = self.way.word(half::HEAD).load(Ordering::Acquire);
            if !unheard || head >= self.tail {
                self.skips = SKIPS.0;
                return true;
            }
            let now = m3ipc_sys::ticks();
            if head != seen && now.wrapping_sub(began) < GRACE_MOST_TICKS {
                (seen, moved) = (head, now);
            }
            if now.wrapping_sub(moved) > GRACE_TICKS {
                self.at_once = self.skips;
                self.skips = (2 * self.skips + 1).min(SKIPS.1);
                return false;
            }
            m3ipc_sys::relax();
        }
    }

    /// Tells, where that has changed, on which CPU the sender runs.
    #[inline]
    pub(crate) fn tell_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.way.cpu(half::SENDER_CPU).store(cpu, Ordering::Relaxed);
        }
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// The connection ends here: what the other side has not read stays for it.
    pub(crate) fn end(&mut self, slot: usize) {
        let _ = self.reclaim();
        // All was read: no block is needed any more, not even the one that is half full.
        let from = if self.head == self.tail { self.next } else { self.first };
        let blocks = |range: core::ops::Range<u64>| {
            range.map(|at| self.blocks[place(at)]).collect::<Vec<_>>()
        };
        for block in blocks(self.first..from) {
            self.way.pair.pool.give(block, None);
        }
        self.way.pair.linger(slot, self.tail, blocks(from..self.next));
    }
}

/// A number of blocks, never more than the credits.
fn place_count(blocks: u64) -> usize {
    usize::try_from(blocks).unwrap_or(SOCK_CREDITS)
}
