//! Accepting a block: the checks that make a hand-over valid.

use super::{AreaMember, HeldBlock, OwnState, word_of};
use crate::claim::{Claim, ClaimState, Span, next_generation};
use crate::name::{BlockName, ClaimedBlockName};
use crate::ownership_trace::BlockStatus;
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, SPAN, UNIT_BYTES};
use m3ipc_abi::Address;

/// Why a block was not accepted. All but `Elsewhere` tell that the giver broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// No extent has that number, or the place it stands for lies outside its home's extents.
    #[error("block {0} does not lie in the area, or not where its home may allocate")]
    Outside(u32),
    /// Its content is said to be longer than what was allocated.
    #[error("block {number} has {capacity} bytes, and its content is said to have {bytes}")]
    TooLong {
        /// The block.
        number: u32,
        /// What the giver says.
        bytes: u64,
        /// What was allocated.
        capacity: u64,
    },
    /// The ledgers do not say that the giver gave it to this member.
    #[error("block {0} was not the sender's to give, or was given to another")]
    NotGiven(u32),
    /// Another living member claims it: it was given it as well, or says so falsely.
    #[error("block {number} is claimed by endpoint {by} as well")]
    Elsewhere {
        /// The block.
        number: u32,
        /// Who claims it.
        by: Address,
    },
    /// A shared block came as a given one, or the other way round.
    #[error("block {0} is not what the message says it is")]
    WrongKind(u32),
}

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Accepts a block that `from`, the member behind the link that the name came over, has given to this one.
    ///
    /// # Errors
    /// [`Refused`]; the block is whose it was.
    pub fn accept(&mut self, from: u16, name: &ClaimedBlockName) -> Result<HeldBlock, AcceptError> {
        let BlockName { number, generation, hop, bytes, shared, .. } = name.0;
        if shared {
            return Err(AcceptError::WrongKind(number));
        }
        let home = self.home(number)?;
        let span = self.checked_place(home, number, bytes)?;
        let given = BlockStatus::Pending { to: self.me, hop, from };
        if self.block_status(number, generation) != given {
            return Err(AcceptError::NotGiven(number));
        }
        let before = self.own.load(word_of(number, CLAIM));
        self.former = Some((number, before, generation));
        if home == self.me {
            return self.come_home(number, generation, bytes);
        }
        self.claim(number, ClaimState::Held, 0, hop, generation);
        m3ipc_sys::pause_point("server.block_claimed");
        self.own.fence(); // pairs with that of another who accepts it, of its home's sweep, of `take_back`
        let stands =
            self.block_status(number, generation) == BlockStatus::Held { by: self.me, hop };
        let elsewhere = self.claimer(number, generation);
        if !stands || elsewhere.is_some() {
            self.own.store(word_of(number, CLAIM), before);
            return Err(elsewhere.map_or(AcceptError::NotGiven(number), |by| {
                AcceptError::Elsewhere { number, by }
            }));
        }
        Ok(HeldBlock { number, generation, hop, home, span: span, bytes })
    }

    /// Whether a block that was accepted is still this member's alone: to be asked where
    /// members were learned of meanwhile. Where it is not, it is to be [released](Self::release).
    #[must_use]
    pub fn is_mine_alone(&self, held: &HeldBlock) -> bool {
        let stands = self.block_status(held.number, held.generation);
        stands == BlockStatus::Held { by: self.me, hop: held.hop }
            && self.claimer(held.number, held.generation).is_none()
    }

    /// Undoes the acceptance of the block that was accepted last: its message was withdrawn before it was taken,
    /// so it is its giver's, who looks for it. Any other block is [released](Self::release).
    pub fn refuse(&mut self, held: HeldBlock) {
        let Some((_, before, generation)) =
            self.former.take().filter(|former| former.0 == held.number)
        else {
            return self.release(held);
        };
        if held.home == self.me
            && let Some(block) = self.own_block(held.number)
        {
            block.generation = generation;
            block.state = OwnState::Out;
            self.out.push_back(held.number);
        }
        self.own.store(word_of(held.number, CLAIM), before);
    }

    /// A block of this home is back: under a new generation all claims of the way are void.
    fn come_home(
        &mut self,
        number: u32,
        generation: u32,
        bytes: u64,
    ) -> Result<HeldBlock, AcceptError> {
        let next = next_generation(generation);
        self.claim(number, ClaimState::Held, 0, 0, next);
        self.own.fence(); // pairs with that of `accept`
        let elsewhere = self.claimer(number, generation);
        if elsewhere.is_some() {
            self.claim(number, ClaimState::Free, 0, 0, next);
        }
        let (home, turn) = (self.me, self.turn);
        let block = self.own_block(number).ok_or(AcceptError::Outside(number))?;
        block.generation = next;
        if let Some(by) = elsewhere {
            block.state = OwnState::Void(turn);
            return Err(AcceptError::Elsewhere { number, by });
        }
        block.state = OwnState::Here;
        let span = block.span;
        self.out.retain(|out| *out != number);
        Ok(HeldBlock { number, generation: next, hop: 0, home, span: span, bytes })
    }

    pub(super) fn home(&self, number: u32) -> Result<u16, AcceptError> {
        self.plan
            .allocator_of(number)
            .filter(|_| number < self.numbers)
            .ok_or(AcceptError::Outside(number))
    }

    /// The place of a block by its home's ledger, if it lies in the home's extents and holds the content.
    pub(super) fn checked_place(
        &mut self,
        home: u16,
        number: u32,
        bytes: u64,
    ) -> Result<Span, AcceptError> {
        let span = self.place_at(home, number).ok_or(AcceptError::Outside(number))?;
        let capacity = u64::from(span.units) * UNIT_BYTES;
        if bytes > capacity {
            return Err(AcceptError::TooLong { number, bytes, capacity });
        }
        Ok(span)
    }

    pub(super) fn place_at(&mut self, home: u16, number: u32) -> Option<Span> {
        if home == self.me {
            return self.own_block(number).map(|block| block.span);
        }
        let span = Span::decode(self.word(home, word_of(number, SPAN))?);
        self.plan.contains(home, span).then_some(span)
    }

    /// A claim of this member, for those who look at it from outside.
    #[must_use]
    pub fn own_claim(&self, number: u32) -> Claim {
        Claim::decode(self.own.load(word_of(number, CLAIM)))
    }
}
