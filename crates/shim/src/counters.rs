//! Counters: the work of the library, for `m3 sock stat` and for tests, which demand that rings
//! carried bytes.
//!
//! A process counts in memory of its own at first. Where the user names a file, the constructor
//! moves the counters to a page of it: other programs can then read them during and after the life
//! of the process. Children by fork go on counting in the same page.
//!
//! Each CPU has a row of counters, so that processes and threads on several CPUs take no cache line
//! from each other. A reader adds the rows up.
//!
//! # Safety
//! The page is mapped for good, so a reference into it is valid for ever. Everything in it is
//! atomic, and any bits are valid.
#![allow(unsafe_code)]

use crate::kernel::file::{self, File};
use crate::kernel::memory::{PAGE_BYTES as MAP_BYTES, map_shared};
use crate::kernel::process;
use crate::pin::PinReason;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::fork_generation;

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Bytes through rings, as their senders counted them.
    RingBytes,
    /// Bytes of upgraded connections through the kernel: before the switch, and past a full ring.
    KernelBytes,
    /// Wakeup bytes sent.
    Wakeups,
    /// Wakeup bytes that were not needed: one lay there already, or the receiver polled.
    WakeupsSpared,
    /// Sends that found the ring full and went on through the kernel.
    Overflows,
    /// Directions that switched from the kernel to a ring for the first time.
    Upgrades,
    /// Directions that switched back.
    Downgrades,
    /// Sockets that were pinned to the kernel.
    Pins,
    /// Waits for a lock in shared memory that another thread kept for too long.
    LockTimeouts,
    /// Connections that ended because the peer broke the rules of the shared memory.
    Corrupt,
    /// Nanoseconds spent spinning.
    SpinNs,
    /// Spins that found what they waited for.
    SpinHits,
    /// Spins that found nothing.
    SpinMisses,
}

/// The number of counters.
pub const COUNTERS: usize = Counter::SpinMisses as usize + 1;

/// The names of the counters, as people and scripts read them.
pub const NAMES: [&str; COUNTERS] = [
    "ring_bytes",
    "kernel_bytes",
    "wakeup_bytes",
    "wakeup_bytes_spared",
    "overflows",
    "upgrades",
    "downgrades",
    "pins",
    "lock_timeouts",
    "corrupt",
    "spin_ns",
    "spin_hits",
    "spin_misses",
];

/// Rows of counters beside the first one: a row for each CPU, as far as they go.
pub const ROWS: usize = 15;
/// Words of a row: whole cache lines.
const ROW_WORDS: usize = 16;
/// Counters of pins by reason: [`PinReason`] is the index.
pub const REASONS: usize = 32;

/// Processes that one page names; more processes count without a name.
pub const PROCESSES_MAX: usize = 64;

/// A page of counters, as it lies in its file.
#[derive(Debug)]
#[repr(C)]
pub struct Page {
    /// [`MAGIC`], once the rest is there.
    pub magic: AtomicU64,
    /// Processes that count here, as [`process_word`] encodes them; 0 is a free entry.
    pub processes: [AtomicU64; PROCESSES_MAX],
    /// The counters, by [`Counter`]: the first row.
    pub counts: [AtomicU64; COUNTERS],
    /// Pins by reason.
    pub pins: [AtomicU64; REASONS],
    /// The other rows of counters.
    pub rows: [Row; ROWS],
}

/// The counters of a CPU, by [`Counter`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Row([AtomicU64; ROW_WORDS]);

const _: () = assert!(COUNTERS <= ROW_WORDS);

/// The first word of a page; its last digit is the version.
pub const MAGIC: u64 = 0x6d33_736f_636b_0004;

/// Bytes of a page's file.
pub const PAGE_BYTES: usize = 4096;
const _: () = assert!(size_of::<Page>() <= PAGE_BYTES && PAGE_BYTES <= MAP_BYTES);

/// Bits of the start time in a [`process_word`]; the process number has the 22 bits above.
const START_BITS: u32 = 42;

/// A process in one word: its number and its start, in clock ticks after boot.
#[must_use]
pub const fn process_word(pid: u32, start_ticks: u64) -> u64 {
    (pid as u64) << START_BITS | (start_ticks & ((1 << START_BITS) - 1))
}

/// Number and start of the process in a word.
#[must_use]
pub fn process_of(word: u64) -> (u32, u64) {
    (u32::try_from(word >> START_BITS).unwrap_or(0), word & ((1 << START_BITS) - 1))
}

const fn empty_page() -> Page {
    Page {
        magic: AtomicU64::new(0),
        processes: [const { AtomicU64::new(0) }; PROCESSES_MAX],
        counts: [const { AtomicU64::new(0) }; COUNTERS],
        pins: [const { AtomicU64::new(0) }; REASONS],
        rows: [const { Row([const { AtomicU64::new(0) }; ROW_WORDS]) }; ROWS],
    }
}

static OWN: Page = empty_page();
static SHARED: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());

/// The page in use.
fn page() -> &'static Page {
    let shared = SHARED.load(Ordering::Acquire);
    if shared.is_null() {
        return &OWN;
    }
    // SAFETY: `share` alone sets the pointer, to a mapping that is never taken back.
    unsafe { &*shared }
}

/// Moves the counters to the page of this file, which must exist. Called by the constructor: the
/// program may give up its rights to the file later. Does nothing where the file cannot be used.
pub fn share(path: &CStr) {
    if is_shared() {
        return;
    }
    let Ok(file) = File::open_unlinked(path, true) else { return };
    let Ok(stat) = file::stat(file.fd()) else { return };
    // Another user who may write the file could also cut it. A touch of a page beyond the end of
    // its file would kill the program.
    let is_own = stat.st_uid == process::user() && stat.st_mode & 0o022 == 0 && stat.st_nlink == 1;
    let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !is_own || !is_file || file.size_bytes().unwrap_or(0) < PAGE_BYTES {
        return;
    }
    // A relative path may lead to any file.
    let mut magic = [0; 8];
    if file::read_at(file.fd(), &mut magic, 0) != Ok(8) || u64::from_ne_bytes(magic) != MAGIC {
        return;
    }
    let Ok(at) = map_shared(file.fd(), PAGE_BYTES) else { return };
    let shared = at.cast::<Page>();
    // SAFETY: a new mapping of a whole page, aligned, which is never taken back.
    let to = unsafe { &*shared };
    let rows = OWN.rows.iter().zip(&to.rows).flat_map(|(from, to)| from.0.iter().zip(&to.0));
    let first = OWN.counts.iter().zip(&to.counts).chain(OWN.pins.iter().zip(&to.pins));
    for (from, to) in first.chain(rows) {
        to.fetch_add(from.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
    SHARED.store(shared, Ordering::Release);
}

fn is_shared() -> bool {
    !SHARED.load(Ordering::Acquire).is_null()
}

/// The process that has named itself in the page.
static NAMED: AtomicU32 = AtomicU32::new(0);
/// Its fork generation; 0 where the kernel gives none.
static NAMED_IN: AtomicU32 = AtomicU32::new(0);

/// Names this process in the shared page, once in each process that has sockets.
pub fn name_process() {
    let generation = fork_generation();
    if !is_shared() || (generation != 0 && NAMED_IN.load(Ordering::Relaxed) == generation) {
        return;
    }
    NAMED_IN.store(generation, Ordering::Relaxed);
    let pid = process::id().unsigned_abs();
    if NAMED.swap(pid, Ordering::Relaxed) == pid {
        return;
    }
    let lives = |word| i32::try_from(process_of(word).0).is_ok_and(process::exists);
    page().add_process(process_word(pid, process::start_ticks()), lives);
}

impl Page {
    /// Adds a process, in place of a free entry or of a process that has ended.
    fn add_process(&self, own: u64, lives: impl Fn(u64) -> bool) {
        if self.processes.iter().any(|entry| entry.load(Ordering::Relaxed) == own) {
            return;
        }
        for entry in &self.processes {
            let old = entry.load(Ordering::Relaxed);
            if (old == 0 || !lives(old))
                && entry.compare_exchange(old, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
    }
}

/// Adds to a counter.
pub fn add(counter: Counter, amount: u64) {
    let page = page();
    let row = m3ipc_sys::current_cpu() as usize % (ROWS + 1);
    let count = match page.rows.get(row.wrapping_sub(1)) {
        Some(row) => &row.0[counter as usize],
        None => &page.counts[counter as usize],
    };
    count.fetch_add(amount, Ordering::Relaxed);
}

/// Counts a pin and its reason.
pub fn count_pin(reason: PinReason) {
    add(Counter::Pins, 1);
    if let Some(count) = page().pins.get(reason as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The value of a counter of this process.
#[must_use]
pub fn read(counter: Counter) -> u64 {
    let (page, at) = (page(), counter as usize);
    let rows = page.rows.iter().map(|row| &row.0[at]);
    rows.chain([&page.counts[at]]).map(|count| count.load(Ordering::Relaxed)).sum()
}

/// The pins of this process with a reason.
#[must_use]
pub fn read_pins(reason: PinReason) -> u64 {
    page().pins.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// The content of a page's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Words of [`process_word`].
    pub processes: Vec<u64>,
    /// By [`NAMES`].
    pub counts: [u64; COUNTERS],
    /// By [`PinReason`].
    pub pins: [u64; REASONS],
}

impl Snapshot {
    /// Reads the bytes of a page's file; `None` for other bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or([0; 8])));
        if words.next()? != MAGIC || bytes.len() < size_of::<Page>() {
            return None;
        }
        let processes = words.by_ref().take(PROCESSES_MAX).filter(|word| *word != 0).collect();
        let mut snapshot = Self { processes, counts: [0; COUNTERS], pins: [0; REASONS] };
        for count in snapshot.counts.iter_mut().chain(&mut snapshot.pins) {
            *count = words.next()?;
        }
        let rows = bytes.get(core::mem::offset_of!(Page, rows)..size_of::<Page>())?;
        for (at, word) in rows.chunks_exact(8).enumerate() {
            if let Some(count) = snapshot.counts.get_mut(at % ROW_WORDS) {
                *count = count.wrapping_add(u64::from_ne_bytes(word.try_into().ok()?));
            }
        }
        Some(snapshot)
    }

    /// The bytes of a new page's file, in which this process counts.
    #[must_use]
    pub fn empty_page(process: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip([MAGIC, process]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The value of a counter.
    #[must_use]
    pub fn read(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_back_as_it_was_written() {
        let word = process_word(4_194_303, 1 << 41);
        assert_eq!(process_of(word), (4_194_303, 1 << 41));
        let mut bytes = Snapshot::empty_page(word);
        let at = core::mem::offset_of!(Page, counts) + 8 * Counter::Overflows as usize;
        bytes[at] = 7;
        let row = core::mem::offset_of!(Page, rows) + 8 * ROW_WORDS * (ROWS - 1);
        bytes[row + 8 * Counter::Overflows as usize] = 5;
        let read = Snapshot::of(&bytes).unwrap();
        assert_eq!((read.processes.clone(), read.read(Counter::Overflows)), (vec![word], 12));
        assert_eq!(Snapshot::of(&bytes[..100]), None);
        assert_eq!(Snapshot::of(&[0; PAGE_BYTES]), None);
    }

    #[test]
    fn another_file_than_a_page_is_left_alone() {
        let path = std::env::temp_dir().join(format!("m3-other-page-{}", std::process::id()));
        std::fs::write(&path, [7; PAGE_BYTES]).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        share(&name);
        assert!(!is_shared());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_process_takes_the_entry_of_an_ended_one() {
        let page = empty_page();
        let entries = || -> Vec<u64> {
            let all = page.processes.iter().map(|entry| entry.load(Ordering::Relaxed));
            all.filter(|word| *word != 0).collect()
        };
        page.add_process(5, |_| true);
        page.add_process(6, |_| true);
        page.add_process(6, |_| true);
        assert_eq!(entries(), [5, 6]);
        page.add_process(7, |word| word != 5);
        assert_eq!(entries(), [7, 6]);
    }
}
