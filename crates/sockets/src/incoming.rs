//! What is received from blocks: one way of a connection, as its receiver has it.

use crate::outgoing::{below, place};
use crate::pair::Way;
use core::sync::atomic::Ordering;
use m3ipc_link::notification::NotificationSuppression;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{SOCK_BLOCK_BYTES, SOCK_CREDITS, SOCK_POOL_BLOCKS, half};

const BLOCK: u64 = SOCK_BLOCK_BYTES as u64;
/// Fewer are taken before a sender has looked at the door: two updates of a word that both use would cost more.
const WATCHED_BYTES: u64 = 256;
/// Bytes that can be between head and tail at most.
const SPAN_MAX: u64 = (SOCK_CREDITS * SOCK_BLOCK_BYTES) as u64;

/// The receiver's side of a way.
#[derive(Debug)]
pub(crate) struct Incoming {
    way: Way,
    /// Bytes taken.
    head: u64,
    /// Bytes that the sender said it has published, when it was last asked, checked.
    tail: u64,
    cpu: u32,
}

impl Incoming {
    pub(crate) fn new(way: Way) -> Self {
        Self { way, head: 0, tail: 0, cpu: u32::MAX }
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// The tail as it is now, as the sender wrote it.
    #[inline]
    pub(crate) fn claimed_tail(&self) -> u64 {
        self.way.word(half::TAIL).load(Ordering::SeqCst)
    }

    /// How many bytes lie in blocks.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<u64, Errno> {
        // SeqCst: pairs with `notification::publish_tail`; and acquire of what was written before it.
        let tail = self.claimed_tail();
        if tail < self.tail || tail - self.head > SPAN_MAX {
            return Err(Errno::PROTO);
        }
        self.tail = tail;
        Ok(tail - self.head)
    }

    /// Takes what blocks hold, and what comes there meanwhile, until they are empty or `bytes` is full: the sender is told that it
    /// will be, and need not call. At most what one way can hold, so that a sender without end does not keep the caller.
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
            let watches = there >= WATCHED_BYTES
                && NotificationSuppression::new(self.way.word(half::SUPPRESSION))
                    .begin_polling(until);
            loop {
                let count = self.pull(&mut bytes[done..most], u64::MAX, false)?;
                done += count;
                if count == 0 {
                    break;
                }
            }
            if watches {
                // After it the tail is read once more.
                NotificationSuppression::new(self.way.word(half::SUPPRESSION)).end_polling(until);
            }
        }
        Ok(done)
    }

    /// Copies up to `limit` bytes out of blocks, and takes them unless it is only a peek.
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
        let Some(pool) = self.way.pair.incoming() else { return Err(Errno::PROTO) };
        let (mut done, mut at) = (0, self.head);
        while done < want {
            let offset = below(at, SOCK_BLOCK_BYTES);
            let block = self.way.block(place(at / BLOCK)).load(Ordering::Relaxed) as usize;
            if block >= SOCK_POOL_BLOCKS {
                return Err(Errno::PROTO);
            }
            let count = (SOCK_BLOCK_BYTES - offset).min(want - done);
            pool.read(block * SOCK_BLOCK_BYTES + offset, &mut bytes[done..done + count]);
            done += count;
            at += count as u64;
            if !peek {
                self.head = at;
                // Release: pairs with the sender's look at it, before it uses the block again.
                self.way.word(half::HEAD).store(at, Ordering::Release);
            }
        }
        Ok(done)
    }

    /// Tells, where that has changed, on which CPU the receiver runs.
    #[inline]
    pub(crate) fn tell_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.way.cpu(half::RECEIVER_CPU).store(cpu, Ordering::Relaxed);
        }
    }
}
