//! A block in an area that no process can write any more.

use super::block::{Block, Plain};
use core::fmt;
use m3ipc_shm::SealedRange;
use std::ops::Deref;

/// A block in a sealed area: a slice of items that no process can change.
///
/// [`Block::into_sealed`] makes it after the kernel has confirmed the seal. The example is at
/// [`Area::seal`](super::Area::seal).
pub struct SealedBlock<T: Plain = u8> {
    /// Before `block`, so that the range is released before the block is freed.
    range: SealedRange,
    block: Block<T>,
    len: usize,
}

impl<T: Plain> SealedBlock<T> {
    /// The number of the block in its area. The example is at [`Area::seal`](super::Area::seal).
    #[must_use]
    pub fn number(&self) -> u32 {
        self.block.number()
    }
}

impl<T: Plain> fmt::Debug for SealedBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedBlock")
            .field("area", &self.block.area())
            .field("number", &self.number())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T: Plain> Deref for SealedBlock<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // Blocks begin at multiples of 64 bytes, so the items are aligned.
        let bytes = self.range.as_slice().get(..self.len * size_of::<T>());
        bytes.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or(&[])
    }
}

impl<T: Plain> Block<T> {
    /// Turns the block into a slice if its area is [sealed](super::Area::seal). The example is at
    /// [`Area::seal`](super::Area::seal).
    ///
    /// # Errors
    /// The block, if a process can still write in the area.
    pub fn into_sealed(mut self) -> Result<SealedBlock<T>, Self> {
        let len = self.len();
        let Some(range) = self.take_range() else { return Err(self) };
        match range.into_sealed(&self.state().memory) {
            Ok(range) => Ok(SealedBlock { range, block: self, len }),
            Err((range, _errno)) => {
                self.restore_range(range);
                Err(self)
            }
        }
    }
}
