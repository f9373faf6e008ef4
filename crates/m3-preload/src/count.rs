//! Counters: what the library did, for `m3 sock stat` and for tests, which demand that rings carried bytes.
//!
//! They begin in this process alone. At the first socket that may become ours they move to a page of a file, so
//! that others can read them while, and after, the process lives; forked children go on counting there.
//!
//! # Safety
//! The page is mapped for good: a reference into it is valid for ever. Everything in it is atomic, and any bits are valid.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

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

/// Their names, as people and scripts read them.
pub const NAMES: [&str; COUNTS] = [
    "ring_bytes",
    "kernel_bytes",
    "tokens",
    "tokens_spared",
    "overflows",
    "upgrades",
    "downgrades",
    "pins",
    "nonsense",
    "spin_ns",
    "spin_hits",
    "spin_misses",
];

/// Reasons of pins are counted too: [`crate::engine::Pin`] as an index.
pub const REASONS: usize = 16;

/// A page of counters, as it lies in its file.
#[derive(Debug)]
#[repr(C)]
pub struct Page {
    /// [`MAGIC`] once the rest is there.
    pub magic: AtomicU64,
    /// The process that made it, and when that started (clock ticks after boot).
    pub pid: AtomicU64,
    /// See `pid`.
    pub started: AtomicU64,
    /// What is counted.
    pub counts: [AtomicU64; COUNTS],
    /// Pins by reason.
    pub pins: [AtomicU64; REASONS],
}

/// What a page begins with; its last digit is its version.
pub const MAGIC: u64 = 0x6d33_736f_636b_0001;

/// Bytes of a page's file.
pub const PAGE_BYTES: usize = 4096;
const _: () = assert!(size_of::<Page>() <= PAGE_BYTES);

const fn empty() -> Page {
    Page {
        magic: AtomicU64::new(0),
        pid: AtomicU64::new(0),
        started: AtomicU64::new(0),
        counts: [const { AtomicU64::new(0) }; COUNTS],
        pins: [const { AtomicU64::new(0) }; REASONS],
    }
}

static OWN: Page = empty();
static SHARED: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());

/// The page in use.
pub fn page() -> &'static Page {
    let shared = SHARED.load(Ordering::Acquire);
    if shared.is_null() {
        return &OWN;
    }
    // SAFETY: set by `share` alone, whose caller promises a page that stays.
    unsafe { &*shared }
}

/// Goes on in this page, to which what was counted so far is added.
///
/// # Safety
/// It must be valid, and stay mapped, for as long as the process lives.
pub unsafe fn share(page: *mut Page) {
    // SAFETY: as the caller promises.
    let to = unsafe { &*page };
    for (from, to) in OWN.counts.iter().zip(&to.counts).chain(OWN.pins.iter().zip(&to.pins)) {
        to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
    SHARED.store(page, Ordering::Release);
}

/// Whether others can read the counters.
pub fn is_shared() -> bool {
    !SHARED.load(Ordering::Acquire).is_null()
}

/// Adds to a counter.
pub fn add(what: Count, amount: u64) {
    page().counts[what as usize].fetch_add(amount, Ordering::Relaxed);
}

/// Counts a pin and its reason.
pub fn pinned(reason: crate::engine::Pin) {
    add(Count::Pins, 1);
    if let Some(count) = page().pins.get(reason as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a counter of this process says.
#[must_use]
pub fn read(what: Count) -> u64 {
    page().counts[what as usize].load(Ordering::Relaxed)
}
