//! The party's side of a bounce buffer. [`crate::bounce_buffer`] has the rules.

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

/// The party's side of a bounce buffer.
#[derive(Debug)]
pub struct ServedBounceBuffer<P = Shared> {
    page: P,
    /// The number of the last read command.
    number: u32,
}

impl ServedBounceBuffer {
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

    /// The half of a chunk, for the side that fills it.
    #[must_use]
    pub fn target(&self, chunk: u32, bytes: usize) -> CopyTarget<'_> {
        self.page.target(half(chunk), bytes.min(BOUNCE_HALF_BYTES))
    }
}

impl<P: Page> ServedBounceBuffer<P> {
    /// The bounce buffer in this memory.
    pub fn over(page: P) -> Self {
        Self { page, number: 0 }
    }

    /// Copies the half of a chunk out, for the side that empties it.
    pub fn read(&self, chunk: u32, bytes: &mut [u8]) {
        read_half(&self.page, chunk, bytes);
    }

    /// Copies into the half of a chunk, from an offset on, for the side that fills it.
    pub fn write(&self, chunk: u32, offset: usize, bytes: &[u8]) {
        write_half(&self.page, chunk, offset, bytes);
    }

    /// Whether there is a command that was not read yet. Costs one load.
    #[must_use]
    #[inline]
    pub fn has_next(&self) -> bool {
        self.page.word32(NUMBER).load(Ordering::SeqCst) != self.number
    }

    /// Reads the next command once. `None` if the requester withdrew the former command, or if the
    /// words are no command.
    pub fn read_next(&mut self) -> Option<CopyCommand> {
        // Pairs with `publish` of the requester.
        self.number = self.page.word32(NUMBER).load(Ordering::SeqCst);
        let direction = match self.page.word32(DIRECTION).load(Ordering::Relaxed) {
            1 => CopyDirection::Read,
            2 => CopyDirection::Write,
            _ => return None,
        };
        Some(CopyCommand {
            direction,
            space: self.page.word64(SPACE).load(Ordering::Relaxed),
            address: self.page.word64(ADDRESS).load(Ordering::Relaxed),
            bytes: self.page.word64(BYTES).load(Ordering::Relaxed),
        })
    }

    /// Chunks that the requester has filled or emptied; `own` is the count of this side.
    ///
    /// # Errors
    /// [`RuleBroken`] if the count is impossible.
    pub fn asked(&self, direction: CopyDirection, own: u32) -> Result<u32, RuleBroken> {
        let word = self.page.word64(REQUESTER_PROGRESS).load(Ordering::SeqCst);
        check_ahead(direction == CopyDirection::Write, count_of(word, self.number), own)
    }

    /// Publishes the count of this side, and wakes the requester if it sleeps.
    pub fn advance(&self, count: u32) {
        let progress = self.page.word64(PARTY_PROGRESS);
        progress.swap(tagged(self.number, count), Ordering::SeqCst); // pairs with `served`
        progress.fence_after_update(); // pairs with the fence of `set_sleeping`
        self.wake();
    }

    /// Publishes the outcome of the copy, and wakes the requester if it sleeps.
    pub fn finish(&self, outcome: CopyOutcome) {
        self.page.word64(DONE_BYTES).store(outcome.bytes, Ordering::Relaxed);
        let code = outcome.code.unwrap_or(SUCCESS).cast_unsigned();
        let word = self.page.word64(OUTCOME);
        word.swap(tagged(self.number, code), Ordering::SeqCst); // pairs with `outcome`
        word.fence_after_update(); // pairs with the fence of `set_sleeping`
        self.wake();
    }

    fn wake(&self) {
        if self.page.word32(REQUESTER_SLEEPS).load(Ordering::SeqCst) != 0 {
            let word = self.page.word32(WAKE_WORD);
            word.bump();
            self.page.wake(word);
        }
    }
}
