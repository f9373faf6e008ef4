//! Records of a ledger, word by word.
//!
//! ```text
//! claim, reading: | generation 24 | hop 20 | other 16 | state 4 |
//! place:          | offset 32           | capacity 32           |   in units of 64 bytes
//! ```
//!
//! | state | in the word | the ledger's owner says |
//! |---|---|---|
//! | FREE | claim | nothing (of a home: the block is not allocated) |
//! | HELD | claim | I hold it, at this hop |
//! | GIVEN | claim | I held it at this hop, and gave it to `other`, whose hop is the next |
//! | RETURNED | claim | I held it at this hop, and it is its home's again |
//! | SHARED | claim | I hold it at this hop, and others read it |
//! | READING | reading | I read what its holder at this hop shares |
//! | DONE | reading | I read it, and do no longer |

/// The highest hop: beyond it a block has to go home first.
pub(crate) const HOP_MAX: u32 = (1 << 20) - 1;
const GENERATION_MASK: u32 = (1 << 24) - 1;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClaimState {
    /// Nothing.
    Free = 0,
    /// I hold it.
    Held = 1,
    /// I gave it to another.
    Given = 2,
    /// I gave it back.
    Returned = 3,
    /// I hold it, and others read it.
    Shared = 4,
    /// I read it.
    Reading = 5,
    /// I have read it.
    Done = 6,
}

/// A claim or a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it says.
    pub state: ClaimState,
    /// To whom the block was given.
    pub other: u16,
    /// The how manieth hand since its home allocated it; the home's is 0.
    pub hop: u32,
    /// Which allocation of this number it is about.
    pub generation: u32,
}

impl Claim {
    /// The word.
    #[must_use]
    pub const fn encode(self) -> u64 {
        self.state as u64
            | (self.other as u64) << 4
            | ((self.hop & HOP_MAX) as u64) << 20
            | ((self.generation & GENERATION_MASK) as u64) << 40
    }

    /// What a word says; one that no rule makes says nothing.
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

/// The generation after this one.
pub(crate) const fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1) & GENERATION_MASK
}

/// Where a block lies, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From the beginning of the area.
    pub offset: u32,
    /// What was allocated.
    pub units: u32,
}

impl Span {
    /// The word.
    #[must_use]
    pub const fn encode(self) -> u64 {
        self.offset as u64 | (self.units as u64) << 32
    }

    /// What a word says.
    #[must_use]
    pub const fn decode(word: u64) -> Self {
        Self { offset: (word & 0xffff_ffff) as u32, units: (word >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_and_places_survive_their_encoding() {
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
    fn a_word_that_no_rule_makes_says_nothing() {
        assert_eq!(Claim::decode(u64::MAX).state, ClaimState::Free);
        assert_eq!(Claim::decode(7).state, ClaimState::Free);
    }
}
