//! Where things lie in the memory that a user's processes share: one file, mapped by all of them.
//!
//! ```text
//!   0          the lock of whoever makes or frees a pair, the hand of the sweeper
//!   4096       a state for each pair: free or live, and how often it was made
//!   24 KiB     the index: cookie -> pair, 512 buckets of 16 words
//!   88 KiB     lookouts of epoll sets: 256 bytes each, see `lookout`
//!   152 KiB    pairs: a page of words and two rings of at most 64 KiB each
//! ```
//!
//! A pair's page:
//!
//! | bytes | what | written by |
//! |---|---|---|
//! | 0 to 127 | cookies and addresses of both ends | its maker, before it is LIVE |
//! | 128 to 255 | process at each end, notes of closes | that end |
//! | 512, 1024 | the two ways, each of four lines: sender's, door, receiver's, counters | see [`way`] |

/// Pairs at most.
pub(super) const PAIRS: usize = 2048;
/// The largest ring, in bytes.
pub(super) const RING_MAX: usize = 64 * 1024;
/// The smallest ring, in bytes.
pub(super) const RING_MIN: usize = 64;
/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// What a pair takes.
pub(super) const PAIR_BYTES: usize = PAGE + 2 * RING_MAX;
/// Where states begin.
pub(super) const STATES: usize = PAGE;
/// Where the index begins.
pub(super) const INDEX: usize = STATES + 8 * PAIRS + PAGE;
/// Buckets of the index.
pub(super) const BUCKETS: usize = 512;
/// Words of a bucket.
pub(super) const BUCKET_WORDS: usize = 16;
/// Where lookouts begin.
pub(super) const OUTLOOK: usize = INDEX + 8 * BUCKETS * BUCKET_WORDS;
/// Lookouts at most.
pub(super) const LOOKOUTS: usize = 256;
/// Bytes of one.
pub(super) const LOOKOUT_BYTES: usize = 256;
/// Places of an epoll set that have a bit.
pub(super) const PLACES: usize = 1024;
/// Where pairs begin.
pub(super) const FIRST: usize = OUTLOOK + LOOKOUTS * LOOKOUT_BYTES;
/// All of it.
pub(super) const TOTAL: usize = FIRST + PAIRS * PAIR_BYTES;
/// Who knows another layout uses another file.
pub(super) const VERSION: u64 = 2;
/// In the first page: the lock of whoever makes or frees a pair.
pub(super) const MAKING: usize = 0;
/// In the first page: the pair that the sweeper looks at next.
pub(super) const HAND: usize = 8;
/// In the first page: when all pairs were last looked at.
pub(super) const SWEPT_AT: usize = 16;

const _: () = assert!(INDEX.is_multiple_of(PAGE) && FIRST.is_multiple_of(PAGE));

/// Words of a pair's page, by their offsets.
pub(super) mod pair {
    /// The lesser cookie of both ends, and the greater.
    pub(crate) const COOKIES: [usize; 2] = [0, 8];
    /// Where the ends are found: four words for each, see `diag::Address`.
    pub(crate) const ADDRESSES: [usize; 2] = [16, 64];
    /// The process that receives at each end.
    pub(crate) const PROCESSES: [usize; 2] = [128, 136];
    /// Not 0 where a process closed its last descriptor of this end.
    pub(crate) const CLOSED: [usize; 2] = [144, 152];
    /// Not 0 where a process of this end knows of the pair.
    pub(crate) const JOINED: [usize; 2] = [160, 168];
    /// The way whose sender is the lesser end, and the other.
    pub(crate) const WAYS: [usize; 2] = [512, 1024];
}

/// Words of a way, by their offsets in it.
pub(super) mod way {
    // The sender's line.
    /// Bytes that were put into the ring, ever.
    pub(crate) const TAIL: usize = 0;
    /// Tokens that were sent, or will be this moment.
    pub(crate) const TOKENS: usize = 8;
    /// Even: bytes go through the kernel. Odd: through the ring.
    pub(crate) const TURN: usize = 16;
    /// Bytes that went through the kernel since the first turn to the ring.
    pub(crate) const KERNEL: usize = 24;
    /// Calls that are sending through the kernel.
    pub(crate) const SENDING: usize = 32;
    /// The sender's lock.
    pub(crate) const SEND_LOCK: usize = 40;
    /// Size of the ring in bytes, set at the first turn to it.
    pub(crate) const RING_BYTES: usize = 48;
    /// Not 0: never again through the ring.
    pub(crate) const PINNED: usize = 56;
    // The door's line.
    /// Odd while bytes are published and the token for them, if any, is not counted.
    pub(crate) const PUBLISHING: usize = 80;
    /// See `m3ipc_sockets::door`.
    pub(crate) const DOOR: usize = 64;
    /// The CPU that the sender was last seen on.
    pub(crate) const SENDER_CPU: usize = 72;
    // The receiver's line.
    /// Bytes that were taken out of the ring, ever.
    pub(crate) const HEAD: usize = 128;
    /// Tokens that were taken.
    pub(crate) const TOKENS_TAKEN: usize = 136;
    /// Bytes that were taken from the kernel since the first turn to the ring.
    pub(crate) const KERNEL_TAKEN: usize = 144;
    /// The receiver's lock.
    pub(crate) const RECEIVE_LOCK: usize = 152;
    /// Not 0: every receive of this end goes through the engine.
    pub(crate) const ATTACHED: usize = 160;
    /// Not 0: a token for each publish.
    pub(crate) const EDGES: usize = 168;
    /// Not 0: the lookout and the place that the receiver looks out from, see `lookout`.
    pub(crate) const COVER: usize = 176;
    // Counters.
    /// Tokens that were not needed.
    pub(crate) const SPARED: usize = 192;
    /// Overflows into the kernel.
    pub(crate) const OVERFLOWS: usize = 200;
    /// Why it was pinned.
    pub(crate) const REASON: usize = 208;
    /// What the program believes of `TCP_NODELAY` and of `TCP_CORK`.
    pub(crate) const LATENCY: [usize; 2] = [216, 224];
}
