//! Armed pollers: how a sender knows that the receiver's event loop polls by itself.
//!
//! An epoll set of one process owns an armed poller in the ring file: a word that counts its
//! threads that sleep in the kernel, and a bit for each poller slot of the set. The steps on both
//! are those of [`crate::protocol::armed`]. ADR 17 has the rule: *bytes without a wakeup byte have
//! a bit in an armed poller in which no thread sleeps.*
//!
//! Every process of the user can write this memory. Slots are bounded. A generation that is not the
//! poller's own counts as asleep, and a bit is nothing but a reason to poll.

use crate::kernel::process;
use crate::memory::layout::{POLLER_BYTES, POLLERS, POLLERS_MAX, SLOTS_MAX};
use crate::memory::ring_file::RingFile;
use crate::protocol::armed::{self, GENERATION_SHIFT, awake};
use core::sync::atomic::{AtomicU64, Ordering};

/// The word that counts sleepers: generation above, sleepers below.
const STATE: usize = 0;
/// The process that owns the poller; 0 is none.
const OWNER: usize = 8;
/// Not 0: a child of the owner passed on the descriptors that it inherited.
const PASSED_ON: usize = 16;
/// The bits, on cache lines of their own.
const BITS: usize = 64;

// A slot word: generation, ring file plus one, poller slot, poller plus one.
const FILE_SHIFT: u32 = 24;
const FILE_MASK: u64 = 0xff;
const SLOT_SHIFT: u32 = 12;
const NUMBER_MASK: u64 = 0xfff;

/// Words of bits.
pub const BIT_WORDS: usize = SLOTS_MAX / 64;

const _: () = assert!(POLLERS_MAX < 0xfff && SLOTS_MAX <= 0x1000);
const _: () = assert!(BITS + SLOTS_MAX / 8 <= POLLER_BYTES);

/// The ring file of the current user.
pub fn current_file() -> Option<&'static RingFile> {
    RingFile::current(release_stale)
}

/// Releases the pollers that carry this process's number in a file that it has just mapped: a
/// program before an exec, or a dead process of the same number, left them.
fn release_stale(file: &'static RingFile) {
    let own = u64::from(process::id().unsigned_abs());
    for poller in 0..POLLERS_MAX {
        if word(file, poller, OWNER).load(Ordering::Relaxed) == own {
            let state = word(file, poller, STATE);
            let next = next_generation(state.load(Ordering::Relaxed) >> GENERATION_SHIFT);
            state.store(awake(next), Ordering::SeqCst);
            word(file, poller, OWNER).store(0, Ordering::Release);
        }
    }
}

fn word(file: &'static RingFile, poller: usize, at: usize) -> &'static AtomicU64 {
    file.word(POLLERS + poller.min(POLLERS_MAX - 1) * POLLER_BYTES + at)
}

fn next_generation(generation: u64) -> u64 {
    generation.wrapping_add(1) & 0xffff_ffff
}

fn number(part: u64) -> usize {
    usize::try_from(part & NUMBER_MASK).unwrap_or(0)
}

/// The armed poller of an epoll set of this process, in one word: generation, ring file, number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmedPoller(u64);

impl ArmedPoller {
    /// A new poller without sleepers; `None` where all pollers are taken.
    #[must_use]
    pub fn open() -> Option<Self> {
        let file = current_file()?;
        let own = u64::from(process::id().unsigned_abs());
        for poller in 0..POLLERS_MAX {
            let owner = word(file, poller, OWNER);
            let seen = owner.load(Ordering::Relaxed);
            let is_taken =
                seen != 0 && (seen == own || i32::try_from(seen).is_ok_and(process::exists));
            if is_taken
                || owner.compare_exchange(seen, own, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                continue;
            }
            for at in 0..BIT_WORDS {
                word(file, poller, BITS + 8 * at).store(0, Ordering::Relaxed);
            }
            // A sender that still names the last use finds another generation.
            let state = word(file, poller, STATE);
            let generation = next_generation(state.load(Ordering::Relaxed) >> GENERATION_SHIFT);
            word(file, poller, PASSED_ON).store(0, Ordering::Relaxed);
            state.store(awake(generation), Ordering::SeqCst);
            let file = file.index() as u64 + 1;
            let own = generation << GENERATION_SHIFT | file << FILE_SHIFT | (poller as u64 + 1);
            return Some(Self(own));
        }
        None
    }

    /// The poller as a word that is not 0.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The poller of a word; `None` for 0.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word & NUMBER_MASK != 0).then_some(Self(word))
    }

    /// The word that a half gets while this slot serves it.
    #[must_use]
    pub fn slot_word(self, slot: usize) -> u64 {
        self.0 & !(NUMBER_MASK << SLOT_SHIFT) | (slot as u64 & NUMBER_MASK) << SLOT_SHIFT
    }

    fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    fn at(self, at: usize) -> Option<&'static AtomicU64> {
        let file = usize::try_from(self.0 >> FILE_SHIFT & FILE_MASK).ok()?.checked_sub(1)?;
        Some(word(RingFile::of_index(file)?, number(self.0).saturating_sub(1), at))
    }

    /// Notes in a child of the owner that processes, which may outlive it, have its descriptors.
    pub fn note_passed_on(self) {
        if let Some(word) = self.at(PASSED_ON) {
            word.store(1, Ordering::Release);
        }
    }

    /// Whether a child has noted that.
    #[must_use]
    pub fn is_passed_on(self) -> bool {
        self.at(PASSED_ON).is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Releases the poller: no sender relies on it any more.
    pub fn close(self) {
        if let (Some(state), Some(owner)) = (self.at(STATE), self.at(OWNER)) {
            state.store(awake(next_generation(self.generation())), Ordering::SeqCst);
            owner.store(0, Ordering::Release);
        }
    }

    /// Takes the bits of one word of slots.
    #[must_use]
    pub fn take(self, word: usize) -> u64 {
        self.at(BITS + 8 * (word % BIT_WORDS)).map_or(0, armed::take)
    }

    /// Whether any bit of the first words is set.
    #[must_use]
    pub fn has_bits(self, words: usize) -> bool {
        (0..words.min(BIT_WORDS))
            .filter_map(|word| self.at(BITS + 8 * word))
            .any(|word| word.load(Ordering::SeqCst) != 0)
    }

    /// Counts a thread that is about to sleep. The thread must read the bits once more afterwards.
    pub fn begin_sleep(self) {
        if let Some(state) = self.at(STATE) {
            armed::begin_sleep(state, self.generation());
        }
    }

    /// Counts the thread as awake again.
    pub fn end_sleep(self) {
        if let Some(state) = self.at(STATE) {
            armed::end_sleep(state, self.generation());
        }
    }
}

/// Offers published bytes to the poller of a slot word; `true` where the receiver polls by itself.
#[inline]
pub fn offer(file: &'static RingFile, slot_word: u64) -> bool {
    let (poller, slot) = (number(slot_word), number(slot_word >> SLOT_SHIFT));
    if poller == 0 || poller > POLLERS_MAX || slot >= SLOTS_MAX {
        return false;
    }
    armed::offer(
        word(file, poller - 1, BITS + 8 * (slot / 64)),
        word(file, poller - 1, STATE),
        1 << (slot % 64),
        slot_word >> GENERATION_SHIFT,
    )
}
