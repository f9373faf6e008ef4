//! Access to the items of a block by copies.

use super::block::{Block, Plain, read_only};
use super::state::forked;
use crate::error::{AreaError, Fail};
use m3ipc_abi::Code;
use m3ipc_shm::{PeerMemory, PeerMemoryMut, RangeError};
use m3ipc_sys::{CopySource, CopyTarget};

/// The error of a block whose range is gone; the methods of a block never see it.
#[cold]
fn released() -> Fail {
    Fail::new(Code::Inval, "the block has been released")
}

impl From<RangeError> for Fail {
    #[cold]
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::ReadOnly => read_only(),
            RangeError::Forked => forked(),
            outside => Self::new(Code::MsgSize, outside.to_string()),
        }
    }
}

#[cold]
fn outside(index: usize, count: usize, items: usize) -> Fail {
    let why = format!(
        "{count} items from item {index} on do not fit into the {items} items of the block"
    );
    Fail::new(Code::MsgSize, why)
}

impl<T: Plain> Block<T> {
    /// The byte range of `count` items from `index` on, if the content has them.
    #[inline]
    fn offset(&self, index: usize, count: usize) -> Result<usize, Fail> {
        match index.checked_add(count) {
            Some(end) if end <= self.len() => Ok(index * size_of::<T>()),
            _ => Err(outside(index, count, self.len())),
        }
    }

    /// Copies items out of the block, from item `index` on. The example is at [`Block`].
    ///
    /// # Errors
    /// [`AreaError::BadSize`] if the block has fewer items there.
    #[inline]
    pub fn read_at(&self, index: usize, into: &mut [T]) -> Result<(), AreaError> {
        let offset = self.offset(index, into.len())?;
        let range = self.range().ok_or_else(released)?;
        Ok(range.read_at(offset, bytemuck::cast_slice_mut(into)).map_err(Fail::from)?)
    }

    /// Copies items into the block, from item `index` on. The example is at [`Block`].
    ///
    /// # Errors
    /// [`AreaError::BadSize`] if the block has fewer items there; [`AreaError::Denied`] if it may
    /// only be read here.
    #[inline]
    pub fn write_at(&mut self, index: usize, from: &[T]) -> Result<(), AreaError> {
        let offset = self.offset(index, from.len())?;
        let range = self.range_mut().ok_or_else(released)?;
        Ok(range.write_at(offset, bytemuck::cast_slice(from)).map_err(Fail::from)?)
    }

    /// Copies the first items of the block. The example is at [`Block`].
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn copy_to(&self, into: &mut [T]) -> Result<(), AreaError> {
        self.read_at(0, into)
    }

    /// Overwrites the first items of the block. The example is at [`Block`].
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn copy_from(&mut self, from: &[T]) -> Result<(), AreaError> {
        self.write_at(0, from)
    }

    /// A copy of item `index`. The example is at [`Block`].
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        let mut item = [T::zeroed()];
        self.read_at(index, &mut item).ok()?;
        Some(item[0])
    }

    /// Overwrites item `index`. The example is at [`Block`].
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set(&mut self, index: usize, item: T) -> Result<(), AreaError> {
        self.write_at(index, &[item])
    }

    /// A private copy of all items. The example is at [`Block`].
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        let mut items = vec![T::zeroed(); self.len()];
        // The lengths are equal, so the copy is whole.
        let copied = self.copy_to(&mut items);
        if copied.is_ok() { items } else { Vec::new() }
    }

    /// The first item, for reads by raw pointer. Null after a release.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// assert_eq!(block.as_ptr().addr() as u64, block.address());
    /// let start = block.as_mut_ptr().expect("the block may be written");
    /// assert_eq!(start.addr() as u64, block.address());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.range().map_or(core::ptr::null(), |range| range.as_ptr().cast())
    }

    /// The first item, for writes by raw pointer; `None` if the block may only be read here. The
    /// example is at [`as_ptr`](Self::as_ptr).
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> Option<*mut T> {
        Some(self.range_mut()?.as_mut_ptr()?.cast())
    }

    /// The content as the source of a copy by [`Endpoint::copy_source_to`], without a private copy.
    ///
    /// [`Endpoint::copy_source_to`]: crate::Endpoint::copy_source_to
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// assert_eq!(block.as_source().address(), block.address());
    /// assert_eq!(block.as_target()?.bytes(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn as_source(&self) -> CopySource<'_> {
        match self.range() {
            Some(range) if !self.has_huge_pages() => range.as_source(self.bytes()),
            _ => m3ipc_sys::lent_source(self.address(), self.bytes()),
        }
    }

    /// The content as the target of a copy by [`Endpoint::copy_into_target`]. The example is at
    /// [`as_source`](Self::as_source).
    ///
    /// # Errors
    /// [`AreaError::Denied`] if the block may only be read here.
    ///
    /// [`Endpoint::copy_into_target`]: crate::Endpoint::copy_into_target
    pub fn as_target(&mut self) -> Result<CopyTarget<'_>, AreaError> {
        if !self.is_writable() {
            return Err(read_only().into());
        }
        let bytes = self.bytes();
        if self.has_huge_pages() {
            return Ok(m3ipc_sys::lent_target(self.address(), bytes));
        }
        let range = self.range_mut().ok_or_else(released)?;
        Ok(range.as_target(bytes).ok_or_else(read_only)?)
    }

    /// The memory of the block, of its whole capacity, for callers that trust every member of the
    /// area: see its unsafe [`as_slice_trusting_peers`](PeerMemory::as_slice_trusting_peers).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// block.copy_from(b"bytes")?;
    /// let memory = block.memory().expect("the block is held");
    /// // SAFETY: no other process has attached the area.
    /// let bytes = unsafe { memory.as_slice_trusting_peers() };
    /// assert_eq!(&bytes[..5], b"bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> Option<PeerMemory<'_>> {
        self.range().map(PeerMemory::new)
    }

    /// The memory of the block, to be written, for callers that trust every member of the area: see
    /// its unsafe [`as_mut_slice_trusting_peers`](PeerMemoryMut::as_mut_slice_trusting_peers).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// let memory = block.memory_mut().expect("the block is held");
    /// // SAFETY: no other process has attached the area.
    /// let bytes = unsafe { memory.as_mut_slice_trusting_peers() }.expect("it may be written");
    /// bytes[..5].copy_from_slice(b"bytes");
    /// assert_eq!(block.to_vec(), b"bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory_mut(&mut self) -> Option<PeerMemoryMut<'_>> {
        self.range_mut().map(PeerMemoryMut::new)
    }
}
