//! Iteration over the items of a block by private copies.

use super::block::{Block, Plain};
use core::fmt;

/// Bytes of one private copy: they stay in the first-level cache.
const CHUNK_BYTES: usize = 4096;

/// Items of one private copy, at least one.
const fn chunk_items<T>() -> usize {
    let items = CHUNK_BYTES / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    if items == 0 { 1 } else { items }
}

/// Copies of the items of a block, in order. [`Block::iter`] makes it. The example is at
/// [`Block::iter`].
pub struct Items<'a, T: Plain> {
    block: &'a Block<T>,
    /// Index of the first item behind `chunk`.
    next: usize,
    chunk: Vec<T>,
    at: usize,
}

impl<T: Plain> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.len();
        f.debug_struct("Items").field("block", self.block).field("left", &left).finish()
    }
}

impl<T: Plain> Iterator for Items<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.at == self.chunk.len() {
            let count = chunk_items::<T>().min(self.block.len() - self.next);
            self.chunk.resize(count, T::zeroed());
            self.block.read_at(self.next, &mut self.chunk).ok()?;
            (self.next, self.at) = (self.next + count, 0);
        }
        let item = self.chunk.get(self.at).copied()?;
        self.at += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.block.len() - self.next + (self.chunk.len() - self.at);
        (left, Some(left))
    }
}

impl<T: Plain> ExactSizeIterator for Items<'_, T> {}

impl<'a, T: Plain> IntoIterator for &'a Block<T> {
    type Item = T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<T: Plain> Block<T> {
    /// Copies of the items, in order. One copy holds 4 KiB of items.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// # let mut block = client.allocate(&area, 80, BlockLifetime::Short)?.cast::<u64>().unwrap();
    /// block.fill(7)?;
    /// assert_eq!(block.iter().sum::<u64>(), 70);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> Items<'_, T> {
        Items { block: self, next: 0, chunk: Vec::new(), at: 0 }
    }

    /// Changes the items chunk by chunk. `change` gets a private copy of up to 4 KiB of items and
    /// the index of its first item; the block gets the copy back.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// # let mut block = client.allocate(&area, 80, BlockLifetime::Short)?.cast::<u64>().unwrap();
    /// block.fill(1)?;
    /// block.update(|first, items| items.iter_mut().for_each(|item| *item += first as u64))?;
    /// assert_eq!(block.get(9), Some(1), "the first copy holds all ten items");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AreaError::Denied`](crate::AreaError::Denied) if the block may only be read here.
    pub fn update(
        &mut self,
        mut change: impl FnMut(usize, &mut [T]),
    ) -> Result<(), crate::AreaError> {
        let mut chunk = vec![T::zeroed(); chunk_items::<T>().min(self.len())];
        let mut index = 0;
        while index < self.len() {
            let count = chunk.len().min(self.len() - index);
            let items = &mut chunk[..count];
            self.read_at(index, items)?;
            change(index, items);
            self.write_at(index, items)?;
            index += count;
        }
        Ok(())
    }

    /// Overwrites every item with `item`. The example is at [`iter`](Self::iter).
    ///
    /// # Errors
    /// [`AreaError::Denied`](crate::AreaError::Denied) if the block may only be read here.
    pub fn fill(&mut self, item: T) -> Result<(), crate::AreaError> {
        let chunk = vec![item; chunk_items::<T>().min(self.len())];
        // An empty write checks the right to write, for a block without items too.
        self.write_at(0, &[])?;
        let mut index = 0;
        while index < self.len() {
            let count = chunk.len().min(self.len() - index);
            self.write_at(index, &chunk[..count])?;
            index += count;
        }
        Ok(())
    }
}
