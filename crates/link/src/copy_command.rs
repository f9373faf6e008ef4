//! The command and the outcome of a served copy.

use crate::bounce_layout::BOUNCE_HALF_BYTES;

/// The direction of a served copy, as its party sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// Out of the party's memory, into the bounce buffer.
    Read,
    /// Out of the bounce buffer, into the party's memory.
    Write,
}

/// A copy that a party is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// The direction.
    pub direction: CopyDirection,
    /// 0 if `address` is an address, else the grant in which it is an offset.
    pub space: u64,
    /// Address in the party's memory, or offset in the grant.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl CopyCommand {
    /// Number of its chunks.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.bytes.div_ceil(BOUNCE_HALF_BYTES as u64)
    }

    /// Offset and length of a chunk, in bytes.
    #[must_use]
    pub fn chunk(&self, index: u32) -> (u64, usize) {
        let offset = u64::from(index) * BOUNCE_HALF_BYTES as u64;
        let left = self.bytes.saturating_sub(offset).min(BOUNCE_HALF_BYTES as u64);
        (offset, usize::try_from(left).unwrap_or(BOUNCE_HALF_BYTES))
    }
}

/// The end of a copy, as its party claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOutcome {
    /// The code, negative; `None` after a success.
    pub code: Option<i32>,
    /// Bytes that were certainly copied.
    pub bytes: u64,
}
