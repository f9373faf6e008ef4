//! The shared memory of two members, as one of them has it mapped.
//!
//! ```text
//!   control (both write)      own pool (we write, they read)    peer pool (they write, we read)
//!   ┌───────────────────┐     ┌──────┬──────┬─── ─┐             ┌──────┬──────┬─── ─┐
//!   │ offered, mapped   │     │ 8 KB │ 8 KB │     │             │ 8 KB │ 8 KB │     │
//!   │ slot 0: direction │     └──────┴──────┴─── ─┘             └──────┴──────┴─── ─┘
//!   │ slot 1 ...        │
//!   └───────────────────┘
//! ```
//!
//! A slot has the words of two directions, that of side 0 first. Each word that the peer writes is
//! read once, compared with this side's private numbers, and then used.

use crate::pool::Pool;
use crate::record::low_half;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use m3ipc_link::armed::{Bitmap, ROWS};
use m3ipc_link::notification::{NotificationSuppression, PollingWord};
use m3ipc_shm::{Observed, Shared};
use m3ipc_sys::{Errno, ForkGuard};
use m3ipc_wire::sock::{
    SOCK_BITMAP_BYTES, SOCK_BITMAPS, SOCK_BITMAPS_OF_SIDE, SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES,
    SOCK_POOL_BYTES, SOCK_SEPARATED, SOCK_SLOT_BYTES, SOCK_SLOTS, bitmap, half,
};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Offset of the word in which a side offers its pool; one cache line for each side.
const POOL_OFFERED: usize = 0;
/// Offset of the word in which a side says that it has mapped the peer's pool.
const POOL_MAPPED: usize = 8;
const LINE: usize = 64;

/// Blocks of a closed connection that the peer may still read.
#[derive(Debug)]
struct UnreadBlocks {
    slot: usize,
    tail: u64,
    blocks: Vec<u32>,
}

/// The peer of a pair: its process and user, its address and the own address.
pub(crate) type PeerName = ((i32, u32), u32, u32);

/// The memory that two members share.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) id: u64,
    pub(crate) side: usize,
    pub(crate) peer: PeerName,
    control: Shared,
    pub(crate) pool: Pool,
    incoming: OnceLock<Observed>,
    unread: Mutex<Vec<UnreadBlocks>>,
    /// The own bitmaps that pollers of this process have.
    bitmaps: Mutex<[bool; SOCK_BITMAPS_OF_SIDE]>,
    /// When the kernel said last that a connection with the peer is open. All pairs of this peer
    /// share it.
    alive_ticks: Arc<AtomicU64>,
    guard: ForkGuard,
}

impl Pair {
    /// Maps the descriptors that came with the first connection. `sibling` is a pair with the same
    /// peer.
    pub(crate) fn map(
        (id, side): (u64, usize),
        peer: PeerName,
        control: &OwnedFd,
        pool: &OwnedFd,
        sibling: Option<&Self>,
    ) -> Result<Self, Errno> {
        let alive_ticks = sibling.map(|it| Arc::clone(&it.alive_ticks)).unwrap_or_default();
        Ok(Self {
            id,
            side,
            peer,
            control: Shared::map_sparse(control, SOCK_CONTROL_BYTES)?,
            pool: Pool::new(Shared::map_sparse(pool, SOCK_POOL_BYTES)?),
            incoming: OnceLock::new(),
            unread: Mutex::default(),
            bitmaps: Mutex::default(),
            alive_ticks,
            guard: ForkGuard::new()?,
        })
    }

    /// Whether this process mapped the pair. A child by fork has none of the mappings.
    #[inline]
    pub(crate) fn is_original(&self) -> bool {
        self.guard.is_original()
    }

    /// When the kernel said last that a connection with the peer is open, in ticks.
    #[inline]
    pub(crate) fn alive_ticks(&self) -> u64 {
        self.alive_ticks.load(Ordering::Relaxed)
    }

    /// Notes that the kernel has said so now.
    pub(crate) fn note_alive(&self, ticks: u64) {
        self.alive_ticks.store(ticks, Ordering::Relaxed);
    }

    /// Whether the daemon has marked the two members as no longer in one VM.
    pub(crate) fn is_over(&self) -> bool {
        self.control.word64(SOCK_SEPARATED).load(Ordering::Acquire) != 0
    }

    /// Marks a prepared connection as open, for lists of connections.
    pub(crate) fn mark_opened(&self, slot: usize) {
        if slot < SOCK_SLOTS {
            let word = SOCK_HEAD_BYTES + slot * SOCK_SLOT_BYTES + half::OPENED;
            self.control.word64(word).store(1, Ordering::Release);
        }
    }

    /// Offers the own pool to the peer.
    pub(crate) fn offer_pool(&self) {
        self.control.word64(POOL_OFFERED + LINE * self.side).store(1, Ordering::Release);
    }

    /// Whether the peer offers its pool and this side has not mapped it.
    pub(crate) fn lacks_peer_pool(&self) -> bool {
        self.incoming.get().is_none()
            && self.control.word64(POOL_OFFERED + LINE * (1 - self.side)).load(Ordering::Acquire)
                == 1
    }

    /// Maps the pool that the peer writes, and says so.
    pub(crate) fn map_peer_pool(&self, pool: &OwnedFd) -> Result<(), Errno> {
        let mapped = Observed::map_sparse(pool, SOCK_POOL_BYTES)?;
        let _ = self.incoming.set(mapped);
        self.control.word64(POOL_MAPPED + LINE * self.side).store(1, Ordering::Release);
        Ok(())
    }

    /// Whether the peer has mapped the own pool.
    #[inline]
    pub(crate) fn is_pool_read(&self) -> bool {
        // Acquire: pairs with `map_peer_pool`. A false word keeps bytes from the lying peer alone.
        self.control.word64(POOL_MAPPED + LINE * (1 - self.side)).load(Ordering::Acquire) == 1
    }

    /// The pool that the peer writes.
    #[inline]
    pub(crate) fn incoming(&self) -> Option<&Observed> {
        self.incoming.get()
    }

    /// The words of the direction in which `side` sends, of this slot.
    pub(crate) fn direction(self: &Arc<Self>, slot: usize, side: usize) -> Option<DirectionWords> {
        let base = SOCK_HEAD_BYTES + slot * SOCK_SLOT_BYTES + side * half::BYTES;
        (slot < SOCK_SLOTS && side < 2).then(|| DirectionWords {
            pair: Arc::clone(self),
            slot,
            base,
        })
    }

    /// Asks the CPU for the lines of a slot that a receive of its bytes and an answer use.
    #[inline]
    pub(crate) fn prefetch_slot(&self, slot: usize) {
        let base = SOCK_HEAD_BYTES + slot % SOCK_SLOTS * SOCK_SLOT_BYTES;
        let (out, back) = (base + self.side * half::BYTES, base + (1 - self.side) * half::BYTES);
        for word in [back + half::TAIL, back + half::HEAD, out + half::TAIL] {
            m3ipc_sys::prefetch(self.control.word64(word));
        }
    }

    /// Asks the CPU for the lines at these offsets of the peer's pool and of the own one.
    #[inline]
    pub(crate) fn prefetch_bytes(&self, incoming: usize, own: usize) {
        if let Some(pool) = self.incoming() {
            pool.prefetch((incoming % SOCK_POOL_BYTES) & !7);
        }
        self.pool.prefetch(own);
    }

    /// Keeps blocks until the peer has read them, or until the slot serves another connection.
    pub(crate) fn keep_until_read(&self, slot: usize, tail: u64, blocks: Vec<u32>) {
        self.pool.unreserve(blocks.len());
        if !blocks.is_empty() {
            self.unread().push(UnreadBlocks { slot, tail, blocks });
        }
    }

    /// Frees blocks of closed connections: all that the peer has read, and all of the slot `fresh`,
    /// which the daemon has given to a new connection.
    pub(crate) fn reclaim_read(&self, fresh: Option<usize>) {
        self.unread().retain(|old| {
            let head =
                SOCK_HEAD_BYTES + old.slot * SOCK_SLOT_BYTES + self.side * half::BYTES + half::HEAD;
            let done = fresh == Some(old.slot)
                || self.control.word64(head).load(Ordering::Acquire) == old.tail;
            if done {
                old.blocks.iter().for_each(|block| self.pool.free_block(*block, None));
            }
            !done
        });
    }

    /// Takes a bitmap for a poller of this process.
    pub(crate) fn take_bitmap(&self) -> Option<usize> {
        let mut bitmaps = self.bitmaps.lock().unwrap_or_else(PoisonError::into_inner);
        let free = bitmaps.iter().position(|taken| !taken)?;
        bitmaps[free] = true;
        Some(free)
    }

    /// Gives a bitmap back.
    pub(crate) fn give_bitmap_back(&self, bitmap: usize) {
        self.bitmaps.lock().unwrap_or_else(PoisonError::into_inner)[bitmap] = false;
    }

    /// The words of a bitmap of this side, or of the peer's. The number of the bitmap is valid.
    #[inline]
    pub(crate) fn bitmap(&self, of_peer: bool, bitmap: usize) -> BitmapWords<'_> {
        let side = if of_peer { 1 - self.side } else { self.side };
        let base = SOCK_BITMAPS + (side * SOCK_BITMAPS_OF_SIDE + bitmap) * SOCK_BITMAP_BYTES;
        BitmapWords { control: &self.control, base }
    }

    fn unread(&self) -> std::sync::MutexGuard<'_, Vec<UnreadBlocks>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shared words of one direction of one connection.
#[derive(Clone, Debug)]
pub(crate) struct DirectionWords {
    pub(crate) pair: Arc<Pair>,
    /// The slot of the connection.
    pub(crate) slot: usize,
    base: usize,
}

impl DirectionWords {
    /// The suppression of wakeup records in this direction.
    #[inline]
    pub(crate) fn suppression(&self) -> NotificationSuppression<'_, AtomicU64> {
        NotificationSuppression::new(self.word(half::SUPPRESSION))
    }

    /// The receiver's word about its polling in this direction.
    #[inline]
    pub(crate) fn polling(&self) -> PollingWord<'_, AtomicU64> {
        PollingWord::new(self.word(half::POLLING))
    }

    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.pair.control.word64(self.base + at)
    }

    #[inline]
    pub(crate) fn cpu(&self, at: usize) -> &AtomicU32 {
        self.pair.control.word32(self.base + at)
    }

    /// The word that holds the block number at this index of the ring.
    #[inline]
    pub(crate) fn block(&self, place: usize) -> &AtomicU32 {
        self.pair.control.word32(self.base + half::BLOCKS + 4 * place)
    }
}

/// The words of a bitmap: see [`m3ipc_link::armed`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitmapWords<'a> {
    control: &'a Shared,
    base: usize,
}

impl Bitmap for BitmapWords<'_> {
    type Word = AtomicU64;
    #[inline]
    fn state(&self) -> &AtomicU64 {
        self.control.word64(self.base + bitmap::STATE)
    }
    #[inline]
    fn first_line(&self, word: usize) -> &AtomicU64 {
        self.control.word64(self.base + bitmap::FIRST_LINE + 8 * word)
    }
    #[inline]
    fn row(&self, row: usize) -> &AtomicU64 {
        self.control.word64(self.base + bitmap::ROWS + 8 * row)
    }
}

/// The place at which a poller awaits a connection: a row of a bitmap in the memory of a pair. The
/// bit in the row is the slot of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pair: u64,
    pub(crate) bitmap: usize,
    pub(crate) row: usize,
}

impl Place {
    const ROW_BITS: u32 = 8;
    const BITMAP_BITS: u32 = 2;
    const SHIFT: u32 = Self::ROW_BITS + Self::BITMAP_BITS;

    /// The place as a number of 62 bits; `None` where the pair's number is too large.
    pub(crate) fn encode(self) -> Option<u64> {
        let low = (self.bitmap << Self::ROW_BITS | self.row) as u64;
        (self.pair < 1 << (62 - Self::SHIFT)).then_some(self.pair << Self::SHIFT | low)
    }

    /// The place that a peer named; `None` where no poller names it.
    #[inline]
    pub(crate) fn decode(number: u64) -> Option<Self> {
        let part = |shift: u32, bits: u32| (low_half(number >> shift) & ((1 << bits) - 1)) as usize;
        let (row, bitmap) = (part(0, Self::ROW_BITS), part(Self::ROW_BITS, Self::BITMAP_BITS));
        (row < ROWS).then_some(Self { pair: number >> Self::SHIFT, bitmap, row })
    }
}

const _: () =
    assert!(SOCK_BITMAPS_OF_SIDE == 1 << Place::BITMAP_BITS && ROWS <= 1 << Place::ROW_BITS);
const _: () = assert!(bitmap::ROWS + 8 * ROWS <= SOCK_BITMAP_BYTES);
