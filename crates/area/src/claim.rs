//! The words of a record in a ledger.
//!
//! ```text
//! claim, reading: | generation 24 | hop 20 | other 16 | state 4 |      high bits first
//! span:           | units 32              | offset 32           |      in units of 64 bytes
//! ```
//!
//! | state | word | meaning for the member that owns the ledger |
//! |---|---|---|
//! | FREE | claim | no claim; in the allocator member's ledger: the block is not allocated |
//! | HELD | claim | the member holds the block, at this hop |
//! | GIVEN | claim | the member held it at this hop and gave it to `other`, at the next hop |
//! | RETURNED | claim | the member held it at this hop and returned it to its allocator member |
//! | SHARED | claim | the member holds it at this hop, and others read it |
//! | READING | reading | the member reads the block that its holder shares at this hop |
//! | DONE | reading | the member has finished reading |

/// The highest hop. At this hop, a block must return to its allocator member.
pub(crate) const HOP_MAX: u32 = (1 << 20) - 1;
pub(crate) const GENERATION_MASK: u32 = (1 << 24) - 1;

/// The state in a claim or reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClaimState {
    /// No claim.
    Free = 0,
    /// The member holds the block.
    Held = 1,
    /// The member gave the block to another member.
    Given = 2,
    /// The member returned the block to its allocator member.
    Returned = 3,
    /// The member holds the block, and others read it.
    Shared = 4,
    /// The member reads the block.
    Reading = 5,
    /// The member has finished reading the block.
    Done = 6,
}

/// A claim or a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The state.
    pub state: ClaimState,
    /// The member that the block was given to.
    pub other: u16,
    /// The number of hand-overs since the allocation; 0 for the allocator member.
    pub hop: u32,
    /// The generation of the block: which allocation of its number this is.
    pub generation: u32,
}

impl Claim {
    /// The word of this value.
    #[must_use]
    pub const fn encode(self) -> u64 {
        self.state as u64
            | (self.other as u64) << 4
            | ((self.hop & HOP_MAX) as u64) << 20
            | ((self.generation & GENERATION_MASK) as u64) << 40
    }

    /// The claim in a word. A word that no rule makes is `Free`.
    #[must_use]
    pub const fn decode(word: u64) -> Self {
        let state = match word & 0xf {
            1 => ClaimState::Held,
            2 => ClaimState::Given,
            3 => ClaimState::Returned,
            4 => ClaimState::Shared,
            5 => ClaimState::Reading,
            6 => ClaimState::Done,
            _ => ClaimState::Free,
        };
        Self {
            state,
            other: (word >> 4 & 0xffff) as u16,
            hop: (word >> 20 & 0xf_ffff) as u32,
            generation: (word >> 40) as u32,
        }
    }
}

/// The next generation.
pub(crate) const fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1) & GENERATION_MASK
}

/// The position of a block, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First unit, from the beginning of the area.
    pub offset: u32,
    /// Allocated units.
    pub units: u32,
}

impl Span {
    /// The word of this value.
    #[must_use]
    pub const fn encode(self) -> u64 {
        self.offset as u64 | (self.units as u64) << 32
    }

    /// The span in a word.
    #[must_use]
    pub const fn decode(word: u64) -> Self {
        Self { offset: (word & 0xffff_ffff) as u32, units: (word >> 32) as u32 }
    }
}

/// The generation before this one.
pub(crate) const fn former_generation(generation: u32) -> u32 {
    generation.wrapping_sub(1) & GENERATION_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_and_spans_survive_their_encoding() {
        use ClaimState::{Done, Free, Given, Held, Reading, Returned, Shared};
        for state in [Free, Held, Given, Returned, Shared, Reading, Done] {
            for (other, hop, generation) in
                [(0, 0, 0), (1, 2, 3), (u16::MAX, HOP_MAX, GENERATION_MASK)]
            {
                let claim = Claim { state, other, hop, generation };
                assert_eq!(Claim::decode(claim.encode()), claim);
            }
        }
        let span = Span { offset: u32::MAX, units: 7 };
        assert_eq!(Span::decode(span.encode()), span);
    }

    #[test]
    fn a_word_that_no_rule_makes_is_no_claim() {
        assert_eq!(Claim::decode(u64::MAX).state, ClaimState::Free);
        assert_eq!(Claim::decode(7).state, ClaimState::Free);
    }
}
