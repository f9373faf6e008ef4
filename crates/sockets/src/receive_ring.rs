//! The receiver's side of one direction: bytes in blocks of the peer's pool.

use crate::pair::DirectionWords;
use crate::send_ring::{remainder, ring_index};
use core::sync::atomic::Ordering;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, SOCK_POOL_BLOCKS, half};

const BLOCK: u64 = SOCK_BLOCK_BYTES as u64;
/// Below this number of bytes the receiver does not announce that it polls: the two updates of the
/// shared suppression word would cost more than they save.
const POLL_MIN_BYTES: u64 = 256;
/// The most bytes between head and tail.
pub(crate) const RING_MAX_BYTES: u64 = (SOCK_CREDITS * SOCK_BLOCK_BYTES) as u64;

/// The receiver's side of one direction.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    words: DirectionWords,
    /// Bytes taken.
    head: u64,
    /// The sender's tail as of the last check, after the check.
    tail: u64,
    /// The index of the present block in the stream, and its number in the pool, checked.
    block: (u64, usize),
    cpu: u32,
}

impl ReceiveRing {
    pub(crate) fn new(words: DirectionWords) -> Self {
        Self { words, head: 0, tail: 0, block: (u64::MAX, 0), cpu: 0 }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Where the next bytes lie in the peer's pool, if its block does not change.
    #[inline]
    pub(crate) fn next_offset(&self) -> usize {
        self.block.1 * SOCK_BLOCK_BYTES + remainder(self.head, SOCK_BLOCK_BYTES)
    }

    /// The sender's tail as of the last check.
    pub(crate) fn checked_tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn words(&self) -> &DirectionWords {
        &self.words
    }

    /// The tail as the sender wrote it, unchecked.
    #[inline]
    pub(crate) fn claimed_tail(&self) -> u64 {
        self.words.word(half::TAIL).load(Ordering::SeqCst)
    }

    /// The number of bytes in blocks.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<u64, Errno> {
        // SeqCst: pairs with `m3ipc_link::notification::publish_tail`, and acquires the bytes
        // written before the tail.
        let tail = self.claimed_tail();
        if tail < self.tail || tail - self.head > RING_MAX_BYTES {
            return Err(Errno::PROTO);
        }
        self.tail = tail;
        Ok(tail - self.head)
    }

    /// Takes the bytes in blocks until the ring is empty or `bytes` is full.
    ///
    /// The receiver announces that it polls, so the sender needs no wakeup record meanwhile. One
    /// call takes at most one ring of bytes, so an endless sender cannot hold the caller.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let most = bytes.len().min(SOCK_CREDITS * SOCK_BLOCK_BYTES);
        let until = self.head + most as u64;
        let mut done = 0;
        while done < most {
            let there = self.available()?;
            if there == 0 {
                break;
            }
            let announced = there >= POLL_MIN_BYTES;
            if announced {
                self.words.polling().begin(until);
            }
            loop {
                let count = self.pull(&mut bytes[done..most], u64::MAX, false)?;
                done += count;
                if count == 0 {
                    break;
                }
            }
            if announced && self.head != until {
                // The loop reads the tail once more after this call, as `end` demands.
                self.words.polling().end();
            }
        }
        Ok(done)
    }

    /// Takes bytes that are there, or that come within `polls` polls; 0 where none came.
    ///
    /// The caller knows that no record lies in the socket.
    #[inline]
    pub(crate) fn take_soon(&mut self, bytes: &mut [u8], polls: u32) -> Result<usize, Errno> {
        match self.available()? {
            0 => {}
            1..POLL_MIN_BYTES => return self.pull(bytes, u64::MAX, false),
            _ => return self.take(bytes),
        }
        let until = self.head + bytes.len().min(SOCK_CREDITS * SOCK_BLOCK_BYTES) as u64;
        self.words.polling().begin(until);
        let mut left = polls;
        while left > 0 && self.claimed_tail() == self.head {
            left -= 1;
            m3ipc_sys::relax();
        }
        if self.available()? >= POLL_MIN_BYTES {
            return self.take(bytes);
        }
        let mut done = self.pull(bytes, until - self.head, false)?;
        // Bytes below `until` may have come without a record, up to the end of the polling.
        if self.head != until {
            self.words.polling().end();
            done += self.pull(&mut bytes[done..], until - self.head, false)?;
        }
        Ok(done)
    }

    /// Copies up to `limit` bytes out of blocks, and takes them unless `peek` is set.
    #[inline]
    pub(crate) fn pull(
        &mut self,
        bytes: &mut [u8],
        limit: u64,
        peek: bool,
    ) -> Result<usize, Errno> {
        let there = self.available()?.min(limit);
        let want = usize::try_from(there).unwrap_or(usize::MAX).min(bytes.len());
        if want == 0 {
            return Ok(0);
        }
        let Some(pool) = self.words.pair.incoming() else { return Err(Errno::PROTO) };
        let (mut done, mut at) = (0, self.head);
        while done < want {
            let offset = remainder(at, SOCK_BLOCK_BYTES);
            if self.block.0 != at / BLOCK {
                let word = self.words.block(ring_index(at / BLOCK));
                let number = word.load(Ordering::Relaxed) as usize;
                if number >= SOCK_POOL_BLOCKS {
                    return Err(Errno::PROTO);
                }
                self.block = (at / BLOCK, number);
            }
            let block = self.block.1;
            let count = (SOCK_BLOCK_BYTES - offset).min(want - done);
            pool.read(block * SOCK_BLOCK_BYTES + offset, &mut bytes[done..done + count]);
            done += count;
            at += count as u64;
            if !peek {
                self.head = at;
                // Release: pairs with the acquire in `SendRing::reclaim`, before the block is used
                // again.
                self.words.word(half::HEAD).store(at, Ordering::Release);
            }
        }
        Ok(done)
    }

    /// Publishes the CPU of the receiver where it has changed.
    #[inline]
    pub(crate) fn publish_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.words.cpu(half::RECEIVER_CPU).store(cpu, Ordering::Relaxed);
        }
    }
}
