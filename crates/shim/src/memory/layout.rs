//! The layout of the ring file: the memory that the processes of one user share.
//!
//! ```text
//!   0          the lock for making and freeing pairs, the position of the sweep
//!   4096       the state of each pair: free or live, and a count of its uses
//!   24 KiB     the index: cookie -> pair, 512 buckets of 16 words
//!   88 KiB     armed pollers of epoll sets, 256 bytes each
//!   152 KiB    pairs: a page of words and two rings of at most 64 KiB each
//! ```
//!
//! The page of a pair:
//!
//! | bytes | content | writer |
//! |---|---|---|
//! | 0 to 127 | cookies and addresses of both ends | the maker, before the pair is live |
//! | 128 to 255 | the process of each end, notes of closes | that end |
//! | 512, 1024 | the two halves, four cache lines each | see [`half`] |

use crate::kernel::memory::PAGE_BYTES;

/// Pairs at most.
pub const PAIRS_MAX: usize = 2048;
/// Bytes of the largest ring.
pub const RING_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the smallest ring.
pub const RING_BYTES_MIN: usize = 64;
/// Bytes of a pair.
pub const PAIR_BYTES: usize = PAGE_BYTES + 2 * RING_BYTES_MAX;
/// Offset of the states of pairs.
pub const STATES: usize = PAGE_BYTES;
/// Offset of the index.
pub const INDEX: usize = STATES + 8 * PAIRS_MAX + PAGE_BYTES;
/// Buckets of the index.
pub const BUCKETS: usize = 512;
/// Words of a bucket.
pub const BUCKET_WORDS: usize = 16;
/// Offset of the armed pollers.
pub const POLLERS: usize = INDEX + 8 * BUCKETS * BUCKET_WORDS;
/// Armed pollers at most.
pub const POLLERS_MAX: usize = 256;
/// Bytes of an armed poller.
pub const POLLER_BYTES: usize = 256;
/// Poller slots of an armed poller: one bit each.
pub const SLOTS_MAX: usize = 1024;
/// Offset of the first pair.
pub const FIRST_PAIR: usize = POLLERS + POLLERS_MAX * POLLER_BYTES;
/// Bytes of the file.
pub const FILE_BYTES: usize = FIRST_PAIR + PAIRS_MAX * PAIR_BYTES;
/// The version of this layout, which is part of the file's name.
pub const VERSION: u64 = 2;
/// Offset of the lock for making and freeing pairs.
pub const MAKING_LOCK: usize = 0;
/// Offset of the number of the pair that the sweep examines next.
pub const SWEEP_POSITION: usize = 8;
/// Offset of the time of the last full sweep.
pub const SWEPT_AT_NS: usize = 16;
/// Words of a pair's page that a new pair has as zeros.
pub const PAIR_WORDS: usize = 1536 / 8;

const _: () = assert!(INDEX.is_multiple_of(PAGE_BYTES) && FIRST_PAIR.is_multiple_of(PAGE_BYTES));

/// Offset of a pair.
#[must_use]
pub fn pair_offset(pair: usize) -> usize {
    FIRST_PAIR + pair.min(PAIRS_MAX - 1) * PAIR_BYTES
}

/// Offset of one of the two rings of a pair.
#[must_use]
pub fn ring_offset(pair: usize, half: usize) -> usize {
    pair_offset(pair) + PAGE_BYTES + (half & 1) * RING_BYTES_MAX
}

/// Words of a pair's page, by their offsets.
pub mod pair {
    /// The lesser cookie of both ends, and the greater.
    pub const COOKIES: [usize; 2] = [0, 8];
    /// The addresses of the ends: six words each, see `SocketAddress`.
    pub const ADDRESSES: [usize; 2] = [16, 64];
    /// The process that receives at each end.
    pub const PROCESSES: [usize; 2] = [128, 136];
    /// Not 0 after a process closed its last descriptor of this end.
    pub const CLOSED: [usize; 2] = [144, 152];
    /// Not 0 after a process of this end found the pair.
    pub const JOINED: [usize; 2] = [160, 168];
    /// The half whose sender is the lesser end, and the other.
    pub const HALVES: [usize; 2] = [512, 1024];
}

/// Words of a half, by their offsets in it.
pub mod half {
    /// Bytes of a half.
    pub const BYTES: usize = 512;

    // The sender's line.
    /// Bytes that were put into the ring, ever.
    pub const TAIL: usize = 0;
    /// Wakeup bytes that were sent, or will be at once.
    pub const WAKEUPS: usize = 8;
    /// Switches between kernel and ring. Even: bytes go through the kernel. Odd: through the ring.
    pub const SWITCHES: usize = 16;
    /// Bytes that went through the kernel since the first switch to the ring.
    pub const KERNEL: usize = 24;
    /// Calls that are sending through the kernel.
    pub const SENDING: usize = 32;
    /// The sender's lock.
    pub const SEND_LOCK: usize = 40;
    /// Bytes of the ring, set at the first switch to it.
    pub const RING_BYTES: usize = 48;
    /// Not 0: never again through the ring.
    pub const PINNED: usize = 56;
    // The line of notification suppression.
    /// See `m3ipc_link::notification`.
    pub const SUPPRESSION: usize = 64;
    /// The CPU of the last send.
    pub const SENDER_CPU: usize = 72;
    /// Odd while bytes are published and their wakeup byte, if any, is not counted.
    pub const PUBLISHING: usize = 80;
    // The receiver's line.
    /// Bytes that were taken out of the ring, ever.
    pub const HEAD: usize = 128;
    /// Wakeup bytes that were taken.
    pub const WAKEUPS_TAKEN: usize = 136;
    /// Bytes that were taken from the kernel since the first switch to the ring.
    pub const KERNEL_TAKEN: usize = 144;
    /// The receiver's lock.
    pub const RECEIVE_LOCK: usize = 152;
    /// 1: every receive of this end goes through this library. 2: never again.
    pub const ATTACHED: usize = 160;
    /// Not 0: a wakeup byte for each publish.
    pub const EDGES: usize = 168;
    /// The poller slot of this half, see `SlotWord`; 0 is none.
    pub const POLLER_SLOT: usize = 176;
    // Counters.
    /// Wakeup bytes that were not needed.
    pub const SPARED: usize = 192;
    /// Overflows into the kernel.
    pub const OVERFLOWS: usize = 200;
    /// The reason of the pin.
    pub const REASON: usize = 208;
    /// The program's own settings of `TCP_NODELAY` and of `TCP_CORK`.
    pub const LATENCY: [usize; 2] = [216, 224];
}
