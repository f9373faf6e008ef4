//! Areas and blocks: data that changes hands without being copied.
//!
//! An area is memory that lies at the same address in every process that attaches it. A
//! [`Block`] is a value: who has it uses its bytes in place, sending it moves it, dropping it frees it.
//! Making and joining areas, allocating and sending are an endpoint's: see
//! [`create_area`](crate::Endpoint::create_area), [`allocate`](crate::Endpoint::allocate),
//! [`send_block`](crate::Endpoint::send_block) and [`take_block`](crate::Endpoint::take_block).

mod block;

pub use block::{Block, Plain, Unsent};

use crate::error::Fail;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{AreaMember, ledger_bytes};
use m3ipc_shm::{FixedRegion, Observed, Shared};
use m3ipc_wire::{AreaAudience, AreaInfo, AreaParams};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why an area or a block is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({code})")]
pub struct AreaError {
    /// The code of the contract.
    pub code: Code,
    /// What happened, why, and what to do next.
    pub why: String,
}

impl From<Fail> for AreaError {
    fn from(fail: Fail) -> Self {
        Self { code: fail.code, why: fail.why() }
    }
}

/// The pages of an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary ones.
    #[default]
    Small,
    /// Huge ones where the kernel makes them by itself.
    Transparent,
    /// Huge ones of the system's pool (hugetlb); where it is empty, allocation fails.
    Huge,
}

/// What a new area is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaConfig {
    pub(crate) params: AreaParams,
    pub(crate) pages: Pages,
    pub(crate) prefault: bool,
}

impl AreaConfig {
    fn new(limit_bytes: u64, audience: AreaAudience) -> Self {
        let params = AreaParams { limit_bytes, audience, owner_writes: false, huge: false };
        Self { params, pages: Pages::Small, prefault: false }
    }

    /// An area of at most so many bytes, for its maker and one other.
    #[must_use]
    pub fn pair(limit_bytes: u64, other: Address) -> Self {
        Self::new(limit_bytes, AreaAudience::Pair(other.0))
    }

    /// An area of at most so many bytes, for its maker and these.
    #[must_use]
    pub fn set(limit_bytes: u64, others: &[Address]) -> Self {
        Self::new(limit_bytes, AreaAudience::Set(others.iter().map(|other| other.0).collect()))
    }

    /// An area of at most so many bytes, for every member of the VM.
    #[must_use]
    pub fn vm(limit_bytes: u64) -> Self {
        Self::new(limit_bytes, AreaAudience::Vm)
    }

    /// Only its maker writes and allocates; for the others it is mapped for reading, and sealed so.
    #[must_use]
    pub fn owner_writes(mut self) -> Self {
        self.params.owner_writes = true;
        self
    }

    /// With these pages.
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self.params.huge = pages == Pages::Huge;
        self
    }

    /// With its pages mapped when room is made, not when they are touched.
    #[must_use]
    pub fn prefault(mut self) -> Self {
        self.prefault = true;
        self
    }

    /// The limit in whole pages.
    pub(crate) fn rounded(&self) -> AreaParams {
        let step = if self.params.huge { 2 << 20 } else { 4096 };
        let limit_bytes =
            self.params.limit_bytes.checked_next_multiple_of(step).unwrap_or(u64::MAX);
        AreaParams { limit_bytes, ..self.params.clone() }
    }
}

/// What an endpoint has of an area.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) info: AreaInfo,
    pub(crate) ground: Arc<FixedRegion>,
    pub(crate) memory: OwnedFd,
    pub(crate) prefault: bool,
    side: Mutex<AreaMember<Shared, Observed>>,
}

impl Inner {
    /// Maps what the daemon gave.
    pub(crate) fn map(
        info: AreaInfo,
        index: u16,
        fds: Vec<OwnedFd>,
        me: Address,
        prefault: bool,
    ) -> Result<Self, Fail> {
        let Ok([memory, ledger]) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(crate::control::unexpected());
        };
        let writable = !info.owner_writes || info.owner == me.0;
        let bytes = usize::try_from(info.limit_bytes).map_err(|_| Fail::from(Code::NoMem))?;
        let ground = FixedRegion::map_at(&memory, info.base, bytes, writable).map_err(|errno| {
            let why = format!("area {} cannot be mapped at {:#x}: {errno}", info.area, info.base);
            let code = if errno == m3ipc_sys::Errno::EXIST { Code::RscBusy } else { Code::NoMem };
            Fail::new(code, why)
        })?;
        let own = Shared::map_sparse(&ledger, ledger_bytes(info.numbers))?;
        let side = Mutex::new(AreaMember::new(info.area, index, info.numbers, own));
        Ok(Self { info, ground, memory, prefault, side })
    }

    pub(crate) fn side(&self) -> MutexGuard<'_, AreaMember<Shared, Observed>> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An area that an endpoint has attached.
#[derive(Clone, Debug)]
pub struct Area {
    pub(crate) inner: Arc<Inner>,
}

impl Area {
    /// Its number in the VM: what others attach it by.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.info.area
    }

    /// Where it begins, in every process.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.inner.info.base
    }

    /// Its size at most, in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.inner.info.limit_bytes
    }

    /// Whether this endpoint may write in it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.inner.ground.is_writable()
    }

    /// The other endpoints that take part, or may.
    #[must_use]
    pub fn members(&self) -> Vec<Address> {
        self.inner.side().members().collect()
    }

    /// Free bytes and all bytes of the room that this endpoint allocates in.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        self.inner.side().free_and_total_bytes()
    }

    /// The longest free range in the room of this endpoint, in bytes.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.inner.side().largest_free()
    }

    /// Blocks of this endpoint that others hold.
    #[must_use]
    pub fn blocks_out(&self) -> usize {
        self.inner.side().blocks_away()
    }

    /// Maps the whole range `[0, bytes)` of the area's memory at once, not page by page.
    ///
    /// # Errors
    /// [`AreaError`] where it is longer than the area, or the kernel is older than 5.14.
    pub fn prefault(&self, bytes: u64) -> Result<(), AreaError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.inner.ground.prefault(0, bytes).map_err(|errno| {
            Fail::new(Code::Inval, format!("{bytes} bytes cannot be mapped at once: {errno}"))
                .into()
        })
    }

    /// Gives up writing in this area for ever, so that the other of a pair can [seal](Self::seal) it.
    ///
    /// # Errors
    /// [`AreaError`] where a block is being written here.
    pub fn renounce_writing(&self) -> Result<(), AreaError> {
        self.inner.ground.renounce_writing(&self.inner.memory).map_err(|errno| {
            let why = format!(
                "writing cannot be renounced: {errno}; release the blocks that are held here"
            );
            Fail::new(Code::Busy, why).into()
        })
    }

    /// Makes sure that nobody, this endpoint included, can write in the area ever again. For an
    /// area of a pair of which both have [renounced writing](Self::renounce_writing).
    ///
    /// # Errors
    /// [`AreaError`] with -16 where somebody has it mapped for writing still, -1 where the area
    /// is none of a pair, or is one in which only its owner writes.
    pub fn seal(&self) -> Result<(), AreaError> {
        match m3ipc_sys::seal_against_writing(&self.inner.memory) {
            Err(m3ipc_sys::Errno::BUSY) => {
                let why = "somebody can still write in the area: it has not renounced writing";
                Err(Fail::new(Code::Busy, why).into())
            }
            Err(errno) => {
                Err(Fail::new(Code::Perm, format!("this area cannot be sealed: {errno}")).into())
            }
            Ok(()) if self.is_sealed() => Ok(()),
            Ok(()) => Err(Fail::new(Code::Perm, "the kernel did not keep the seal").into()),
        }
    }

    /// Whether nobody can write in the area any more, by the kernel's word.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        m3ipc_sys::is_sealed_against_writing(&self.inner.memory) == Ok(true)
    }
}

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.memory.as_fd()
    }
}
