//! The block: an owned piece of an area.
// A block that was not sent comes back by value.
#![allow(clippy::result_large_err)]

use super::state::{AreaState, Member};
use crate::error::{AreaError, ErrorNumber, Fail};
use core::fmt;
use m3ipc_abi::Code;
use m3ipc_area::{BlockName, HeldBlock, SharedReading};
use m3ipc_shm::LeasedRange;
use std::marker::PhantomData;
use std::sync::Arc;

/// Plain data: every bit pattern is a value, and there is no padding. Blocks and records hold it.
pub use bytemuck::Pod as Plain;

type Give = fn(&mut Member, HeldBlock, u16) -> Result<BlockName, HeldBlock>;

/// The ledger entry by which this endpoint has the block.
enum Entry {
    Held(HeldBlock),
    Reading(SharedReading),
}

/// An owned piece of an area, at the same address in every process.
///
/// A [send](crate::Endpoint::send_block) moves the block to another endpoint without a copy of its
/// bytes. A drop frees it, whichever endpoint allocated it.
///
/// Every member of the area that breaks the rules can write the bytes at any time. So the methods
/// copy items in and out, and a copy may mix old and new bytes. Check the copy, then use the copy.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (server, mut client) = node.pair();
/// use m3ipc::{AreaConfig, BlockLifetime};
///
/// let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
/// let mut block = client.allocate(&area, 12, BlockLifetime::Short)?;
/// block.copy_from(b"hello, block")?;
/// assert_eq!(block.to_vec(), b"hello, block");
/// block.set(0, b'H')?;
/// block.write_at(7, b"world")?;
/// assert_eq!(block.get(0), Some(b'H'));
/// let (mut first, mut last) = ([0; 5], [0; 5]);
/// block.copy_to(&mut first)?;
/// block.read_at(7, &mut last)?;
/// assert_eq!((&first, &last), (b"Hello", b"world"));
/// block.set_bytes(5)?;
/// assert_eq!((block.len(), block.bytes(), block.is_empty()), (5, 5, false));
/// assert!(block.is_writable() && block.capacity_bytes() >= 12);
/// assert_eq!(block.area(), area.id());
/// println!("block {} lies at {:#x}", block.number(), block.address());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A slice of the block would be unsound, so there is none:
///
/// ```compile_fail,E0308
/// fn text(block: &m3ipc::Block) -> &str {
///     std::str::from_utf8(block).unwrap()
/// }
/// ```
///
/// ```compile_fail,E0608
/// fn items(block: &m3ipc::Block<u32>) -> &[u32] {
///     &block[..]
/// }
/// ```
pub struct Block<T: Plain = u8> {
    area: Arc<AreaState>,
    entry: Option<Entry>,
    range: Option<LeasedRange>,
    /// The members that may read the block.
    readers: Vec<u16>,
    of: PhantomData<T>,
}

/// A block that was not sent, with the reason.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (server, mut client) = node.pair();
/// # let to = server.address();
/// use m3ipc::{AreaConfig, BlockLifetime, Message, SendError, Timeout};
///
/// let area = client.create_area(&AreaConfig::pair(1 << 20, to))?;
/// let block = client.allocate(&area, 5, BlockLifetime::Short)?;
/// // The server does not receive now.
/// let unsent = client.send_block(to, &Message::new(7), block, Timeout::NoWait).unwrap_err();
/// assert!(matches!(unsent.error, SendError::WouldBlock(_)));
/// assert_eq!(unsent.block.expect("it came back").len(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Unsent<E: std::error::Error> {
    /// The reason.
    pub error: E,
    /// The block. `None` if the receiver has it all the same, or its allocator member died.
    pub block: Option<Block>,
}

/// Where the block is and how long its content is, without the content.
impl<T: Plain> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("area", &self.area.info.area)
            .field("number", &self.number())
            .field("bytes", &self.bytes())
            .field("is_writable", &self.is_writable())
            .finish_non_exhaustive()
    }
}

/// The number of the error, the error, and the block without its content.
impl<E: ErrorNumber> fmt::Debug for Unsent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent")
            .field("number", &self.error.number())
            .field("error", &self.error)
            .field("block", &self.block)
            .finish()
    }
}

impl Block {
    pub(crate) fn of_held(area: &Arc<AreaState>, held: HeldBlock) -> Result<Self, Fail> {
        let range = (held.offset(), held.capacity());
        match area.lease(range, true, || overlaps(held.number())) {
            Ok(range) => Ok(Self::new(area, Entry::Held(held), range)),
            Err(fail) => {
                area.member().release(held);
                Err(fail)
            }
        }
    }

    pub(crate) fn of_reading(area: &Arc<AreaState>, reading: SharedReading) -> Result<Self, Fail> {
        let range = (reading.offset(), reading.capacity());
        match area.lease(range, false, || overlaps(reading.number())) {
            Ok(range) => Ok(Self::new(area, Entry::Reading(reading), range)),
            Err(fail) => {
                area.member().finish(reading);
                Err(fail)
            }
        }
    }

    fn new(area: &Arc<AreaState>, entry: Entry, range: LeasedRange) -> Self {
        let area = Arc::clone(area);
        Self { area, entry: Some(entry), range: Some(range), readers: Vec::new(), of: PhantomData }
    }
}

fn overlaps(number: u32) -> Fail {
    let why = format!("block {number} overlaps another block of this process; its sender is wrong");
    Fail::new(Code::PeerBroke, why)
}

pub(super) fn read_only() -> Fail {
    let why = "the block may only be read here: it is shared, or only its owner writes in the area";
    Fail::new(Code::Perm, why)
}

impl<T: Plain> Block<T> {
    /// The number of its area. The example is at [`Block`].
    #[must_use]
    pub fn area(&self) -> u32 {
        self.area.info.area
    }

    /// Its number in the area. The example is at [`Block`].
    #[must_use]
    pub fn number(&self) -> u32 {
        match &self.entry {
            Some(Entry::Held(held)) => held.number(),
            Some(Entry::Reading(reading)) => reading.number(),
            None => u32::MAX,
        }
    }

    /// Its address, the same in every process that has the area. The example is at [`Block`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.start().as_ptr().addr() as u64)
    }

    /// The allocated size in bytes. The example is at [`Block`].
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.bytes() as u64)
    }

    /// The length of the content in bytes: at most the capacity. The example is at [`Block`].
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        let bytes = match &self.entry {
            Some(Entry::Held(held)) => held.bytes(),
            Some(Entry::Reading(reading)) => reading.bytes(),
            None => 0,
        };
        // The name of a block is a claim of its sender: never more than what is mapped.
        let capacity = self.range.as_ref().map_or(0, LeasedRange::bytes);
        usize::try_from(bytes).unwrap_or(0).min(capacity)
    }

    /// The number of whole items. The example is at [`Block`].
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes().checked_div(size_of::<T>()).unwrap_or(0)
    }

    /// Whether the block has no whole item. The example is at [`Block`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this endpoint may write the block. The example is at [`Block`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.range.as_ref().is_some_and(LeasedRange::is_writable)
    }

    /// Whether an access may fail, because the pool of huge pages is empty. The kernel copies then.
    pub(super) fn has_huge_pages(&self) -> bool {
        self.area.info.huge
    }

    /// The memory of the block; `None` after a release.
    #[inline]
    pub(super) fn range(&self) -> Option<&LeasedRange> {
        self.range.as_ref()
    }

    #[inline]
    pub(super) fn range_mut(&mut self) -> Option<&mut LeasedRange> {
        self.range.as_mut()
    }

    /// Takes the range out, to be sealed. The block is empty meanwhile.
    pub(super) fn take_range(&mut self) -> Option<LeasedRange> {
        self.range.take()
    }

    /// Puts the range back.
    pub(super) fn restore_range(&mut self, range: LeasedRange) {
        self.range = Some(range);
    }

    /// Sets the length of the content in bytes: at most the capacity. The example is at [`Block`].
    ///
    /// # Errors
    /// [`AreaError::BadSize`] if that is longer, [`AreaError::Denied`] if the block may only be
    /// read here.
    pub fn set_bytes(&mut self, bytes: u64) -> Result<(), AreaError> {
        match &mut self.entry {
            Some(Entry::Held(held)) => {
                if held.set_bytes(bytes) {
                    return Ok(());
                }
                let why =
                    format!("{bytes} bytes do not fit into the {} of the block", held.capacity());
                Err(Fail::new(Code::MsgSize, why).into())
            }
            _ => Err(read_only().into()),
        }
    }

    /// The same block with items of another type.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let block = client.allocate(&area, 12, BlockLifetime::Short)?;
    /// let block = block.cast::<u64>().expect_err("12 bytes are no whole number of u64");
    /// assert_eq!(block.cast::<u32>().map_err(drop).unwrap().len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The block, if its length is no multiple of their size.
    pub fn cast<U: Plain>(mut self) -> Result<Block<U>, Self> {
        let size = size_of::<U>();
        // Blocks begin at multiples of 64 bytes.
        if size == 0 || !self.bytes().is_multiple_of(size) || align_of::<U>() > 64 {
            return Err(self);
        }
        Ok(self.retyped())
    }

    fn retyped<U: Plain>(&mut self) -> Block<U> {
        Block {
            area: Arc::clone(&self.area),
            entry: self.entry.take(),
            range: self.range.take(),
            readers: std::mem::take(&mut self.readers),
            of: PhantomData,
        }
    }

    /// The endpoints that still read the shared block. The example is at
    /// [`Endpoint::share_block`](crate::Endpoint::share_block).
    #[must_use]
    pub fn readers_left(&self) -> usize {
        match &self.entry {
            Some(Entry::Held(held)) => {
                self.area.look(|member| member.readers_left(held, &self.readers))
            }
            _ => 0,
        }
    }

    pub(crate) fn state(&self) -> &Arc<AreaState> {
        &self.area
    }

    /// The block as bytes, whatever its items.
    pub(crate) fn into_bytes(mut self) -> Block {
        self.retyped()
    }

    /// Releases the memory and gives the block to a member.
    pub(crate) fn give(self, to: u16) -> Result<BlockName, (Block, Fail)> {
        self.give_by(to, false, Member::give)
    }

    /// The same with the message of a call, which may take the block back. With `forbid` this
    /// process can no longer access the memory.
    pub(crate) fn give_in_call(self, to: u16, forbid: bool) -> Result<BlockName, (Block, Fail)> {
        self.give_by(to, forbid, Member::give_in_call)
    }

    fn give_by(mut self, to: u16, forbid: bool, give: Give) -> Result<BlockName, (Block, Fail)> {
        if !self.readers.is_empty() {
            let why = "the block is shared; reclaim it when every reader has dropped it";
            return Err((self.retyped(), Fail::new(Code::Busy, why)));
        }
        let held = match self.entry.take() {
            Some(Entry::Held(held)) => held,
            other => {
                self.entry = other;
                let why = "the block may only be read here, so it cannot be given away";
                return Err((self.retyped(), Fail::new(Code::Perm, why)));
            }
        };
        let protected = match self.range.take() {
            Some(range) if forbid => range.protect(),
            // The lease ends before the give: the new owner may be in this process.
            other => {
                drop(other);
                Ok(())
            }
        };
        if let Err((range, errno)) = protected {
            (self.range, self.entry) = (Some(range), Some(Entry::Held(held)));
            let why = format!("the view cannot be removed: {errno}; use allocate_pages");
            return Err((self.retyped(), Fail::new(Code::Align, why)));
        }
        // A statement of its own: the guard ends before the failed branch locks again.
        let given = give(&mut self.area.member(), held, to);
        given.map_err(|held| {
            self.range = self.area.region.lease(held.offset(), held.capacity(), true);
            self.entry = Some(Entry::Held(held));
            let why = "the block changed hands too often; send it to the member that allocated it";
            (self.retyped(), Fail::new(Code::Overrun, why))
        })
    }

    /// Releases a block that came with a message whose sender withdrew it.
    pub(crate) fn refuse(mut self) {
        self.range = None;
        if let Some(Entry::Held(held)) = self.entry.take_if(|entry| matches!(entry, Entry::Held(_)))
        {
            self.area.member().refuse(held);
        }
    }

    /// Lets one more member read the block. Also tells whether the member did not read it before.
    pub(crate) fn share(&mut self, reader: u16) -> Result<(BlockName, bool), Fail> {
        let Some(Entry::Held(held)) = &self.entry else { return Err(read_only()) };
        if self.readers.is_empty() {
            // A shared block is read-only for its owner too. The old lease ends before the new one.
            self.range = None;
            self.range = self.area.region.lease(held.offset(), held.capacity(), false);
        }
        let is_new = !self.readers.contains(&reader);
        if is_new {
            self.readers.push(reader);
        }
        Ok((self.area.member().share(held), is_new))
    }

    pub(crate) fn unshare_with(&mut self, reader: u16) {
        self.readers.retain(|other| *other != reader);
    }

    /// Ends the sharing, so that the block can be written again; `false` while a member reads it.
    pub(crate) fn reclaim(&mut self) -> bool {
        let Some(Entry::Held(held)) = &self.entry else { return false };
        let mut member = self.area.member();
        if member.readers_left(held, &self.readers) > 0 || !member.unshare(held) {
            return false;
        }
        drop(member);
        self.readers.clear();
        self.range = None;
        self.range = self.area.region.lease(held.offset(), held.capacity(), true);
        self.range.is_some()
    }
}

impl<T: Plain> Drop for Block<T> {
    fn drop(&mut self) {
        // The range first: after the release another member may use the memory.
        self.range = None;
        // A child by fork has no ledger, and the block is its parent's.
        if !self.area.is_original() {
            return;
        }
        match self.entry.take() {
            Some(Entry::Held(held)) => self.area.member().release(held),
            Some(Entry::Reading(reading)) => self.area.member().finish(reading),
            None => {}
        }
    }
}
