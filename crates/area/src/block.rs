//! Blocks that a member holds or reads.

use crate::claim::Span;
use crate::words::UNIT_BYTES;

/// A block that this member holds. Give it, release it or keep it; do not drop it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "give it, or release it"]
pub struct HeldBlock {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) hop: u32,
    /// The index of the allocator member.
    pub(crate) allocator: u16,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

/// A block that this member reads while another member holds it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "finish the reading"]
pub struct SharedReading {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) hop: u32,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

/// A block that its giver took back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "keep or release the block"]
pub struct ReturnedBlock {
    pub(crate) held: HeldBlock,
    /// The member that did not get it.
    pub(crate) receiver: u16,
}

impl ReturnedBlock {
    /// The block.
    pub fn into_held(self) -> HeldBlock {
        self.held
    }
}

macro_rules! block_accessors {
    ($($name:ident)*) => {$(
        impl $name {
            /// Its first byte, from the beginning of the area.
            #[must_use]
            pub fn offset(&self) -> u64 {
                u64::from(self.span.offset) * UNIT_BYTES
            }

            /// The length of its content in bytes.
            #[must_use]
            pub fn bytes(&self) -> u64 {
                self.bytes
            }

            /// Its allocated length in bytes.
            #[must_use]
            pub fn capacity(&self) -> u64 {
                u64::from(self.span.units) * UNIT_BYTES
            }

            /// Its number in the area.
            #[must_use]
            pub fn number(&self) -> u32 {
                self.number
            }
        }
    )*};
}
block_accessors!(HeldBlock SharedReading);

/// Block number, generation and hop.
pub(crate) type ReadingKey = (u32, u32, u32);

impl SharedReading {
    pub(crate) fn key(&self) -> ReadingKey {
        (self.number, self.generation, self.hop)
    }
}

impl HeldBlock {
    /// Sets the length of its content. Returns `false` if that is longer than the capacity.
    pub fn set_bytes(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.capacity();
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// The number of hand-overs since its allocation.
    #[must_use]
    pub fn hop(&self) -> u32 {
        self.hop
    }
}
