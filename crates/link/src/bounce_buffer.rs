//! The window: memory between two, through which a party copies for itself.
//!
//! ```text
//! 0x0000 the command: number, what, space, address, bytes     requester writes
//! 0x0040 requester's progress: number and chunks; it sleeps   requester writes
//! 0x0080 party's progress: number and chunks; outcome, bytes  party writes
//! 0x00c0 knock of the requester (it sleeps there)
//! 0x1400 first half, 64 KiB       0x12400 second half
//! ```
//!
//! A copy goes through in chunks of a half: chunk n in half n modulo 2, filled
//! by one side and emptied by the other, each at most two ahead. All counts
//! bear the number of their command, so what was left of an earlier one says nothing.
//! Either side believes only counts that its own allow; what else a peer
//! writes here spoils the copy with itself.

use crate::slot::RuleBroken;
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_shm::Shared;
use m3ipc_sys::{CopySource, CopyTarget, Errno};
use std::os::fd::AsFd;

/// Bytes of one half: the most that goes through at once.
pub const BOUNCE_HALF_BYTES: usize = 64 * 1024;
/// Size of a window in bytes.
pub const BOUNCE_BUFFER_BYTES: usize = HALVES + 2 * HALF_STEP_BYTES;

const NUMBER: usize = 0x00;
const WHAT: usize = 0x04;
const SPACE: usize = 0x08;
const ADDRESS: usize = 0x10;
const BYTES: usize = 0x18;
const ASKED: usize = 0x40;
const SLEEPS: usize = 0x48;
const SERVED: usize = 0x80;
const OUTCOME: usize = 0x88;
const DONE: usize = 0x90;
const KNOCK: usize = 0xc0;
const HALVES: usize = 0x1000;
/// From one half to the next.
const HALF_STEP_BYTES: usize = BOUNCE_HALF_BYTES + 0x1000;
/// Where in its first page a half begins. Blocks of programs begin at a page or a few bytes behind one; a
/// copy whose destination lies a few bytes behind its source, counted within a page, takes four times as
/// long, since the CPU takes its loads for those of stores just made.
const HALF_SHIFT: usize = 0x400;
/// Chunks that one side may be ahead of the other.
const AHEAD_MAX: u32 = 2;
/// The outcome of a copy that went well; codes are negative.
const WELL: i32 = 1;

/// What a party is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// Copy out of its memory into the window.
    Read,
    /// Copy out of the window into its memory.
    Write,
}

/// One copy that a party is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// Which way.
    pub direction: CopyDirection,
    /// 0 where `address` is one, else the grant that it is an offset in.
    pub space: u64,
    /// Where in the party's memory, or in the grant.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl CopyCommand {
    /// Chunks it takes.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.bytes.div_ceil(BOUNCE_HALF_BYTES as u64)
    }

    /// Offset and length of a chunk.
    #[must_use]
    pub fn chunk(&self, at: u32) -> (u64, usize) {
        let offset = u64::from(at) * BOUNCE_HALF_BYTES as u64;
        let left = self.bytes.saturating_sub(offset).min(BOUNCE_HALF_BYTES as u64);
        (offset, usize::try_from(left).unwrap_or(BOUNCE_HALF_BYTES))
    }
}

/// How a party says that a copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOutcome {
    /// The code, negative; none where all went well.
    pub code: Option<i32>,
    /// Bytes that were surely copied, by the party's word.
    pub bytes: u64,
}

fn tagged(number: u32, count: u32) -> u64 {
    u64::from(number) << 32 | u64::from(count)
}

fn count_of(word: u64, number: u32) -> u32 {
    if word >> 32 == u64::from(number) { (word & 0xffff_ffff) as u32 } else { 0 }
}

fn half(at: u32) -> usize {
    HALVES + (at as usize % 2) * HALF_STEP_BYTES + HALF_SHIFT
}

/// The requester's side.
#[derive(Debug)]
pub struct BounceBuffer<P = Shared> {
    page: P,
    number: u32,
}

impl BounceBuffer {
    /// Maps a window.
    ///
    /// # Errors
    /// Of [`Shared::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::over(Shared::map(memory, BOUNCE_BUFFER_BYTES)?))
    }

    /// The half that a chunk comes through, to be emptied.
    #[must_use]
    pub fn bytes(&self, chunk: u32, bytes: usize) -> CopySource<'_> {
        self.page.source(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }

    /// The half that a chunk goes through, to be filled.
    #[must_use]
    pub fn room(&self, chunk: u32, bytes: usize) -> CopyTarget<'_> {
        self.page.target(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }
}

impl<P: Page> BounceBuffer<P> {
    /// A window in this memory.
    pub fn over(page: P) -> Self {
        Self { page, number: 0 }
    }

    /// Asks for a copy; wake the party afterwards where it sleeps.
    pub fn post_command(&mut self, command: &CopyCommand) {
        self.number = self.number.wrapping_add(1).max(1);
        let what = match command.direction {
            CopyDirection::Read => 1,
            CopyDirection::Write => 2,
        };
        self.publish(what, command);
    }

    /// Takes the command back: the party drops it at its next look.
    pub fn withdraw(&mut self) {
        self.number = self.number.wrapping_add(1).max(1);
        self.publish(
            0,
            &CopyCommand { direction: CopyDirection::Read, space: 0, address: 0, bytes: 0 },
        );
    }

    fn publish(&self, what: u32, command: &CopyCommand) {
        self.page.word32(WHAT).store(what, Ordering::Relaxed);
        self.page.word64(SPACE).store(command.space, Ordering::Relaxed);
        self.page.word64(ADDRESS).store(command.address, Ordering::Relaxed);
        self.page.word64(BYTES).store(command.bytes, Ordering::Relaxed);
        self.page.word64(ASKED).store(tagged(self.number, 0), Ordering::Relaxed);
        let number = self.page.word32(NUMBER);
        number.swap(self.number, Ordering::SeqCst); // pairs with `read_next` of the party
        number.fence_after_update(); // before the look at the party's mode
    }

    /// Chunks that the party has filled or emptied; `own` is what this side has done.
    ///
    /// # Errors
    /// [`Broken`] where they cannot be so many.
    pub fn served(&self, what: CopyDirection, own: u32) -> Result<u32, RuleBroken> {
        let count = count_of(self.page.word64(SERVED).load(Ordering::Acquire), self.number);
        check_ahead(what == CopyDirection::Read, count, own)
    }

    /// Says that this side has filled or emptied so many; wake the party afterwards where it sleeps.
    pub fn advance(&self, count: u32) {
        let asked = self.page.word64(ASKED);
        asked.swap(tagged(self.number, count), Ordering::SeqCst); // pairs with `asked` of the party
        asked.fence_after_update(); // before the look at the party's mode
    }

    /// How the copy has ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<CopyOutcome> {
        let word = self.page.word64(OUTCOME).load(Ordering::Acquire);
        let code = (count_of(word, self.number)).cast_signed();
        if code == 0 {
            return None;
        }
        let bytes = self.page.word64(DONE).load(Ordering::Relaxed);
        Some(CopyOutcome { code: (code != WELL).then_some(code), bytes })
    }

    /// The word that the requester sleeps on.
    #[must_use]
    pub fn wake_word(&self) -> &P::Word32 {
        self.page.word32(KNOCK)
    }

    /// Says whether the requester sleeps; look once more before sleeping.
    pub fn set_sleeping(&self, sleeps: bool) {
        let word = self.page.word32(SLEEPS);
        word.swap(u32::from(sleeps), Ordering::SeqCst);
        word.fence_after_update(); // pairs with `advance` of the party
    }
}

/// The party's side.
#[derive(Debug)]
pub struct ServedBounceBuffer<P = Shared> {
    page: P,
    /// The command that was looked at last.
    number: u32,
}

impl ServedBounceBuffer {
    /// Maps a window.
    ///
    /// # Errors
    /// Of [`Shared::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::over(Shared::map(memory, BOUNCE_BUFFER_BYTES)?))
    }

    /// The half that a chunk comes through, to be emptied.
    #[must_use]
    pub fn bytes(&self, chunk: u32, bytes: usize) -> CopySource<'_> {
        self.page.source(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }

    /// The half that a chunk goes through, to be filled.
    #[must_use]
    pub fn room(&self, chunk: u32, bytes: usize) -> CopyTarget<'_> {
        self.page.target(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }
}

impl<P: Page> ServedBounceBuffer<P> {
    /// A window in this memory.
    pub fn over(page: P) -> Self {
        Self { page, number: 0 }
    }

    /// Whether there is another command than the one looked at last: one load.
    #[must_use]
    #[inline]
    pub fn has_next(&self) -> bool {
        self.page.word32(NUMBER).load(Ordering::SeqCst) != self.number
    }

    /// The next command, read once; `None` where the former one was taken back, or this one is none.
    pub fn read_next(&mut self) -> Option<CopyCommand> {
        self.number = self.page.word32(NUMBER).load(Ordering::SeqCst); // pairs with `publish`
        let what = match self.page.word32(WHAT).load(Ordering::Relaxed) {
            1 => CopyDirection::Read,
            2 => CopyDirection::Write,
            _ => return None,
        };
        Some(CopyCommand {
            direction: what,
            space: self.page.word64(SPACE).load(Ordering::Relaxed),
            address: self.page.word64(ADDRESS).load(Ordering::Relaxed),
            bytes: self.page.word64(BYTES).load(Ordering::Relaxed),
        })
    }

    /// Chunks that the requester has filled or emptied; `own` is what this side has done.
    ///
    /// # Errors
    /// [`Broken`] where they cannot be so many.
    pub fn asked(&self, what: CopyDirection, own: u32) -> Result<u32, RuleBroken> {
        let count = count_of(self.page.word64(ASKED).load(Ordering::SeqCst), self.number);
        check_ahead(what == CopyDirection::Write, count, own)
    }

    /// Says that this side has filled or emptied so many, and wakes the requester where it sleeps.
    pub fn advance(&self, count: u32) {
        let served = self.page.word64(SERVED);
        served.swap(tagged(self.number, count), Ordering::SeqCst); // pairs with `served`
        served.fence_after_update(); // pairs with `set_sleeping`
        self.wake();
    }

    /// Says how the copy has ended, and wakes the requester where it sleeps.
    pub fn finish(&self, outcome: CopyOutcome) {
        self.page.word64(DONE).store(outcome.bytes, Ordering::Relaxed);
        let code = outcome.code.unwrap_or(WELL).cast_unsigned();
        let word = self.page.word64(OUTCOME);
        word.swap(tagged(self.number, code), Ordering::SeqCst); // pairs with `outcome`
        word.fence_after_update(); // pairs with `set_sleeping`
        self.wake();
    }

    fn wake(&self) {
        if self.page.word32(SLEEPS).load(Ordering::SeqCst) != 0 {
            let knock = self.page.word32(KNOCK);
            knock.bump();
            self.page.wake(knock);
        }
    }
}

/// Whoever fills is ahead of who empties, by two chunks at most.
fn check_ahead(other_fills: bool, count: u32, own: u32) -> Result<u32, RuleBroken> {
    let ahead = if other_fills { count.wrapping_sub(own) } else { own.wrapping_sub(count) };
    if ahead <= AHEAD_MAX { Ok(count) } else { Err(RuleBroken) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (BounceBuffer, ServedBounceBuffer) {
        let memory = m3ipc_sys::create_memory("m3-test", BOUNCE_BUFFER_BYTES as u64).unwrap();
        (BounceBuffer::map(&memory).unwrap(), ServedBounceBuffer::map(&memory).unwrap())
    }

    const COMMAND: CopyCommand =
        CopyCommand { direction: CopyDirection::Write, space: 0, address: 77, bytes: 200_000 };

    #[test]
    fn a_command_is_seen_once_and_can_be_taken_back() {
        let (mut window, mut served) = both();
        assert!(!served.has_next());
        window.post_command(&COMMAND);
        assert!(served.has_next());
        assert_eq!(served.read_next(), Some(COMMAND));
        assert!(!served.has_next());
        window.withdraw();
        assert!(served.has_next());
        assert_eq!(served.read_next(), None);
    }

    #[test]
    fn counts_of_an_earlier_command_say_nothing() {
        let (mut window, mut served) = both();
        window.post_command(&COMMAND);
        served.read_next();
        window.advance(2);
        assert_eq!(served.asked(CopyDirection::Write, 0), Ok(2));
        served.advance(2);
        served.finish(CopyOutcome { code: None, bytes: 9 });
        assert_eq!(window.served(CopyDirection::Write, 2), Ok(2));
        assert_eq!(window.outcome(), Some(CopyOutcome { code: None, bytes: 9 }));
        window.post_command(&COMMAND);
        assert_eq!(window.served(CopyDirection::Write, 0), Ok(0));
        assert_eq!(window.outcome(), None);
        served.read_next();
        assert_eq!(served.asked(CopyDirection::Write, 0), Ok(0));
    }

    #[test]
    fn who_is_too_far_ahead_breaks_the_rules() {
        let (mut window, mut served) = both();
        window.post_command(&COMMAND);
        served.read_next();
        window.advance(3);
        assert_eq!(served.asked(CopyDirection::Write, 0), Err(RuleBroken));
        assert_eq!(served.asked(CopyDirection::Write, 4), Err(RuleBroken));
        served.advance(1);
        assert_eq!(window.served(CopyDirection::Write, 0), Err(RuleBroken));
    }

    #[test]
    fn chunks_cover_a_copy() {
        assert_eq!(COMMAND.chunks(), 4);
        assert_eq!(COMMAND.chunk(0), (0, BOUNCE_HALF_BYTES));
        assert_eq!(
            COMMAND.chunk(3),
            (3 * BOUNCE_HALF_BYTES as u64, 200_000 - 3 * BOUNCE_HALF_BYTES)
        );
    }
}
