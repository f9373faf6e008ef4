//! Counters: what the library did, for `m3 sock stat` and for tests, which demand that rings carried bytes.

use core::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Bytes that went through rings, as their senders counted them.
    RingBytes,
    /// Bytes of upgraded connections that went through the kernel: before the switch, and where a ring was full.
    KernelBytes,
    /// Tokens sent.
    Tokens,
    /// Tokens that were not needed: one lay there already, or the receiver was looking.
    TokensSpared,
    /// Sends that found the ring full and went on through the kernel.
    Overflows,
    /// Directions that moved from the kernel to a ring.
    Upgrades,
    /// Directions that moved back.
    Downgrades,
    /// Sockets that were pinned to the kernel.
    Pins,
    /// Connections that ended because the peer broke the rules of the shared memory.
    Nonsense,
    /// Nanoseconds spent looking for what might come soon.
    SpinNs,
    /// Looks that ended with what they looked for.
    SpinHits,
    /// Looks that ended with nothing.
    SpinMisses,
}

/// How many there are.
pub const COUNTS: usize = Count::SpinMisses as usize + 1;

static ALL: [AtomicU64; COUNTS] = [const { AtomicU64::new(0) }; COUNTS];

/// Adds to a counter.
pub fn add(what: Count, amount: u64) {
    ALL[what as usize].fetch_add(amount, Ordering::Relaxed);
}

/// What a counter of this process says.
#[must_use]
pub fn read(what: Count) -> u64 {
    ALL[what as usize].load(Ordering::Relaxed)
}
