//! Blocks that change hands by another way than a message: over a com-socket, in shared memory, in whatever carries 32 bytes.
//!
//! The giver names the block, the name travels, and who gets it accepts the block by it. The rules are those of blocks in messages:
//! the ledgers say to whom it was given, and nobody else can accept it, however often the name is copied or changed.

use super::Endpoint;
use crate::area::{AreaError, Block, Inner, Plain, Unsent};
use crate::error::Fail;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code};
use m3ipc_area::{BlockName, ClaimedBlockName};
use std::sync::Arc;

/// A block that was given and may not be accepted yet. Dropping this changes nothing.
#[derive(Clone, Debug)]
pub struct Given {
    area: Arc<Inner>,
    name: BlockName,
}

impl Given {
    /// What the receiver must be told.
    #[must_use]
    pub fn name(&self) -> [u8; BLOCK_NAME_BYTES] {
        self.name.encode()
    }
}

impl Endpoint {
    /// Gives a block to another member of its area, without a message: that member has it as soon as it
    /// [accepts](Self::accept_given) it by its name, from this endpoint, for as long as this endpoint is bound.
    ///
    /// # Errors
    /// [`Unsent`], with the block: the other is not of the area, or the block is shared or only read here.
    #[allow(clippy::result_large_err)]
    pub fn give_block<T: Plain>(
        &mut self,
        to: Address,
        block: Block<T>,
    ) -> Result<Given, Unsent<AreaError>> {
        let area = Arc::clone(block.inner());
        let index = match self.stand().and_then(|()| self.member_index(&area, to)) {
            Ok(index) => index,
            Err(fail) => return Err(Unsent { error: fail.into(), block: block.cast().ok() }),
        };
        match block.give(index, false) {
            Ok(name) => Ok(Given { area, name }),
            Err((block, fail)) => Err(Unsent { error: fail.into(), block: Some(block) }),
        }
    }

    /// Accepts a block that `from` has [given](Self::give_block) to this endpoint. Joins the area where it is not attached yet.
    ///
    /// # Errors
    /// [`AreaError`] with -500 where the name is none, or the ledgers do not say so; nothing has changed then. Of
    /// [`attach_area`](Self::attach_area).
    pub fn accept_given(
        &mut self,
        from: Address,
        name: &[u8; BLOCK_NAME_BYTES],
    ) -> Result<Block, AreaError> {
        self.stand()?;
        let claimed =
            ClaimedBlockName::decode(name).filter(|name| !name.is_shared() && !name.is_payload());
        let Some(claimed) = claimed else {
            return Err(Fail::new(
                Code::PeerBroke,
                "what came is no name of a block that was given",
            )
            .into());
        };
        Ok(self.accept_block(from, &claimed)?)
    }

    /// Takes back what was given and not accepted; none where it has been, or where it is lost with a dead home.
    pub fn take_back_given(&mut self, given: &Given) -> Option<Block> {
        self.stand().ok()?;
        self.hear_areas();
        let held = given.area.side().take_back(&given.name)?;
        let held = self.confirmed(&given.area, held, None).ok()?;
        Block::of_held(&given.area, held).ok()
    }
}
