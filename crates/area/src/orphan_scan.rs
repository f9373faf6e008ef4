//! The orphan scan: an extent is orphaned if its allocator member is dead and no living member
//! holds or awaits a block of it.
//!
//! An orphaned extent stays orphaned: no member allocates in it, and only a holder hands a block
//! on. A hostile member may hide a block from one scan. So the node daemon scans all ledgers twice:
//! in between, it tells the members that the extents are gone. After a takeover it does not have
//! the ledgers; then each member scans once and reports.

use crate::claim::{Claim, ClaimState};
use crate::ownership_trace::{BlockStatus, trace_owner};
use crate::words::{CLAIM, READING};
use core::ops::Range;

/// The members of an area with their ledgers, as one process knows them.
pub trait LedgerSet {
    /// A word of the record of this block number in a member's ledger, if there is one.
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64>;
    /// Whether the member has neither left nor died.
    fn lives(&self, member: u16) -> bool;
    /// The living members that have a ledger.
    fn living(&self) -> impl Iterator<Item = u16>;
    /// The highest number of members.
    fn count(&self) -> usize;
}

/// Whether a living member holds or awaits one of these blocks of a dead allocator member.
pub fn is_in_use(ledgers: &impl LedgerSet, allocator: u16, mut numbers: Range<u32>) -> bool {
    numbers.any(|number| {
        let claim = |member: u16| ledgers.word(member, number, CLAIM).map(Claim::decode);
        // Any generation counts: the dead allocator member no longer says which one is valid.
        let claimed = ledgers.living().any(|member| {
            let reading = ledgers.word(member, number, READING).map(Claim::decode);
            claim(member)
                .is_some_and(|claim| matches!(claim.state, ClaimState::Held | ClaimState::Shared))
                || reading.is_some_and(|reading| reading.state == ClaimState::Reading)
        });
        let Some(own) = claim(allocator).filter(|own| own.state == ClaimState::Given) else {
            return claimed;
        };
        claimed
            || match trace_owner(allocator, own.generation, ledgers.count(), claim) {
                // A message from or to a dead member is never taken.
                BlockStatus::Pending { to, from, .. } => ledgers.lives(to) && ledgers.lives(from),
                BlockStatus::Held { by, .. } | BlockStatus::Shared { by, .. } => ledgers.lives(by),
                BlockStatus::Returned { .. } | BlockStatus::Gone => false,
                // It goes from member to member just now.
                BlockStatus::Unclear => true,
            }
    })
}
