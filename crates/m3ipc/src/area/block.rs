//! The block: a piece of an area, as a value.
// A block that is not sent comes back as the value it was.
#![allow(clippy::result_large_err)]

use super::Inner;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_area::{BlockName, HeldBlock, SharedReading};
use m3ipc_shm::LeasedRange;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use super::AreaError;

/// Plain data: any bits are a value. What blocks can be made of.
pub use bytemuck::Pod as Plain;

/// How the block is had.
#[derive(Debug)]
enum Hold {
    Held(HeldBlock),
    Reading(SharedReading),
}

/// A block: whoever has it uses its memory in place, at the same address as everybody before.
///
/// Dropping it frees it, whoever allocated it. It is [sent](crate::Endpoint::send_block), not copied.
/// Members of the audience that break the rules can change its content in an area in which
/// holders write; see the caveats of the modes.
#[derive(Debug)]
pub struct Block<T: Plain = u8> {
    area: Arc<Inner>,
    hold: Option<Hold>,
    tract: Option<LeasedRange>,
    /// To whom it was shared.
    readers: Vec<u16>,
    of: PhantomData<T>,
}

/// A block that was not sent, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unsent<E: std::error::Error> {
    /// Why.
    pub error: E,
    /// The block; none where the receiver has it all the same, or it is lost with a dead home.
    pub block: Option<Block>,
}

impl Block {
    pub(crate) fn of_held(area: &Arc<Inner>, held: HeldBlock) -> Result<Self, Fail> {
        match area.ground.lease(held.offset(), held.capacity(), true) {
            Some(tract) => Ok(Self::new(area, Hold::Held(held), tract)),
            None => {
                let number = held.number();
                area.side().release(held);
                Err(in_the_way(number))
            }
        }
    }

    pub(crate) fn of_reading(area: &Arc<Inner>, reading: SharedReading) -> Result<Self, Fail> {
        match area.ground.lease(reading.offset(), reading.capacity(), false) {
            Some(tract) => Ok(Self::new(area, Hold::Reading(reading), tract)),
            None => {
                let number = reading.number();
                area.side().finish(reading);
                Err(in_the_way(number))
            }
        }
    }

    fn new(area: &Arc<Inner>, hold: Hold, tract: LeasedRange) -> Self {
        let area = Arc::clone(area);
        Self { area, hold: Some(hold), tract: Some(tract), readers: Vec::new(), of: PhantomData }
    }
}

fn in_the_way(number: u32) -> Fail {
    Fail::new(
        Code::PeerBroke,
        format!("block {number} lies where another block of this process does"),
    )
}

impl<T: Plain> Block<T> {
    /// The number of its area.
    #[must_use]
    pub fn area(&self) -> u32 {
        self.area.info.area
    }

    /// Its number in the area.
    #[must_use]
    pub fn number(&self) -> u32 {
        match &self.hold {
            Some(Hold::Held(held)) => held.number(),
            Some(Hold::Reading(reading)) => reading.number(),
            None => u32::MAX,
        }
    }

    /// Where it lies: the same in every process that has the area.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.tract.as_ref().map_or(0, |tract| tract.start().as_ptr().addr() as u64)
    }

    /// What was allocated, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.tract.as_ref().map_or(0, |tract| tract.bytes() as u64)
    }

    fn content_bytes(&self) -> usize {
        let bytes = match &self.hold {
            Some(Hold::Held(held)) => held.bytes(),
            Some(Hold::Reading(reading)) => reading.bytes(),
            None => 0,
        };
        // No longer than the capacity, which was mapped.
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Its content, to be written.
    ///
    /// # Errors
    /// [`AreaError`] with -1 where the block is shared, or may only be read here.
    pub fn write(&mut self) -> Result<&mut [T], AreaError> {
        let bytes = self.content_bytes();
        // SAFETY: none yet: a hostile member can write the block. To be replaced by volatile access.
        #[allow(unsafe_code)]
        let content =
            self.tract.as_mut().and_then(|tract| unsafe { tract.as_mut_slice_trusting_peers() });
        match content.and_then(|content| content.get_mut(..bytes)) {
            Some(content) => Ok(plain_mut(content)),
            None => {
                let why = "the block may only be read here: it is shared, or its owner alone writes in the area";
                Err(Fail::new(Code::Perm, why).into())
            }
        }
    }

    /// Says how long its content is, in bytes: at most its capacity.
    ///
    /// # Errors
    /// [`AreaError`] with -73 where that is longer, -1 where the block is only read here.
    pub fn set_bytes(&mut self, bytes: u64) -> Result<(), AreaError> {
        match &mut self.hold {
            Some(Hold::Held(held)) => {
                if held.set_bytes(bytes) {
                    return Ok(());
                }
                let why =
                    format!("{bytes} bytes do not fit into the {} of the block", held.capacity());
                Err(Fail::new(Code::MsgSize, why).into())
            }
            _ => Err(Fail::new(Code::Perm, "the block is only read here").into()),
        }
    }

    /// The same block as one of other items.
    ///
    /// # Errors
    /// The block, where its length is no multiple of theirs.
    pub fn cast<U: Plain>(mut self) -> Result<Block<U>, Self> {
        let size = size_of::<U>();
        if size == 0 || !self.content_bytes().is_multiple_of(size) || align_of::<U>() > 64 {
            return Err(self);
        }
        Ok(Block {
            area: Arc::clone(&self.area),
            hold: self.hold.take(),
            tract: self.tract.take(),
            readers: std::mem::take(&mut self.readers),
            of: PhantomData,
        })
    }

    /// How many of those to whom it was shared have not dropped it yet.
    #[must_use]
    pub fn readers_left(&self) -> usize {
        match &self.hold {
            Some(Hold::Held(held)) => self.area.side().readers_left(held, &self.readers),
            _ => 0,
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.area
    }

    /// Lets go of the memory and gives the block; `forbid` makes this process unable to touch it.
    pub(crate) fn give(mut self, to: u16, forbid: bool) -> Result<BlockName, (Block, Fail)> {
        let back = |mut block: Self, fail| {
            let same = Block {
                area: Arc::clone(&block.area),
                hold: block.hold.take(),
                tract: block.tract.take(),
                readers: std::mem::take(&mut block.readers),
                of: PhantomData,
            };
            (same, fail)
        };
        if !self.readers.is_empty() {
            let why = "the block is shared; reclaim it when all have read it";
            return Err(back(self, Fail::new(Code::Busy, why)));
        }
        if !matches!(self.hold, Some(Hold::Held(_))) {
            let why = "the block is only read here, and not to be given away";
            return Err(back(self, Fail::new(Code::Perm, why)));
        }
        let tract = self.tract.take();
        if forbid
            && let Some(tract) = tract
            && let Err((tract, errno)) = tract.protect()
        {
            self.tract = Some(tract);
            let why = format!("only blocks of whole pages can be taken from their giver: {errno}");
            return Err(back(self, Fail::new(Code::Align, why)));
        }
        let Some(Hold::Held(held)) = self.hold.take() else {
            return Err(back(self, Code::Perm.into()));
        };
        let given = self.area.side().give(held, to);
        given.map_err(|held| {
            let retaken = self.area.ground.lease(held.offset(), held.capacity(), true);
            self.tract = retaken;
            self.hold = Some(Hold::Held(held));
            back(
                self,
                Fail::new(
                    Code::Overrun,
                    "the block was in too many hands; send it to who allocated it",
                ),
            )
        })
    }

    /// Lets go of what was accepted with a message that was withdrawn before it was taken.
    pub(crate) fn refuse(mut self) {
        self.tract = None;
        if let Some(Hold::Held(held)) = self.hold.take_if(|hold| matches!(hold, Hold::Held(_))) {
            self.area.side().refuse(held);
        }
    }

    /// Lets one more read it.
    pub(crate) fn share(&mut self, reader: u16) -> Result<BlockName, Fail> {
        let Some(Hold::Held(held)) = &self.hold else {
            return Err(Fail::new(Code::Perm, "the block is only read here, and not to be shared"));
        };
        if self.readers.is_empty() {
            // From now on it is read here, too.
            self.tract = None;
            self.tract = self.area.ground.lease(held.offset(), held.capacity(), false);
        }
        if !self.readers.contains(&reader) {
            self.readers.push(reader);
        }
        Ok(self.area.side().share(held))
    }

    pub(crate) fn unshare_with(&mut self, reader: u16) {
        self.readers.retain(|other| *other != reader);
    }

    /// Takes a shared block back, to be written and given again; false while somebody reads it.
    pub(crate) fn reclaim(&mut self) -> bool {
        let Some(Hold::Held(held)) = &self.hold else { return false };
        let mut side = self.area.side();
        if side.readers_left(held, &self.readers) > 0 || !side.unshare(held) {
            return false;
        }
        drop(side);
        self.readers.clear();
        self.tract = None;
        self.tract = self.area.ground.lease(held.offset(), held.capacity(), true);
        self.tract.is_some()
    }
}

impl<T: Plain> Deref for Block<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let bytes = self.content_bytes();
        // SAFETY: none yet: a hostile member can write the block. To be replaced by volatile access.
        #[allow(unsafe_code)]
        let content = self
            .tract
            .as_ref()
            .and_then(|tract| unsafe { tract.as_slice_trusting_peers() }.get(..bytes));
        content.map_or(&[], plain)
    }
}

/// The whole items in these bytes. Blocks begin at multiples of 64, so they are aligned.
fn plain<T: Plain>(bytes: &[u8]) -> &[T] {
    let whole = bytes.len() - bytes.len() % size_of::<T>().max(1);
    bytemuck::try_cast_slice(&bytes[..whole]).unwrap_or(&[])
}

fn plain_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    let whole = bytes.len() - bytes.len() % size_of::<T>().max(1);
    bytemuck::try_cast_slice_mut(&mut bytes[..whole]).unwrap_or(&mut [])
}

impl<T: Plain> Drop for Block<T> {
    fn drop(&mut self) {
        // The memory first: from the next line on it is another's.
        self.tract = None;
        match self.hold.take() {
            Some(Hold::Held(held)) => self.area.side().release(held),
            Some(Hold::Reading(reading)) => self.area.side().finish(reading),
            None => {}
        }
    }
}
