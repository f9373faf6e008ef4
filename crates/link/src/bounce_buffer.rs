//! The requester's side of a bounce buffer: memory of two parties, through which a party copies for
//! itself. [`crate::bounce_layout`] has its layout.
//!
//! A copy passes in chunks of one half: chunk n in half n modulo 2. One side fills a half, and the
//! other side empties it. Each count carries the number of its command, so counts of an earlier
//! command have no effect. Each side accepts only counts that its own count allows. Any other
//! garbage of a peer spoils only the copy with that peer.

use crate::bounce_layout::{
    ADDRESS, BOUNCE_BUFFER_BYTES, BOUNCE_HALF_BYTES, BYTES, DIRECTION, DONE_BYTES, NUMBER, OUTCOME,
    PARTY_PROGRESS, REQUESTER_PROGRESS, REQUESTER_SLEEPS, SPACE, SUCCESS, WAKE_WORD, check_ahead,
    count_of, half, read_half, tagged, write_half,
};
use crate::copy_command::{CopyCommand, CopyDirection, CopyOutcome};
use crate::slot::RuleBroken;
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_shm::Shared;
use m3ipc_sys::{CopySource, CopyTarget, Errno};
use std::os::fd::AsFd;

/// The requester's side of a bounce buffer.
#[derive(Debug)]
pub struct BounceBuffer<P = Shared> {
    page: P,
    /// The number of the last command.
    number: u32,
}

impl BounceBuffer {
    /// Maps a bounce buffer.
    ///
    /// # Errors
    /// Those of [`Shared::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::over(Shared::map(memory, BOUNCE_BUFFER_BYTES)?))
    }

    /// The half of a chunk, for the side that empties it.
    #[must_use]
    pub fn source(&self, chunk: u32, bytes: usize) -> CopySource<'_> {
        self.page.source(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }

    /// Fills the half of a chunk from own memory. Returns `false`, and copies nothing, if that
    /// memory may be unmapped: then the kernel copies into [`target`](Self::target).
    #[must_use]
    pub fn fill(&self, chunk: u32, from: &CopySource<'_>) -> bool {
        from.bytes() <= BOUNCE_HALF_BYTES && self.page.copy_in(half(chunk), from)
    }

    /// Empties the half of a chunk into own memory. Returns `false` as [`fill`](Self::fill).
    #[must_use]
    pub fn empty(&self, chunk: u32, into: &mut CopyTarget<'_>) -> bool {
        into.bytes() <= BOUNCE_HALF_BYTES && self.page.copy_out(half(chunk), into)
    }

    /// The half of a chunk, for the side that fills it.
    #[must_use]
    pub fn target(&self, chunk: u32, bytes: usize) -> CopyTarget<'_> {
        self.page.target(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }
}

impl<P: Page> BounceBuffer<P> {
    /// Copies the half of a chunk out, for the side that empties it.
    pub fn read(&self, chunk: u32, bytes: &mut [u8]) {
        read_half(&self.page, chunk, bytes);
    }

    /// Copies into the half of a chunk, from an offset on, for the side that fills it.
    pub fn write(&self, chunk: u32, offset: usize, bytes: &[u8]) {
        write_half(&self.page, chunk, offset, bytes);
    }

    /// The bounce buffer in this memory.
    pub fn over(page: P) -> Self {
        Self { page, number: 0 }
    }

    /// Posts a command. Afterwards, wake the party if it sleeps.
    pub fn post_command(&mut self, command: &CopyCommand) {
        self.number = self.number.wrapping_add(1).max(1);
        let direction = match command.direction {
            CopyDirection::Read => 1,
            CopyDirection::Write => 2,
        };
        self.publish(direction, command);
    }

    /// Withdraws the command. The party drops it at its next poll.
    pub fn withdraw(&mut self) {
        self.number = self.number.wrapping_add(1).max(1);
        self.publish(
            0,
            &CopyCommand { direction: CopyDirection::Read, space: 0, address: 0, bytes: 0 },
        );
    }

    fn publish(&self, direction: u32, command: &CopyCommand) {
        self.page.word32(DIRECTION).store(direction, Ordering::Relaxed);
        self.page.word64(SPACE).store(command.space, Ordering::Relaxed);
        self.page.word64(ADDRESS).store(command.address, Ordering::Relaxed);
        self.page.word64(BYTES).store(command.bytes, Ordering::Relaxed);
        self.page.word64(REQUESTER_PROGRESS).store(tagged(self.number, 0), Ordering::Relaxed);
        let number = self.page.word32(NUMBER);
        number.swap(self.number, Ordering::SeqCst); // pairs with `read_next`
        number.fence_after_update(); // pairs with the fence of `publish_mode`
    }

    /// Chunks that the party has filled or emptied; `own` is the count of this side.
    ///
    /// # Errors
    /// [`RuleBroken`] if the count is impossible.
    pub fn served(&self, direction: CopyDirection, own: u32) -> Result<u32, RuleBroken> {
        let word = self.page.word64(PARTY_PROGRESS).load(Ordering::Acquire);
        check_ahead(direction == CopyDirection::Read, count_of(word, self.number), own)
    }

    /// Publishes the count of this side. Afterwards, wake the party if it sleeps.
    pub fn advance(&self, count: u32) {
        let progress = self.page.word64(REQUESTER_PROGRESS);
        progress.swap(tagged(self.number, count), Ordering::SeqCst); // pairs with `asked`
        progress.fence_after_update(); // pairs with the fence of `publish_mode`
    }

    /// The outcome of the copy, after its end.
    #[must_use]
    pub fn outcome(&self) -> Option<CopyOutcome> {
        let word = self.page.word64(OUTCOME).load(Ordering::Acquire);
        let code = (count_of(word, self.number)).cast_signed();
        if code == 0 {
            return None;
        }
        let bytes = self.page.word64(DONE_BYTES).load(Ordering::Relaxed);
        Some(CopyOutcome { code: (code != SUCCESS).then_some(code), bytes })
    }

    /// The wake word of the requester.
    #[must_use]
    pub fn wake_word(&self) -> &P::Word32 {
        self.page.word32(WAKE_WORD)
    }

    /// Publishes whether the requester sleeps. Poll once more before the sleep.
    pub fn set_sleeping(&self, sleeps: bool) {
        let word = self.page.word32(REQUESTER_SLEEPS);
        word.swap(u32::from(sleeps), Ordering::SeqCst);
        word.fence_after_update(); // pairs with the fences of `advance` and `finish` of the party
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServedBounceBuffer;

    fn both() -> (BounceBuffer, ServedBounceBuffer) {
        let memory = m3ipc_sys::create_memory("m3-test", BOUNCE_BUFFER_BYTES as u64).unwrap();
        (BounceBuffer::map(&memory).unwrap(), ServedBounceBuffer::map(&memory).unwrap())
    }

    const COMMAND: CopyCommand =
        CopyCommand { direction: CopyDirection::Write, space: 0, address: 77, bytes: 200_000 };

    #[test]
    fn a_command_is_read_once_and_can_be_withdrawn() {
        let (mut requester, mut party) = both();
        assert!(!party.has_next());
        requester.post_command(&COMMAND);
        assert!(party.has_next());
        assert_eq!(party.read_next(), Some(COMMAND));
        assert!(!party.has_next());
        requester.withdraw();
        assert!(party.has_next());
        assert_eq!(party.read_next(), None);
    }

    #[test]
    fn counts_of_an_earlier_command_have_no_effect() {
        let (mut requester, mut party) = both();
        requester.post_command(&COMMAND);
        party.read_next();
        requester.advance(2);
        assert_eq!(party.asked(CopyDirection::Write, 0), Ok(2));
        party.advance(2);
        party.finish(CopyOutcome { code: None, bytes: 9 });
        assert_eq!(requester.served(CopyDirection::Write, 2), Ok(2));
        assert_eq!(requester.outcome(), Some(CopyOutcome { code: None, bytes: 9 }));
        requester.post_command(&COMMAND);
        assert_eq!(requester.served(CopyDirection::Write, 0), Ok(0));
        assert_eq!(requester.outcome(), None);
        party.read_next();
        assert_eq!(party.asked(CopyDirection::Write, 0), Ok(0));
    }

    #[test]
    fn a_side_too_far_ahead_breaks_the_rules() {
        let (mut requester, mut party) = both();
        requester.post_command(&COMMAND);
        party.read_next();
        requester.advance(3);
        assert_eq!(party.asked(CopyDirection::Write, 0), Err(RuleBroken));
        assert_eq!(party.asked(CopyDirection::Write, 4), Err(RuleBroken));
        party.advance(1);
        assert_eq!(requester.served(CopyDirection::Write, 0), Err(RuleBroken));
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
