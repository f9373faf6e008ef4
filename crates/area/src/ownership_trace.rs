//! The ownership trace: finds the holder of a block in the ledgers of all members.
//!
//! The trace starts at the allocator member and follows GIVEN from member to member. A claim counts
//! only if it has the generation of the block, and a hop not below the hop at which its member got
//! the block. A claim with a lower hop is left from an earlier hand-over to the same member. So
//! hops rise along the trace, and the trace ends even while hostile members change their ledgers.

use crate::claim::{Claim, ClaimState};

/// The status of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStatus {
    /// Its allocator member has freed it, or allocated it anew.
    Gone,
    /// A member holds it.
    Held {
        /// The holder.
        by: u16,
        /// Its hop.
        hop: u32,
    },
    /// A member holds it, and others read it.
    Shared {
        /// The holder.
        by: u16,
        /// Its hop.
        hop: u32,
    },
    /// A member gave it to another member, which has not accepted it yet.
    Pending {
        /// The receiver.
        to: u16,
        /// Its hop.
        hop: u32,
        /// The giver.
        from: u16,
    },
    /// Its last holder returned it to its allocator member.
    Returned {
        /// The last holder.
        by: u16,
    },
    /// Its claims changed during the trace.
    Unclear,
}

/// The status of the block of this generation. `claim_of` returns the claim of a member, if it has
/// a ledger. The trace ends after at most `members` steps.
pub fn trace_owner(
    allocator: u16,
    generation: u32,
    members: usize,
    mut claim_of: impl FnMut(u16) -> Option<Claim>,
) -> BlockStatus {
    let (mut at, mut hop, mut from) = (allocator, 0, allocator);
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
    BlockStatus::Unclear
}

/// Whether these two words of a record claim to hold or read the block of this generation.
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

    fn status(claims: &[Claim]) -> BlockStatus {
        trace_owner(0, 1, claims.len(), |member| claims.get(usize::from(member)).copied())
    }

    #[test]
    fn the_last_member_of_the_chain_has_the_block() {
        use ClaimState::{Free, Given, Held, Returned};
        assert_eq!(status(&[claim(Held, 0, 0)]), BlockStatus::Held { by: 0, hop: 0 });
        let given = [claim(Given, 1, 0), claim(Free, 0, 0)];
        assert_eq!(status(&given), BlockStatus::Pending { to: 1, hop: 1, from: 0 });
        let held = [claim(Given, 1, 0), claim(Given, 2, 1), claim(Held, 0, 2)];
        assert_eq!(status(&held), BlockStatus::Held { by: 2, hop: 2 });
        let returned = [claim(Given, 1, 0), claim(Returned, 0, 1)];
        assert_eq!(status(&returned), BlockStatus::Returned { by: 1 });
    }

    #[test]
    fn only_the_latest_hand_over_to_a_member_counts() {
        use ClaimState::{Given, Held};
        // 0 gave to 1, 1 to 2, and 2 back to 1, which has not accepted yet: its claim has hop 1,
        // not 3.
        let back = [claim(Given, 1, 0), claim(Given, 2, 1), claim(Given, 1, 2)];
        assert_eq!(status(&back), BlockStatus::Pending { to: 1, hop: 3, from: 2 });
        let accepted = [claim(Given, 1, 0), claim(Held, 0, 3), claim(Given, 1, 2)];
        assert_eq!(status(&accepted), BlockStatus::Held { by: 1, hop: 3 });
    }

    #[test]
    fn a_trace_ends_over_any_ledgers() {
        let mut hop = 0;
        let forever = trace_owner(0, 1, 4, |member| {
            hop += 1;
            Some(claim(ClaimState::Given, 1 - member.min(1), hop))
        });
        assert_eq!(forever, BlockStatus::Unclear);
    }
}
