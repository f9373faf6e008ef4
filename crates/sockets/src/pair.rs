//! A pair, as one of its two parties has it mapped.
//!
//! ```text
//!   control (both write)      pool out (we write, they read)    pool in (they write, we read)
//!   ┌──────────────┐          ┌──────┬──────┬── ─┐               ┌──────┬──────┬── ─┐
//!   │ said, joined │          │ 8 KB │ 8 KB │    │               │ 8 KB │ 8 KB │    │
//!   │ slot 0: ways │          └──────┴──────┴── ─┘               └──────┴──────┴── ─┘
//!   │ slot 1 ...   │
//!   └──────────────┘
//! ```
//!
//! A slot has two ways, the one of side 0 first. What the peer writes there is read once, compared with what this
//! side knows privately, and then used.

use crate::pool::Pool;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_shm::{Observed, Shared};
use m3ipc_sys::{Errno, ForkGuard};
use m3ipc_wire::sock::{
    SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES, SOCK_POOL_BYTES, SOCK_SEPARATED, SOCK_SLOT_BYTES,
    SOCK_SLOTS, half,
};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where a side says that its pool can be had, in the head; a line for each side.
const OFFERED: usize = 0;
/// Where a side says that it has mapped the other's pool.
const JOINED: usize = 8;
const LINE: usize = 64;

/// Blocks of a connection that has ended here and may still be read there.
#[derive(Debug)]
struct Lingering {
    slot: usize,
    tail: u64,
    blocks: Vec<u32>,
}

/// What two parties share.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) id: u64,
    pub(crate) side: usize,
    control: Shared,
    pub(crate) pool: Pool,
    incoming: OnceLock<Observed>,
    lingering: Mutex<Vec<Lingering>>,
    guard: ForkGuard,
}

impl Pair {
    /// Maps what came with a first connection.
    pub(crate) fn map(
        id: u64,
        side: usize,
        control: &OwnedFd,
        pool: &OwnedFd,
    ) -> Result<Self, Errno> {
        Ok(Self {
            id,
            side,
            control: Shared::map_sparse(control, SOCK_CONTROL_BYTES)?,
            pool: Pool::new(Shared::map_sparse(pool, SOCK_POOL_BYTES)?),
            incoming: OnceLock::new(),
            lingering: Mutex::default(),
            guard: ForkGuard::new()?,
        })
    }

    /// Whether this is the process that mapped it, not a child by fork: that has none of it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.guard.is_original()
    }

    /// Whether the daemon says that the two are not in one VM any more.
    pub(crate) fn is_over(&self) -> bool {
        self.control.word64(SOCK_SEPARATED).load(Ordering::Acquire) != 0
    }

    /// Says that a connection that was prepared is open: for whoever lists connections.
    pub(crate) fn open(&self, slot: usize) {
        if slot < SOCK_SLOTS {
            let word = SOCK_HEAD_BYTES + slot * SOCK_SLOT_BYTES + half::OPENED;
            self.control.word64(word).store(1, Ordering::Release);
        }
    }

    /// Says that our pool can be had.
    pub(crate) fn offer(&self) {
        self.control.word64(OFFERED + LINE * self.side).store(1, Ordering::Release);
    }

    /// Whether the other side's pool can be had and we have not got it.
    pub(crate) fn misses_pool(&self) -> bool {
        self.incoming.get().is_none()
            && self.control.word64(OFFERED + LINE * (1 - self.side)).load(Ordering::Acquire) == 1
    }

    /// Maps the pool that the other side writes, and says so.
    pub(crate) fn join(&self, pool: &OwnedFd) -> Result<(), Errno> {
        let mapped = Observed::map_sparse(pool, SOCK_POOL_BYTES)?;
        let _ = self.incoming.set(mapped);
        self.control.word64(JOINED + LINE * self.side).store(1, Ordering::Release);
        Ok(())
    }

    /// Whether the other side reads our pool.
    #[inline]
    pub(crate) fn is_joined(&self) -> bool {
        // Acquire: pairs with `join`. A lie of the peer's keeps bytes from itself.
        self.control.word64(JOINED + LINE * (1 - self.side)).load(Ordering::Acquire) == 1
    }

    /// The pool that the other side writes.
    #[inline]
    pub(crate) fn incoming(&self) -> Option<&Observed> {
        self.incoming.get()
    }

    /// The way of a slot that a side sends on.
    pub(crate) fn way(self: &std::sync::Arc<Self>, slot: usize, side: usize) -> Option<Way> {
        let base = SOCK_HEAD_BYTES + slot * SOCK_SLOT_BYTES + side * half::BYTES;
        (slot < SOCK_SLOTS && side < 2).then(|| Way { pair: std::sync::Arc::clone(self), base })
    }

    /// Keeps blocks until the other side has read them, or the slot is another connection's.
    pub(crate) fn linger(&self, slot: usize, tail: u64, blocks: Vec<u32>) {
        self.pool.close(blocks.len());
        if !blocks.is_empty() {
            self.lingering().push(Lingering { slot, tail, blocks });
        }
    }

    /// Takes back what ended connections held: all of this slot, which the daemon has given anew, and what has been
    /// read of others.
    pub(crate) fn settle(&self, fresh: Option<usize>) {
        self.lingering().retain(|old| {
            let head =
                SOCK_HEAD_BYTES + old.slot * SOCK_SLOT_BYTES + self.side * half::BYTES + half::HEAD;
            let done = fresh == Some(old.slot)
                || self.control.word64(head).load(Ordering::Acquire) == old.tail;
            if done {
                old.blocks.iter().for_each(|block| self.pool.give(*block, None));
            }
            !done
        });
    }

    fn lingering(&self) -> std::sync::MutexGuard<'_, Vec<Lingering>> {
        self.lingering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One way of one connection: the words that both sides share.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) pair: std::sync::Arc<Pair>,
    base: usize,
}

impl Way {
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.pair.control.word64(self.base + at)
    }

    #[inline]
    pub(crate) fn cpu(&self, at: usize) -> &AtomicU32 {
        self.pair.control.word32(self.base + at)
    }

    /// Where the number of the block of this place in the ring stands.
    #[inline]
    pub(crate) fn block(&self, place: usize) -> &AtomicU32 {
        self.pair.control.word32(self.base + half::BLOCKS + 4 * place)
    }
}
