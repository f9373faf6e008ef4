//! The handle of an attached area.

use super::state::AreaState;
use crate::error::{AreaError, Fail};
use core::fmt;
use m3ipc_abi::{Address, Code};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// An area that an endpoint has attached.
///
/// The endpoint that created an area leaves it, at one of its next calls, after the last handle and
/// the last block of it are dropped: see [`keep`](Self::keep). An endpoint that attached an area
/// leaves it after all others have left. Once the creator has died, the others leave with their
/// last handle and block.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, mut client) = node.pair();
/// use m3ipc::{AreaConfig, BlockLifetime};
///
/// let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
/// let block = client.allocate(&area, 1000, BlockLifetime::Short)?;
/// assert!(area.is_writable() && !area.is_sealed());
/// assert_eq!(area.limit_bytes(), 1 << 20);
/// let (free, total) = area.free_and_total_bytes();
/// assert!(area.largest_free_bytes() <= free && free < total);
/// assert_eq!(area.blocks_out(), 0, "no other endpoint holds a block");
/// // The address is the same in every process.
/// assert_eq!(server.attach_area(area.id())?.base(), area.base());
/// println!("{} other members", area.members().len());
/// # drop(block);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Area {
    state: Arc<AreaState>,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Area {
    pub(crate) fn new(state: &Arc<AreaState>) -> Self {
        state.note_handle();
        Self { state: Arc::clone(state) }
    }

    pub(crate) fn state(&self) -> &Arc<AreaState> {
        &self.state
    }

    /// Keeps the area attached after its last handle is dropped: until
    /// [`detach_area`](crate::Endpoint::detach_area), or until the other endpoint of a pair ends.
    /// Once its creator has died, an area lasts as long as its blocks.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// use m3ipc::AreaConfig;
    ///
    /// let id = {
    ///     let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    ///     area.keep();
    ///     area.id()
    /// };
    /// # client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// assert!(client.attached(id).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(&self) {
        self.state.keep();
    }

    /// The number of the area in its VM. Other endpoints attach the area by it. The example is at
    /// [`Area`].
    #[must_use]
    pub fn id(&self) -> u32 {
        self.state.info.area
    }

    /// The address of the area, the same in every process. The example is at [`Area`].
    #[must_use]
    pub fn base(&self) -> u64 {
        self.state.info.base
    }

    /// The size limit in bytes. The example is at [`Area`].
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.state.info.limit_bytes
    }

    /// Whether this endpoint may write in the area. The example is at [`Area`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.state.region.is_writable()
    }

    /// The other endpoints that are members, or may become members. The example is at [`Area`].
    #[must_use]
    pub fn members(&self) -> Vec<Address> {
        self.state.look(|member| member.members().collect())
    }

    /// Free bytes and all bytes of the extents in which this endpoint allocates. The example is at
    /// [`Area`].
    #[must_use]
    pub fn free_and_total_bytes(&self) -> (u64, u64) {
        self.state.look(|member| member.free_and_total_bytes())
    }

    /// The longest free range in the extents of this endpoint, in bytes. The example is at
    /// [`Area`].
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        self.state.look(|member| member.largest_free())
    }

    /// Blocks that this endpoint allocated and other endpoints hold. The example is at [`Area`].
    #[must_use]
    pub fn blocks_out(&self) -> usize {
        self.state.look(|member| member.blocks_away())
    }

    /// Maps the range `[0, bytes)` of the area at once, not page by page.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{AreaConfig, AreaError, BlockLifetime};
    ///
    /// let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let block = client.allocate(&area, 64 << 10, BlockLifetime::Short)?;
    /// match area.prefault(64 << 10) {
    ///     Ok(()) => println!("no access will fault"),
    ///     Err(AreaError::BadSize(reason)) => println!("page by page: {reason}"),
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AreaError::BadSize`] if the range is longer than the area, or the kernel is older than
    /// 5.14.
    ///
    /// # Source
    /// madvise(2), `MADV_POPULATE_WRITE`.
    pub fn prefault(&self, bytes: u64) -> Result<(), AreaError> {
        self.state.check_process()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.state.region.prefault(0, bytes).map_err(|errno| {
            let why = format!("{bytes} bytes cannot be mapped at once: {errno}; map fewer");
            Fail::new(Code::Inval, why).into()
        })
    }

    /// Gives up writing in this area for ever, so that the other endpoint of a pair can
    /// [seal](Self::seal) it. The example is at [`seal`](Self::seal).
    ///
    /// # Errors
    /// [`AreaError::Busy`] if this process still holds a block for writing.
    pub fn renounce_writing(&self) -> Result<(), AreaError> {
        self.state.check_process()?;
        self.state.region.renounce_writing(&self.state.memory).map_err(|errno| {
            let why = format!(
                "writing cannot be renounced: {errno}; release the blocks that are held here"
            );
            Fail::new(Code::Busy, why).into()
        })
    }

    /// Seals the area: no process can write in it again, this one included. Both endpoints of a
    /// pair must have [renounced writing](Self::renounce_writing) before.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{AreaConfig, BlockLifetime};
    ///
    /// let area = client.create_area(&AreaConfig::pair(1 << 20, server.address()))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// block.copy_from(b"fixed")?;
    /// let to = server.address();
    /// # let attached = server.attach_area(area.id())?;
    /// # let given = client.give_block(to, block)?;
    /// area.renounce_writing()?;
    /// # attached.renounce_writing()?;
    /// area.seal()?;
    /// # let block = server.accept_given(client.address(), &given.name())?;
    /// // After the seal the receiver of the block has a slice:
    /// let sealed = block.into_sealed().unwrap();
    /// assert_eq!(&sealed[..], b"fixed");
    /// println!("block {}", sealed.number());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`AreaError::Busy`] if a process still maps the area for writing.
    /// - [`AreaError::Denied`] if the area has no pair, or only its owner writes in it.
    ///
    /// # Source
    /// fcntl(2), `F_SEAL_WRITE`.
    pub fn seal(&self) -> Result<(), AreaError> {
        // The partner may have sealed it; more seals are then forbidden.
        if self.is_sealed() {
            return Ok(());
        }
        match m3ipc_sys::seal_against_writing(&self.state.memory) {
            // Both sealed it at the same time.
            Err(_) if self.is_sealed() => Ok(()),
            Err(m3ipc_sys::Errno::BUSY) => {
                let why = "a process can still write in the area; let it renounce writing first";
                Err(Fail::new(Code::Busy, why).into())
            }
            Err(errno) => {
                let why =
                    format!("this area cannot be sealed: {errno}; only an area of a pair can");
                Err(Fail::new(Code::Perm, why).into())
            }
            Ok(()) if self.is_sealed() => Ok(()),
            Ok(()) => Err(Fail::new(Code::Perm, "the kernel did not keep the seal").into()),
        }
    }

    /// Whether the kernel lets no process write in the area. The example is at [`Area`].
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        m3ipc_sys::is_sealed_against_writing(&self.state.memory) == Ok(true)
    }
}

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.state.memory.as_fd()
    }
}
