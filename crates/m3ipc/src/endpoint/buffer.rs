//! Where the payload of an incoming message goes.

use crate::area::Block;
use crate::error::Fail;
use m3ipc_abi::{Code, LONG_MAX_BYTES};

/// The caller's memory for an incoming payload. A longer payload is cut, and its full length
/// reported.
#[derive(Debug)]
pub enum Buffer<'a> {
    /// Memory of fixed length.
    Slice(&'a mut [u8]),
    /// Memory that grows with the payload, up to so many bytes. Not below
    /// [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES).
    UpTo(&'a mut Vec<u8>, usize),
}

impl<'a> Buffer<'a> {
    /// No memory.
    #[must_use]
    pub const fn none() -> Self {
        Self::Slice(&mut [])
    }

    /// Memory that grows with any payload.
    pub(super) fn of(bytes: &'a mut Vec<u8>) -> Self {
        Self::UpTo(bytes, usize::MAX)
    }

    /// The front of a taken payload of so many bytes: as much of it as the memory holds.
    #[must_use]
    pub fn front(&self, bytes: usize) -> &[u8] {
        let all = match self {
            Self::Slice(slice) => &**slice,
            Self::UpTo(vec, _) => vec.as_slice(),
        };
        &all[..bytes.min(all.len())]
    }

    /// Memory for the payload in the slot. Most messages have none, and need no allocation.
    #[inline]
    pub(super) fn for_link(&mut self, claimed_bytes: usize) -> &mut [u8] {
        match self {
            Self::Slice(slice) => slice,
            Self::UpTo(vec, _) => {
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
            Self::UpTo(vec, _) => vec.len() == bytes,
        }
    }

    /// Makes room for a payload of `bytes` bytes, before its message is taken.
    ///
    /// # Errors
    /// -12: this process has no memory for it.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<(), Fail> {
        let Self::UpTo(vec, most) = self else { return Ok(()) };
        vec.clear();
        vec.try_reserve_exact(bytes.min(*most)).map_err(|_full| {
            Fail::new(Code::NoMem, format!("there is no memory for a payload of {bytes} bytes"))
        })
    }

    /// Copies the payload out of the block that carries it. Returns the number of copied bytes: 0
    /// without the [room](Self::make_room).
    pub(super) fn copy_block(&mut self, block: &Block) -> usize {
        if self.make_room(block.len()).is_err() {
            return 0;
        }
        let into = match self {
            Self::Slice(slice) => {
                let bytes = block.len().min(slice.len());
                &mut slice[..bytes]
            }
            Self::UpTo(vec, most) => {
                vec.resize(block.len().min(*most), 0);
                &mut vec[..]
            }
        };
        // The length was taken from the block, which keeps it while it is borrowed.
        if block.copy_to(into).is_ok() { into.len() } else { 0 }
    }
}
