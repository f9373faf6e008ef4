//! Armed pollers: how a sender knows that the receiver's event loop polls by itself.
//!
//! An epoll set of one process owns an armed poller: a word that counts its threads that sleep in
//! the kernel, and a bit for each poller slot of the set. The steps on both are those of
//! [`crate::protocol::armed`]. ADR 17 has the rule: *bytes without a wakeup byte have a bit in an
//! armed poller in which no thread sleeps.*
//!
//! The pollers of a process lie in a file of their own. A sender maps them when its peer names one,
//! and loses them with the pair. It can set and clear bits, and cannot write the words. Slots are
//! bounded. A generation that is not the poller's own counts as asleep, and a bit is nothing but a
//! reason to poll.

use crate::kernel::{apart, process};
use crate::memory::layout::{POLLER_BYTES, POLLER_FILE_BYTES, POLLERS_MAX, SLOTS_MAX};
use crate::memory::user_directory::{Name, UserDirectory};
use crate::memory::window::{OwnPollers, PairMemory, PollersCell};
use crate::protocol::armed::{self, GENERATION_SHIFT, awake};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::fork_generation;

/// The word that counts sleepers: generation above, sleepers below.
const STATE: usize = 0;
/// Not 0: a set has the poller.
const USED: usize = 8;
/// Odd while a wait takes bits and has not asked the kernel yet.
const GATHERS: usize = 16;

// A slot word: generation, process, poller, slot. A process number is never 0, nor is the word.
const GENERATION_MASK: u64 = 0x1f_ffff;
const OWN_GENERATION_SHIFT: u32 = 43;
const PROCESS_SHIFT: u32 = 21;
const PROCESS_MASK: u64 = 0x3f_ffff;
const POLLER_SHIFT: u32 = 14;
const POLLER_MASK: u64 = 0x7f;
const SLOT_MASK: u64 = 0x3fff;

/// Words of bits.
pub const BIT_WORDS: usize = SLOTS_MAX / 64;

const _: () = assert!(POLLERS_MAX == 1 << (PROCESS_SHIFT - POLLER_SHIFT));
const _: () = assert!(SLOTS_MAX == 1 << POLLER_SHIFT);

/// The pollers of this process.
static OWN: PollersCell = PollersCell::new();
/// The fork generation in which a thread opened, or opens, the file of [`OWN`].
static OPENED_IN: AtomicU32 = AtomicU32::new(0);
/// The process that has [`OWN`]; 0 before there are any.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The pollers of this process; opens their file once in each process.
fn own() -> Option<OwnPollers> {
    let known = OWN.get();
    if known.is_some() {
        return known;
    }
    let generation = fork_generation();
    if generation == 0 || OPENED_IN.swap(generation, Ordering::AcqRel) == generation {
        return None;
    }
    let directory = UserDirectory::current()?;
    let name = Name::Pollers(process::id().unsigned_abs());
    let pollers = apart::run(|| {
        let file = directory.open(name, POLLER_FILE_BYTES, true).or_else(|_absent| {
            directory.remove(name);
            directory.create(name, POLLER_FILE_BYTES)
        });
        OwnPollers::map(&file.ok()?).ok()
    });
    let pollers = pollers??;
    release_all(pollers);
    OWNER.store(process::id(), Ordering::Relaxed);
    OWN.set(pollers)
}

/// This process ends: from now on senders send wakeup bytes, which the kernel refuses after the
/// end. Whether this process has pollers, and is not a child of the one that has them.
pub(super) fn end_all() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    let Some(pollers) = OWN.get().filter(|_pollers| owner != 0 && owner == process::id()) else {
        return false;
    };
    release_all(pollers);
    true
}

/// Releases all pollers of the file of this process. A program before an exec, or a dead process of
/// the same number, may have left them.
fn release_all(pollers: OwnPollers) {
    for poller in 0..POLLERS_MAX {
        let state = pollers.word(words_of(poller) + STATE);
        let seen = state.load(Ordering::Relaxed);
        // A new file must not repeat the generations of a removed one.
        let last =
            if seen == 0 { m3ipc_sys::monotonic_ns() >> 10 } else { seen >> GENERATION_SHIFT };
        state.store(awake(next_generation(last)), Ordering::SeqCst);
        pollers.word(words_of(poller) + USED).store(0, Ordering::Relaxed);
    }
}

fn next_generation(generation: u64) -> u64 {
    generation.wrapping_add(1) & GENERATION_MASK
}

/// The offset of a poller's words. The first pollers of a process have a cache line each: the
/// threads of a program that have a set each write them at every sleep.
fn words_of(poller: usize) -> usize {
    const HALF: usize = POLLERS_MAX / 2;
    (poller % HALF) * 2 * POLLER_BYTES + poller / HALF * POLLER_BYTES
}

fn poller_of(word: u64) -> usize {
    usize::try_from(word >> POLLER_SHIFT & POLLER_MASK).unwrap_or(0)
}

/// The armed poller of an epoll set of this process, in one word: a slot word with slot 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmedPoller(u64);

impl ArmedPoller {
    /// A new poller without sleepers; `None` where all pollers are taken.
    #[must_use]
    pub fn open() -> Option<Self> {
        let pollers = own()?;
        let pid = u64::from(process::id().unsigned_abs()) & PROCESS_MASK;
        let is_free = |poller: &usize| {
            let used = pollers.word(words_of(*poller) + USED);
            used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let poller = (0..POLLERS_MAX).find(is_free)?;
        if pollers.reserve_bits(poller).is_err() {
            pollers.word(words_of(poller) + USED).store(0, Ordering::Release);
            return None;
        }
        for at in 0..BIT_WORDS {
            pollers.bits(poller, at).store(0, Ordering::Relaxed);
        }
        // A sender that still names the last use finds another generation.
        pollers.word(words_of(poller) + GATHERS).store(0, Ordering::SeqCst);
        let state = pollers.word(words_of(poller) + STATE);
        let generation = next_generation(state.load(Ordering::Relaxed) >> GENERATION_SHIFT);
        state.store(awake(generation), Ordering::SeqCst);
        let word = generation << OWN_GENERATION_SHIFT
            | pid << PROCESS_SHIFT
            | (poller as u64) << POLLER_SHIFT;
        Some(Self(word))
    }

    /// The poller as a word that is not 0.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The poller of a word; `None` for 0.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word & !SLOT_MASK))
    }

    /// The word that a half gets while this slot serves it.
    #[must_use]
    pub fn slot_word(self, slot: usize) -> u64 {
        self.0 | (slot as u64 & SLOT_MASK)
    }

    fn generation(self) -> u64 {
        self.0 >> OWN_GENERATION_SHIFT
    }

    fn word_at(self, at: usize) -> Option<&'static AtomicU64> {
        Some(OWN.get()?.word(words_of(poller_of(self.0)) + at))
    }

    fn bits(self, word: usize) -> Option<&'static AtomicU64> {
        Some(OWN.get()?.bits(poller_of(self.0), word % BIT_WORDS))
    }

    /// Releases the poller: no sender relies on it any more.
    pub fn close(self) {
        if let (Some(state), Some(used)) = (self.word_at(STATE), self.word_at(USED)) {
            state.store(awake(next_generation(self.generation())), Ordering::SeqCst);
            used.store(0, Ordering::Release);
        }
    }

    /// Takes the bits of one word of slots.
    #[must_use]
    pub fn take(self, word: usize) -> u64 {
        self.bits(word).map_or(0, armed::take)
    }

    /// Takes some bits of one word of slots, as far as they are still set.
    #[must_use]
    pub fn take_some(self, word: usize, wanted: u64) -> u64 {
        self.bits(word).map_or(0, |bits| armed::take_some(bits, wanted))
    }

    /// The bits of one word of slots.
    #[must_use]
    pub fn peek(self, word: usize) -> u64 {
        self.bits(word).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Before a wait takes bits, and after it has asked the kernel.
    pub fn count_gather(self) {
        if let Some(gathers) = self.word_at(GATHERS) {
            armed::count_gather(gathers);
        }
    }

    /// Whether any bit of the first words is set.
    #[must_use]
    pub fn has_bits(self, words: usize) -> bool {
        (0..words.min(BIT_WORDS))
            .filter_map(|word| self.bits(word))
            .any(|word| word.load(Ordering::SeqCst) != 0)
    }

    /// Counts a thread that is about to sleep. The thread must read the bits once more afterwards.
    pub fn begin_sleep(self) {
        if let Some(state) = self.word_at(STATE) {
            armed::begin_sleep(state, self.generation());
        }
    }

    /// Counts the thread as awake again.
    pub fn end_sleep(self) {
        if let Some(state) = self.word_at(STATE) {
            armed::end_sleep(state, self.generation());
        }
    }
}

/// The poller of the peer, as far as this process has mapped it for one socket.
#[derive(Debug, Default)]
pub struct PeerPoller {
    /// The mapped poller: a slot word without its slot; 0 is none.
    mapped: AtomicU64,
    /// The poller that could not be mapped last.
    refused: AtomicU64,
}

impl PeerPoller {
    /// None.
    pub const fn new() -> Self {
        Self { mapped: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Forgets the poller of an earlier pair.
    pub fn reset(&self) {
        self.mapped.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    /// Maps the poller of a slot word; whether it is mapped. Under the sender's lock.
    #[cold]
    fn map(&self, memory: PairMemory, slot_word: u64) -> bool {
        let key = slot_word >> POLLER_SHIFT;
        if self.refused.load(Ordering::Relaxed) == key {
            return false;
        }
        let pid = u32::try_from(slot_word >> PROCESS_SHIFT & PROCESS_MASK).unwrap_or(0);
        let name = Name::Pollers(pid);
        let mapped = UserDirectory::current().is_some_and(|directory| {
            let mapped = apart::run(|| {
                let words = directory.open(name, POLLER_FILE_BYTES, false);
                let bits = directory.open(name, POLLER_FILE_BYTES, true);
                words.and_then(|words| memory.map_peer(&words, &bits?, poller_of(slot_word)))
            });
            mapped.is_some_and(|mapped| mapped.is_ok())
        });
        if mapped {
            self.mapped.store(key, Ordering::Relaxed);
        } else {
            self.mapped.store(0, Ordering::Relaxed);
            self.refused.store(key, Ordering::Relaxed);
        }
        mapped
    }

    /// Offers published bytes to the poller of a slot word; `true` where the receiver polls by
    /// itself. Under the sender's lock.
    #[inline]
    pub fn offer(&self, memory: PairMemory, slot_word: u64, stamp: impl FnOnce()) -> bool {
        let is_mapped = self.mapped.load(Ordering::Relaxed) == slot_word >> POLLER_SHIFT;
        if !is_mapped && !self.map(memory, slot_word) {
            return false;
        }
        let slot = usize::try_from(slot_word & SLOT_MASK).unwrap_or(0);
        let poller = poller_of(slot_word);
        armed::offer(
            memory.peer_bits(poller, slot),
            memory.peer_word(words_of(poller) + STATE),
            1 << (slot % 64),
            slot_word >> OWN_GENERATION_SHIFT,
            stamp,
        )
    }

    /// Whether no thread sleeps in the poller of a slot word: published bytes would need no wakeup
    /// byte now. Under the sender's lock.
    #[inline]
    #[must_use]
    pub fn is_awake(&self, memory: PairMemory, slot_word: u64) -> bool {
        let is_mapped = self.mapped.load(Ordering::Relaxed) == slot_word >> POLLER_SHIFT;
        if !is_mapped && !self.map(memory, slot_word) {
            return false;
        }
        let state = memory.peer_word(words_of(poller_of(slot_word)) + STATE);
        state.load(Ordering::Acquire) == awake(slot_word >> OWN_GENERATION_SHIFT)
    }

    /// Whether a wait of the receiver has reported the bit of a slot word. Where the poller is not
    /// mapped, its bits were never set. Under the sender's lock.
    #[must_use]
    pub fn is_delivered(&self, memory: PairMemory, slot_word: u64) -> bool {
        let Some((bits, bit)) = self.bit(memory, slot_word) else { return true };
        let gathers = memory.peer_word(words_of(poller_of(slot_word)) + GATHERS);
        armed::is_delivered(bits, gathers, bit)
    }

    /// Removes the bit of a slot word, whose bytes get a wakeup byte. Under the sender's lock.
    pub fn withdraw(&self, memory: PairMemory, slot_word: u64) {
        if let Some((bits, bit)) = self.bit(memory, slot_word) {
            armed::withdraw(bits, bit);
        }
    }

    /// The bit of a slot word, and its word, where the poller is mapped.
    fn bit(&self, memory: PairMemory, slot_word: u64) -> Option<(&'static AtomicU64, u64)> {
        let is_mapped = self.mapped.load(Ordering::Relaxed) == slot_word >> POLLER_SHIFT;
        let slot = usize::try_from(slot_word & SLOT_MASK).unwrap_or(0);
        let bits = || memory.peer_bits(poller_of(slot_word), slot);
        is_mapped.then(|| (bits(), 1 << (slot % 64)))
    }
}
