//! Sharing a block: its holder keeps it, others read it, and their count brings it back.

use super::{AcceptError, AreaMember, HeldBlock, SharedReading, word_of};
use crate::claim::{Claim, ClaimState};
use crate::name::{BlockName, ClaimedBlockName};
use crate::ownership_trace::BlockStatus;
use crate::words::{LedgerWords, OwnLedgerWords, READING};

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Lets others read a block: the name is to be sent to each of them.
    pub fn share(&mut self, held: &HeldBlock) -> BlockName {
        self.claim(held.number, ClaimState::Shared, 0, held.hop, held.generation);
        self.name(held, held.hop, true)
    }

    /// Begins to read a block that `from` shares.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn accept_shared(
        &mut self,
        from: u16,
        name: &ClaimedBlockName,
    ) -> Result<SharedReading, AcceptError> {
        let BlockName { number, generation, hop, bytes, shared, .. } = name.0;
        if !shared {
            return Err(AcceptError::WrongKind(number));
        }
        let home = self.home(number)?;
        let span = self.checked_place(home, number, bytes)?;
        let stands = BlockStatus::Shared { by: from, hop };
        if self.block_status(number, generation) != stands {
            return Err(AcceptError::NotGiven(number));
        }
        self.read_as(ClaimState::Reading, number, hop, generation);
        self.own.fence(); // pairs with that of `unshare` and of the home's sweep
        if self.block_status(number, generation) != stands {
            self.read_as(ClaimState::Done, number, hop, generation);
            return Err(AcceptError::NotGiven(number));
        }
        Ok(SharedReading { number, generation, hop, span, bytes })
    }

    /// Ends the reading of a block, whether it was begun or not wanted.
    pub fn finish(&mut self, reading: SharedReading) {
        self.read_as(ClaimState::Done, reading.number, reading.hop, reading.generation);
    }

    /// How many of these readers, to whom the name was sent and taken, are not done and live.
    #[must_use]
    pub fn readers_left(&self, held: &HeldBlock, readers: &[u16]) -> usize {
        let done =
            Claim { state: ClaimState::Done, other: 0, hop: held.hop, generation: held.generation }
                .encode();
        let reads = |reader: &&u16| {
            self.peer(**reader)
                .is_some_and(|peer| peer.lives && peer.load(word_of(held.number, READING)) != done)
        };
        readers.iter().filter(reads).count()
    }

    /// Takes a shared block back for oneself; false while somebody reads it.
    pub fn unshare(&mut self, held: &HeldBlock) -> bool {
        self.claim(held.number, ClaimState::Held, 0, held.hop, held.generation);
        self.own.fence(); // pairs with that of `accept_shared`
        let free = self.claimer(held.number, held.generation).is_none();
        if !free {
            self.claim(held.number, ClaimState::Shared, 0, held.hop, held.generation);
        }
        free
    }

    fn read_as(&self, state: ClaimState, number: u32, hop: u32, generation: u32) {
        let reading = Claim { state, other: 0, hop, generation };
        self.own.store(word_of(number, READING), reading.encode());
    }
}
