//! Extents: the ranges of an area in which members allocate.

/// A range of an area in which one member allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// The index of the allocator member.
    pub allocator: u16,
    /// First byte, from the beginning of the area.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The first of its block numbers.
    pub first_number: u32,
    /// How many block numbers it has.
    pub numbers: u32,
    /// The generation of its block numbers at the beginning.
    pub generation: u32,
}
