//! Whether an extent is deserted: its home is dead, and nobody living has or awaits a block of it.
//!
//! That never changes any more once it is so: nobody allocates there, and a block changes hands
//! only by one who has it. So the node daemon may ask it once, of the ledgers, or all
//! members one after the other.

use crate::claim::{Claim, ClaimState};
use crate::ownership_trace::{BlockStatus, trace_owner};
use crate::words::{CLAIM, READING};
use core::ops::Range;

/// The members of an area, as somebody knows them, with their ledgers.
pub trait LedgerSet {
    /// A word of the record of this number in a member's ledger, where there is one.
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64>;
    /// Whether it has neither left nor died.
    fn lives(&self, member: u16) -> bool;
    /// Those who live, and have a ledger.
    fn living(&self) -> impl Iterator<Item = u16>;
    /// How many members there are at most.
    fn count(&self) -> usize;
}

/// Whether somebody living has or awaits one of these blocks of a dead home.
pub fn is_in_use(ledgers: &impl LedgerSet, home: u16, mut numbers: Range<u32>) -> bool {
    numbers.any(|number| {
        let claim = |member: u16| ledgers.word(member, number, CLAIM).map(Claim::decode);
        // Whatever the generation: the home says no more which one counts.
        let claimed = ledgers.living().any(|member| {
            let reading = ledgers.word(member, number, READING).map(Claim::decode);
            claim(member)
                .is_some_and(|claim| matches!(claim.state, ClaimState::Held | ClaimState::Shared))
                || reading.is_some_and(|reading| reading.state == ClaimState::Reading)
        });
        let Some(own) = claim(home).filter(|own| own.state == ClaimState::Given) else {
            return claimed;
        };
        claimed
            || match trace_owner(home, own.generation, ledgers.count(), claim) {
                // Nobody takes a message of a dead one.
                BlockStatus::Pending { to, from, .. } => ledgers.lives(to) && ledgers.lives(from),
                BlockStatus::Held { by, .. } | BlockStatus::Shared { by, .. } => ledgers.lives(by),
                BlockStatus::Returned { .. } | BlockStatus::Gone => false,
            }
    })
}
