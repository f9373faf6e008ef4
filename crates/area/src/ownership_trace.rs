//! The walk: who holds a block, by the ledgers of all.
//!
//! It begins at the block's home and follows GIVEN from member to member. A
//! claim counts only where its generation is the block's and its hop is not
//! below that at which its writer was given the block: older ones are left over
//! from an earlier visit. So hops rise along the walk, each ledger counts at most
//! once, and a walk ends however the ledgers of hostile members change under it.

use crate::claim::{Claim, ClaimState};

/// How a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStatus {
    /// Its home has freed it, or allocated it anew.
    Gone,
    /// Somebody holds it.
    Held {
        /// Who.
        by: u16,
        /// At which hop.
        hop: u32,
    },
    /// Somebody holds it, and others read it.
    Shared {
        /// Who holds it.
        by: u16,
        /// At which hop.
        hop: u32,
    },
    /// It was given to somebody who has not accepted it yet.
    Pending {
        /// To whom.
        to: u16,
        /// At which hop.
        hop: u32,
        /// By whom.
        from: u16,
    },
    /// Its last holder gave it back to its home.
    Returned {
        /// Who that was.
        by: u16,
    },
}

/// How the block of this generation stands; `claim_of` gives a member's claim, where there is one.
/// Ends after at most `members` steps.
pub fn trace_owner(
    home: u16,
    generation: u32,
    members: usize,
    mut claim_of: impl FnMut(u16) -> Option<Claim>,
) -> BlockStatus {
    let (mut at, mut hop, mut from) = (home, 0, home);
    for step in 0..=members {
        let claim = claim_of(at).filter(|claim| {
            claim.generation == generation && claim.hop >= hop && claim.state != ClaimState::Free
        });
        let Some(claim) = claim else {
            return if step == 0 {
                BlockStatus::Gone
            } else {
                BlockStatus::Pending { to: at, hop, from }
            };
        };
        match claim.state {
            ClaimState::Held => return BlockStatus::Held { by: at, hop: claim.hop },
            ClaimState::Shared => return BlockStatus::Shared { by: at, hop: claim.hop },
            ClaimState::Returned => return BlockStatus::Returned { by: at },
            ClaimState::Given => {
                from = at;
                at = claim.other;
                hop = claim.hop + 1;
            }
            ClaimState::Free | ClaimState::Reading | ClaimState::Done => return BlockStatus::Gone,
        }
    }
    // Only words that change while they are read lead here.
    BlockStatus::Gone
}

/// Whether somebody says, in these two words of a record, that it holds or reads the block of this generation.
#[must_use]
pub fn is_claimed(claim: u64, reading: u64, generation: u32) -> bool {
    let claim = Claim::decode(claim);
    let reading = Claim::decode(reading);
    claim.generation == generation && matches!(claim.state, ClaimState::Held | ClaimState::Shared)
        || reading.generation == generation && reading.state == ClaimState::Reading
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(state: ClaimState, other: u16, hop: u32) -> Claim {
        Claim { state, other, hop, generation: 1 }
    }

    fn stands(claims: &[Claim]) -> BlockStatus {
        trace_owner(0, 1, claims.len(), |member| claims.get(usize::from(member)).copied())
    }

    #[test]
    fn a_block_is_with_the_last_of_its_chain() {
        use ClaimState::{Free, Given, Held, Returned};
        assert_eq!(stands(&[claim(Held, 0, 0)]), BlockStatus::Held { by: 0, hop: 0 });
        let given = [claim(Given, 1, 0), claim(Free, 0, 0)];
        assert_eq!(stands(&given), BlockStatus::Pending { to: 1, hop: 1, from: 0 });
        let held = [claim(Given, 1, 0), claim(Given, 2, 1), claim(Held, 0, 2)];
        assert_eq!(stands(&held), BlockStatus::Held { by: 2, hop: 2 });
        let returned = [claim(Given, 1, 0), claim(Returned, 0, 1)];
        assert_eq!(stands(&returned), BlockStatus::Returned { by: 1 });
    }

    #[test]
    fn a_later_visit_counts_and_an_earlier_one_does_not() {
        use ClaimState::{Given, Held};
        // 0 to 1 to 2 and back to 1, who has not accepted yet: its claim of hop 1 is not one of hop 3.
        let back = [claim(Given, 1, 0), claim(Given, 2, 1), claim(Given, 1, 2)];
        assert_eq!(stands(&back), BlockStatus::Pending { to: 1, hop: 3, from: 2 });
        let accepted = [claim(Given, 1, 0), claim(Held, 0, 3), claim(Given, 1, 2)];
        assert_eq!(stands(&accepted), BlockStatus::Held { by: 1, hop: 3 });
    }

    #[test]
    fn a_walk_ends_whatever_the_ledgers_say() {
        let mut hop = 0;
        let forever = trace_owner(0, 1, 4, |member| {
            hop += 1;
            Some(claim(ClaimState::Given, 1 - member.min(1), hop))
        });
        assert_eq!(forever, BlockStatus::Gone);
    }
}
