//! Lookouts: how a sender knows that the receiver's event loop comes by itself, so that no token is needed.
//!
//! An epoll set of one process owns a lookout in the shared memory: a word that counts its threads that sleep in the kernel, and a
//! bit for each place of the set. Whoever publishes to a *covered* way sets the bit of its place, and sends a token only where
//! somebody sleeps. The rule of ADR 17: *bytes without a token have a bit in a lookout that nobody sleeps over.*
//!
//! | who | does | then |
//! |---|---|---|
//! | sender | publishes, sets the bit | reads the word: 0 sleep: no token; else as the door has it |
//! | receiver | counts itself among the sleepers | reads the bits: none: sleeps; else it is up again, and looks |
//!
//! What lies in this memory is the user's processes' to write. Places are bounded, a generation that is not the
//! lookout's own counts as asleep, and a bit is only a reason to look.

use super::arena::Arena;
use super::raw;
use super::words::{LOOKOUT_BYTES, LOOKOUTS, OUTLOOK, PLACES};
use core::sync::atomic::Ordering;
use m3ipc_link::Word64;

/// The word that counts sleepers: the generation above, sleepers below.
const STATE: usize = 0;
/// The process that owns it; 0 is nobody.
const OWNER: usize = 8;
/// Not 0: a child of its process has handed on what it inherited.
const HANDED_ON: usize = 16;
/// The bits, on lines of their own.
const BITS: usize = 64;
const GENERATION: u32 = 32;
const PLACE: u32 = 12;
const ARENA: u32 = 24;
const MASK: u64 = 0xfff;
/// The same, of places.
const MOST: usize = 0xfff;
/// Words of bits.
pub const BIT_WORDS: usize = PLACES / 64;

const _: () = assert!(LOOKOUTS < MOST && PLACES <= MOST + 1 && BITS + PLACES / 8 <= LOOKOUT_BYTES);

/// What the word of sleepers is where none sleeps.
fn awake(generation: u64) -> u64 {
    generation << GENERATION
}

/// The sender's half, after it has published: sets the bit; whether the receiver comes by itself.
#[inline]
pub fn tell(bits: &impl Word64, state: &impl Word64, bit: u64, generation: u64) -> bool {
    // What is set already has not been taken yet: whoever takes it reads the tail after that.
    let sets = bits.load(Ordering::SeqCst) & bit == 0;
    if sets {
        bits.fetch_or(bit, Ordering::SeqCst);
        bits.fence_after_update(); // pairs with `lie_down`
    }
    let comes = state.load(Ordering::SeqCst) == awake(generation);
    if sets && !comes {
        // It will have a token, and is not to be told twice.
        forget(bits, bit);
    }
    comes
}

fn forget(bits: &impl Word64, bit: u64) {
    let mut seen = bits.load(Ordering::SeqCst);
    while seen & bit != 0
        && let Err(now) = bits.compare_exchange(seen, seen & !bit)
    {
        seen = now;
    }
}

/// The bits of a word of places, which are taken. What they stand for is read afterwards.
pub fn take(bits: &impl Word64) -> u64 {
    if bits.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let taken = bits.swap(0, Ordering::SeqCst);
    bits.fence_after_update(); // pairs with the announcement that comes before `tell`
    taken
}

/// The receiver's half: one more of its threads is about to sleep. The bits must be read once more afterwards.
/// `false` where the lookout is another's by now: everybody sends tokens then.
pub fn lie_down(state: &impl Word64, generation: u64) -> bool {
    let done = change(state, generation, |sleepers| Some(sleepers + 1));
    state.fence_after_update(); // pairs with `tell`
    done
}

/// One fewer.
pub fn get_up(state: &impl Word64, generation: u64) {
    change(state, generation, |sleepers| sleepers.checked_sub(1));
}

/// Changes the number of sleepers, where the lookout still is of this generation.
fn change(state: &impl Word64, generation: u64, to: impl Fn(u32) -> Option<u32>) -> bool {
    let mut seen = state.load(Ordering::SeqCst);
    loop {
        let sleepers = u32::try_from(seen & 0xffff_ffff).unwrap_or(u32::MAX);
        let next = (seen >> GENERATION == generation && sleepers < u32::MAX)
            .then(|| to(sleepers))
            .flatten();
        let Some(next) = next else { return false };
        match state.compare_exchange(seen, awake(generation) | u64::from(next)) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}

/// The lookout of an epoll set of this process: which one, in which memory, how many-th of its name. It is one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookout(u64);

impl Lookout {
    /// A new one, with nobody asleep; `None` where there is no room.
    #[must_use]
    pub fn open() -> Option<Self> {
        let arena = Arena::current()?;
        let own = u64::from(raw::process().unsigned_abs());
        for slot in 0..LOOKOUTS {
            let word = |at: usize| arena.word(OUTLOOK + slot * LOOKOUT_BYTES + at);
            let owner = word(OWNER).load(Ordering::Relaxed);
            // One's own number without being one's own is of a process that has ended, or of a program before this one.
            let taken = owner != 0 && (owner == own || i32::try_from(owner).is_ok_and(raw::exists));
            if taken
                || word(OWNER)
                    .compare_exchange(owner, own, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            for at in 0..BIT_WORDS {
                word(BITS + 8 * at).store(0, Ordering::Relaxed);
            }
            // Whoever still names the one of before finds another generation.
            let generation =
                (word(STATE).load(Ordering::Relaxed) >> GENERATION).wrapping_add(1) & 0xffff_ffff;
            word(HANDED_ON).store(0, Ordering::Relaxed);
            word(STATE).store(awake(generation), Ordering::SeqCst);
            let index = arena.index() as u64 + 1;
            return Some(Self(generation << GENERATION | index << ARENA | (slot as u64 + 1)));
        }
        None
    }

    /// As a word that is not 0.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Of such a word.
    #[must_use]
    pub fn of(word: u64) -> Option<Self> {
        (word & MASK != 0).then_some(Self(word))
    }

    /// The word that covers a way from this place.
    pub(super) fn cover(self, place: usize) -> u64 {
        self.0 & !(MASK << PLACE) | (place as u64 & MASK) << PLACE
    }

    fn generation(self) -> u64 {
        self.0 >> GENERATION
    }

    pub(super) fn arena(self) -> Option<&'static Arena> {
        Arena::of_index(((self.0 >> ARENA & 0xff) as usize).checked_sub(1)?)
    }

    fn at(self, arena: &'static Arena, at: usize) -> &'static core::sync::atomic::AtomicU64 {
        let slot = ((self.0 & MASK) as usize).saturating_sub(1).min(LOOKOUTS - 1);
        arena.word(OUTLOOK + slot * LOOKOUT_BYTES + at)
    }

    /// Said by a child of its process: what it inherited others have by now, too, who may outlive it.
    pub fn hand_on(self) {
        if let Some(arena) = self.arena() {
            self.at(arena, HANDED_ON).store(1, Ordering::Release);
        }
    }

    /// Whether a child has said so.
    #[must_use]
    pub fn is_handed_on(self) -> bool {
        self.arena().is_some_and(|arena| self.at(arena, HANDED_ON).load(Ordering::Acquire) != 0)
    }

    /// Nobody is to rely on it from now on.
    pub fn close(self) {
        let Some(arena) = self.arena() else { return };
        let next = self.generation().wrapping_add(1) & 0xffff_ffff;
        self.at(arena, STATE).store(awake(next), Ordering::SeqCst);
        self.at(arena, OWNER).store(0, Ordering::Release);
    }

    /// The bits of one word of places, which are taken.
    #[must_use]
    pub fn take(self, word: usize) -> u64 {
        let Some(arena) = self.arena() else { return 0 };
        take(self.at(arena, BITS + 8 * (word % BIT_WORDS)))
    }

    /// Whether any bit of the first so many words is set.
    #[must_use]
    pub fn any(self, words: usize) -> bool {
        self.arena().is_some_and(|arena| {
            (0..words.min(BIT_WORDS))
                .any(|word| self.at(arena, BITS + 8 * word).load(Ordering::SeqCst) != 0)
        })
    }

    /// A thread is about to sleep; the bits are to be read once more afterwards.
    pub fn lie_down(self) {
        if let Some(arena) = self.arena() {
            lie_down(self.at(arena, STATE), self.generation());
        }
    }

    /// It is up again.
    pub fn get_up(self) {
        if let Some(arena) = self.arena() {
            get_up(self.at(arena, STATE), self.generation());
        }
    }
}

/// Whether the one who receives on a way that is covered so comes by itself for what was just published.
#[inline]
pub(super) fn comes(arena: &'static Arena, cover: u64) -> bool {
    let slot = (cover & MASK) as usize;
    let place = (cover >> PLACE & MASK) as usize;
    if slot == 0 || slot > LOOKOUTS || place >= PLACES {
        return false;
    }
    let base = OUTLOOK + (slot - 1) * LOOKOUT_BYTES;
    tell(
        arena.word(base + BITS + 8 * (place / 64)),
        arena.word(base + STATE),
        1 << (place % 64),
        cover >> GENERATION,
    )
}

/// A program that was put in this process's place, or one of its number before, may have left lookouts that count as awake.
pub(super) fn disown(arena: &Arena) {
    let own = u64::from(raw::process().unsigned_abs());
    for slot in 0..LOOKOUTS {
        let word = |at: usize| arena.word(OUTLOOK + slot * LOOKOUT_BYTES + at);
        if word(OWNER).load(Ordering::Relaxed) == own {
            let next =
                (word(STATE).load(Ordering::Relaxed) >> GENERATION).wrapping_add(1) & 0xffff_ffff;
            word(STATE).store(awake(next), Ordering::SeqCst);
            word(OWNER).store(0, Ordering::Release);
        }
    }
}
