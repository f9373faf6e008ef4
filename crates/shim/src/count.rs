//! Counters: what the library did, for `m3 sock stat` and for tests, which demand that rings carried bytes.
//!
//! They begin in this process alone. At the first socket that may become ours they move to a page of a file, so
//! that others can read them while, and after, the process lives; forked children go on counting there.
//!
//! # Safety
//! The page is mapped for good: a reference into it is valid for ever. Everything in it is atomic, and any bits are valid.
#![allow(unsafe_code)]
#![allow(clippy::cast_possible_truncation, reason = "22 bits are fewer than 32")]

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
    /// Processes that count here: number and start, as [`process_word`] puts them together; 0 is a free place.
    pub processes: [AtomicU64; PROCESSES],
    /// What is counted.
    pub counts: [AtomicU64; COUNTS],
    /// Pins by reason.
    pub pins: [AtomicU64; REASONS],
}

/// Processes of one page that are known; more count without being named.
pub const PROCESSES: usize = 64;

/// A process in one word: its number, and when it started, in clock ticks after boot.
#[must_use]
pub const fn process_word(pid: u32, started: u64) -> u64 {
    (pid as u64) << 42 | (started & ((1 << 42) - 1))
}

/// The process of a word.
#[must_use]
pub const fn process_of(word: u64) -> (u32, u64) {
    ((word >> 42) as u32, word & ((1 << 42) - 1))
}

/// What a page begins with; its last digit is its version.
pub const MAGIC: u64 = 0x6d33_736f_636b_0001;

/// Bytes of a page's file.
pub const PAGE_BYTES: usize = 4096;
const _: () = assert!(size_of::<Page>() <= PAGE_BYTES);

const fn empty() -> Page {
    Page {
        magic: AtomicU64::new(0),
        processes: [const { AtomicU64::new(0) }; PROCESSES],
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

/// What a page's file said when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Words of [`process_word`].
    pub processes: Vec<u64>,
    /// By [`NAMES`].
    pub counts: [u64; COUNTS],
    /// By [`crate::engine::Pin`].
    pub pins: [u64; REASONS],
}

impl Snapshot {
    /// Reads the bytes of a page's file; `None` where they are none.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or([0; 8])));
        if words.next()? != MAGIC || bytes.len() < size_of::<Page>() {
            return None;
        }
        let processes = words.by_ref().take(PROCESSES).filter(|word| *word != 0).collect();
        let mut snapshot = Self { processes, counts: [0; COUNTS], pins: [0; REASONS] };
        for place in snapshot.counts.iter_mut().chain(&mut snapshot.pins) {
            *place = words.next()?;
        }
        Some(snapshot)
    }

    /// The bytes of a new page's file, in which this process counts.
    #[must_use]
    pub fn empty_page(process: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([MAGIC, process]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// What a counter said.
    #[must_use]
    pub fn read(&self, what: Count) -> u64 {
        self.counts[what as usize]
    }
}

/// Says that this process counts in the page; `lives` says of others whether they still do.
pub fn join(process: u64, lives: impl Fn(u64) -> bool) {
    let page = page();
    if page.processes.iter().any(|place| place.load(Ordering::Relaxed) == process) {
        return;
    }
    for place in &page.processes {
        let old = place.load(Ordering::Relaxed);
        let free = old == 0 || !lives(old);
        if free
            && place.compare_exchange(old, process, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_back_as_it_was_written() {
        let word = process_word(4_194_303, 1 << 41);
        assert_eq!(process_of(word), (4_194_303, 1 << 41));
        let mut bytes = Snapshot::empty_page(word);
        let at = core::mem::offset_of!(Page, counts) + 8 * Count::Overflows as usize;
        bytes[at] = 7;
        let read = Snapshot::of(&bytes).unwrap();
        assert_eq!((read.processes.clone(), read.read(Count::Overflows)), (vec![word], 7));
        assert_eq!(Snapshot::of(&bytes[..100]), None);
        assert_eq!(Snapshot::of(&[0; PAGE_BYTES]), None);
    }
}
