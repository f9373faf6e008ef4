//! The layout of the shared memory: a file for each pair, and a file for the pollers of a process.
//!
//! ```text
//!   file of a pair, named by the cookie of either end
//!   0          a page of words
//!   4096       two rings of at most 64 KiB each
//!
//!   file of the armed pollers of a process, named by the process
//!   0          32 bytes for each poller, the first 64 of them 64 bytes apart, which its process
//!              alone may write
//!   65536      16384 bits for each poller, which senders set: on other pages of any machine
//! ```
//!
//! The page of a pair:
//!
//! | bytes | content | writer |
//! |---|---|---|
//! | 0 to 127 | cookies and addresses of both ends | the maker, before the file has its name |
//! | 128 to 255 | the process of each end, notes of closes | that end |
//! | 512, 1024 | the two halves, six cache lines each | see [`half`] |
//!
//! A file holds the memory of one connection and never serves another one. A process that keeps a
//! mapping of it therefore reaches nothing else.

use crate::kernel::memory::{PAGE_BYTES, PAGE_BYTES_MAX};

/// Bytes of the largest ring.
pub const RING_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the smallest ring.
pub const RING_BYTES_MIN: usize = 64;
/// Bytes of a new ring, which grows with its traffic and shrinks when it is idle.
pub const RING_BYTES_FIRST: usize = 4096;
/// Bytes of the words of a pair, before its rings.
const WORDS_BYTES: usize = 4096;
/// Bytes of a pair's file.
pub const PAIR_BYTES: usize = WORDS_BYTES + 2 * RING_BYTES_MAX;
/// Bytes at the start of a pair's file that its maker writes.
pub const PAIR_HEAD_BYTES: usize = 128;
/// Bytes of a pair's file that hold words.
pub const PAIR_WORDS_BYTES: usize = 1536;
/// Armed pollers of a process at most.
pub const POLLERS_MAX: usize = 128;
/// Bytes of the words of an armed poller.
pub const POLLER_BYTES: usize = 32;
/// Poller slots of an armed poller: one bit each.
pub const SLOTS_MAX: usize = 16_384;
/// Bytes of the bits of an armed poller.
pub const POLLER_BITS_BYTES: usize = SLOTS_MAX / 8;
/// Bytes of the words of all pollers of a process.
pub const POLLER_WORDS_BYTES: usize = POLLERS_MAX * POLLER_BYTES;
/// Offset of the bits in the file of a process's pollers.
pub const POLLER_BITS: usize = PAGE_BYTES_MAX;
/// Bytes of the file of a process's pollers.
pub const POLLER_FILE_BYTES: usize = POLLER_BITS + POLLERS_MAX * POLLER_BITS_BYTES;
/// The version of this layout, which is part of the directory's name.
pub const VERSION: u64 = 9;

const _: () = assert!(POLLER_WORDS_BYTES <= PAGE_BYTES && WORDS_BYTES <= PAGE_BYTES);
const _: () = assert!(POLLER_FILE_BYTES.is_multiple_of(PAGE_BYTES_MAX));
const _: () = assert!(PAGE_BYTES.is_multiple_of(POLLER_BITS_BYTES));

/// Offset of one of the two rings of a pair.
#[must_use]
pub fn ring_offset(half: usize) -> usize {
    WORDS_BYTES + (half & 1) * RING_BYTES_MAX
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
    /// The process of this end that found the pair last, or 0.
    pub const JOINED: [usize; 2] = [160, 168];
    /// The half whose sender is the lesser end, and the other.
    pub const HALVES: [usize; 2] = [512, 1024];
}

/// Words of a half, by their offsets in it.
pub mod half {
    /// Bytes of a half.
    pub const BYTES: usize = 512;

    // The sender's line. While the kernel carries all messages, it does not change.
    /// Bytes that were put into the ring, ever.
    pub const TAIL: usize = 0;
    /// Wakeup bytes that were sent, or will be at once.
    pub const WAKEUPS: usize = 8;
    /// Switches between kernel and ring. Even: bytes go through the kernel. Odd: through the ring.
    pub const SWITCHES: usize = 16;
    /// Bytes of the ring, set at the first switch to it. The sender changes them while the ring is
    /// empty.
    pub const RING_BYTES: usize = 48;
    /// Not 0: not through the ring, for a while ([`AT_REST`]) or for good.
    pub const PINNED: usize = 56;
    /// The value of [`PINNED`] while the sender rests in the kernel.
    pub const AT_REST: u64 = 2;
    // The line of notification suppression.
    /// See `m3ipc_link::notification`.
    pub const SUPPRESSION: usize = 64;
    /// The CPU of the last send.
    pub const SENDER_CPU: usize = 72;
    /// Odd while bytes are published and their wakeup byte, if any, is not counted.
    pub const PUBLISHING: usize = 80;
    /// The moment at which the sender last marked the slot, in nanoseconds of `CLOCK_MONOTONIC`.
    pub const STAMP: usize = 88;
    /// Returns of the ring's memory to the system, counted before the memory goes.
    pub const GIVE_BACKS: usize = 96;
    // The receiver's line. While the kernel carries all messages, it does not change.
    /// Bytes that were taken out of the ring, ever.
    pub const HEAD: usize = 128;
    /// Wakeup bytes that were taken.
    pub const WAKEUPS_TAKEN: usize = 136;
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
    /// Not 0: the socket has `TCP_NODELAY`, and the program's own setting is in [`LATENCY`].
    pub const AT_ONCE: usize = 232;
    /// Ends of rests: the sender tries the ring again.
    pub const RETURNS: usize = 240;
    // The sender's own line: each send changes it.
    /// The sender's lock.
    pub const SEND_LOCK: usize = 256;
    /// Bytes that went through the kernel since the first switch to the ring.
    pub const KERNEL: usize = 264;
    /// Calls that are sending through the kernel.
    pub const SENDING: usize = 272;
    // The receiver's own line: each receive changes it.
    /// The receiver's lock.
    pub const RECEIVE_LOCK: usize = 320;
    /// Bytes that were taken from the kernel since the first switch to the ring.
    pub const KERNEL_TAKEN: usize = 328;
    /// Receives that are in the kernel, past the ring: the direction must not switch to it.
    pub const RECEIVING: usize = 336;
}
