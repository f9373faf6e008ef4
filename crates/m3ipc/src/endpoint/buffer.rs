//! Where the payload of an incoming message goes.

use crate::area::Block;
use m3ipc_abi::LONG_MAX_BYTES;

/// The caller's memory for an incoming payload.
#[derive(Debug)]
pub(super) enum Buffer<'a> {
    /// Memory of fixed length: a longer payload is cut, and its full length reported.
    Slice(&'a mut [u8]),
    /// Memory that grows to the length of the payload.
    Vec(&'a mut Vec<u8>),
}

impl Buffer<'_> {
    /// No memory.
    pub(super) const fn none() -> Self {
        Self::Slice(&mut [])
    }

    /// Memory for the payload in the slot. Most messages have none, and need no allocation.
    #[inline]
    pub(super) fn for_link(&mut self, claimed_bytes: usize) -> &mut [u8] {
        match self {
            Self::Slice(slice) => slice,
            Self::Vec(vec) => {
                vec.resize(claimed_bytes.min(LONG_MAX_BYTES), 0);
                vec
            }
        }
    }

    /// Whether the `bytes` bytes that the link took are what the slot claimed before.
    #[inline]
    pub(super) fn is_filled(&self, bytes: usize) -> bool {
        match self {
            Self::Slice(_) => true,
            Self::Vec(vec) => vec.len() == bytes,
        }
    }

    /// Copies the payload out of the block that carries it. Returns the number of copied bytes.
    pub(super) fn copy_block(&mut self, block: &Block) -> usize {
        let bytes = match self {
            Self::Slice(slice) => block.len().min(slice.len()),
            Self::Vec(vec) => {
                vec.clear();
                vec.resize(block.len(), 0);
                block.len()
            }
        };
        let into = match self {
            Self::Slice(slice) => &mut slice[..bytes],
            Self::Vec(vec) => &mut vec[..],
        };
        // The length was taken from the block, which keeps it while it is borrowed.
        if block.copy_to(into).is_ok() { bytes } else { 0 }
    }
}
