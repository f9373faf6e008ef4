//! Sharing a block: its holder keeps it, others read it, and their count brings it back.

use super::{Held, Reading, Refused, Side, word_of};
use crate::claim::{Claim, State};
use crate::name::{ClaimedName, Name};
use crate::walk::Standing;
use crate::words::{OwnWords, READING, Words};

impl<O: OwnWords, P: Words> Side<O, P> {
    /// Lets others read a block: the name is to be sent to each of them.
    pub fn share(&mut self, held: &Held) -> Name {
        self.claim(held.number, State::Shared, 0, held.hop, held.generation);
        self.name(held, held.hop, true)
    }

    /// Begins to read a block that `from` shares.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn accept_shared(&mut self, from: u16, name: &ClaimedName) -> Result<Reading, Refused> {
        let Name { number, generation, hop, bytes, shared, .. } = name.0;
        if !shared {
            return Err(Refused::OtherWay(number));
        }
        let home = self.home(number)?;
        let place = self.checked_place(home, number, bytes)?;
        let stands = Standing::Shared { by: from, hop };
        if self.standing(number, generation) != stands {
            return Err(Refused::NotGiven(number));
        }
        self.read_as(State::Reading, number, hop, generation);
        self.own.fence(); // pairs with that of `unshare` and of the home's sweep
        if self.standing(number, generation) != stands {
            self.read_as(State::Done, number, hop, generation);
            return Err(Refused::NotGiven(number));
        }
        Ok(Reading { number, generation, hop, place, bytes })
    }

    /// Ends the reading of a block, whether it was begun or not wanted.
    pub fn finish(&mut self, reading: Reading) {
        self.read_as(State::Done, reading.number, reading.hop, reading.generation);
    }

    /// How many of these readers, to whom the name was sent and taken, are not done and live.
    #[must_use]
    pub fn readers_left(&self, held: &Held, readers: &[u16]) -> usize {
        let done =
            Claim { state: State::Done, other: 0, hop: held.hop, generation: held.generation }
                .encode();
        let reads = |reader: &&u16| {
            self.peer(**reader)
                .is_some_and(|peer| peer.lives && peer.load(word_of(held.number, READING)) != done)
        };
        readers.iter().filter(reads).count()
    }

    /// Takes a shared block back for oneself; false while somebody reads it.
    pub fn unshare(&mut self, held: &Held) -> bool {
        self.claim(held.number, State::Held, 0, held.hop, held.generation);
        self.own.fence(); // pairs with that of `accept_shared`
        let free = self.claimer(held.number, held.generation).is_none();
        if !free {
            self.claim(held.number, State::Shared, 0, held.hop, held.generation);
        }
        free
    }

    fn read_as(&self, state: State, number: u32, hop: u32, generation: u32) {
        let reading = Claim { state, other: 0, hop, generation };
        self.own.store(word_of(number, READING), reading.encode());
    }
}
