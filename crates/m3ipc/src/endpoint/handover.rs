//! Blocks that change their owner without a message: over a com-socket, in shared memory, by
//! anything that carries 32 bytes.
//!
//! The giver names the block, the name travels, and the receiver accepts the block by its name. The
//! rules are those of blocks in messages. The ledgers say which member has the block, so no other
//! member can accept it, whatever copies of the name exist.

use super::Endpoint;
use super::daemon_limit::DaemonLimit;
use crate::area::{AreaState, Block, Plain, Unsent};
use crate::error::{AreaError, Fail};
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code};
use m3ipc_area::{BlockName, ClaimedBlockName};
use std::sync::Arc;

/// A block that was given and may not be accepted yet. A drop changes nothing. The example is at
/// [`Endpoint::give_block`].
#[derive(Clone, Debug)]
pub struct GivenBlock {
    area: Arc<AreaState>,
    name: BlockName,
}

impl GivenBlock {
    /// The name of the block, for the receiver. The example is at [`Endpoint::give_block`].
    #[must_use]
    pub fn name(&self) -> [u8; BLOCK_NAME_BYTES] {
        self.name.encode()
    }
}

impl Endpoint {
    /// Gives a block to another member of its area without a message. The member
    /// [accepts](Self::accept_given) the block by its name while this endpoint is bound.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{AreaConfig, BlockLifetime};
    ///
    /// let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// # server.attach_area(area.id())?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// block.copy_from(b"block")?;
    /// let given = client.give_block(server.address(), block)?;
    /// // 32 bytes travel to the server by any way.
    /// let block = server.accept_given(client.address(), &given.name())?;
    /// assert_eq!(block.to_vec(), b"block");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsent`] with the block: the other endpoint is no member, or the block is shared, or it
    /// may only be read here.
    #[allow(clippy::result_large_err)]
    pub fn give_block<T: Plain>(
        &mut self,
        to: Address,
        block: Block<T>,
    ) -> Result<GivenBlock, Unsent<AreaError>> {
        self.disarm();
        let area = Arc::clone(block.state());
        let limit = DaemonLimit::default_from_now();
        let index = match self
            .membership
            .check_bound()
            .and_then(|()| self.member_index(&area, to, limit))
        {
            Ok(index) => index,
            Err(fail) => {
                return Err(Unsent { error: fail.into(), block: Some(block.into_bytes()) });
            }
        };
        match block.give(index) {
            Ok(name) => Ok(GivenBlock { area, name }),
            Err((block, fail)) => Err(Unsent { error: fail.into(), block: Some(block) }),
        }
    }

    /// Accepts a block that `from` has [given](Self::give_block) to this endpoint. Attaches the
    /// area if necessary. The example is at [`give_block`](Self::give_block).
    ///
    /// # Errors
    /// [`AreaError::PeerBroke`] if the name is wrong or the ledgers disagree; nothing has changed.
    /// Those of [`attach_area`](Self::attach_area).
    pub fn accept_given(
        &mut self,
        from: Address,
        name: &[u8; BLOCK_NAME_BYTES],
    ) -> Result<Block, AreaError> {
        self.disarm();
        self.membership.check_bound()?;
        let claimed =
            ClaimedBlockName::decode(name).filter(|name| !name.is_shared() && !name.is_payload());
        let Some(claimed) = claimed else {
            return Err(Fail::new(
                Code::PeerBroke,
                "what came is no name of a block that was given",
            )
            .into());
        };
        Ok(self.accept_block(from, &claimed, DaemonLimit::default_from_now())?)
    }

    /// Whether this is the name of a block in an area that is attached here. Then the death of the
    /// giver may be the reason why the block cannot be [accepted](Self::accept_given).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// # let block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// let given = client.give_block(server.address(), block)?;
    /// assert!(client.has_area_of(&given.name()));
    /// assert!(!server.has_area_of(&given.name()), "not attached yet");
    /// assert!(!client.has_area_of(b"32 bytes, but no name of a block"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn has_area_of(&self, name: &[u8; BLOCK_NAME_BYTES]) -> bool {
        let claimed = ClaimedBlockName::decode(name);
        claimed.is_some_and(|name| self.areas.get(name.area()).is_some())
    }

    /// Takes back a given block that was not accepted; `None` if it was accepted, or if the
    /// receiver or the allocator member died.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # use m3ipc::{AreaConfig, BlockLifetime};
    /// # let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// # server.attach_area(area.id())?;
    /// let block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// let given = client.give_block(server.address(), block)?;
    /// // The server has not accepted it.
    /// assert!(client.take_back_given(&given).is_some());
    /// assert!(server.accept_given(client.address(), &given.name()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_back_given(&mut self, given: &GivenBlock) -> Option<Block> {
        self.disarm();
        self.membership.check_bound().ok()?;
        self.receive_area_events();
        let returned = given.area.member().take_back(&given.name)?;
        let held = self.confirm_return(&given.area, returned)?;
        Block::of_held(&given.area, held).ok()
    }
}
