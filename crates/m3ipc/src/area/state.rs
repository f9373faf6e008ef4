//! The parts of an attached area: mapping, memory and ledgers.

use crate::control::unexpected;
use crate::error::Fail;
use core::fmt;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{AreaMember, ledger_bytes};
use m3ipc_shm::{FixedRegion, Observed, Shared};
use m3ipc_wire::{AreaAudience, AreaInfo};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An area as an endpoint has attached it. The handles and blocks of the area share it.
pub(crate) struct AreaState {
    pub(crate) info: AreaInfo,
    pub(crate) region: Arc<FixedRegion>,
    pub(crate) memory: OwnedFd,
    pub(crate) prefault: bool,
    /// Whether the program has had a handle of the area.
    had_handle: AtomicBool,
    /// Whether the area outlives its handles.
    kept: AtomicBool,
    member: Mutex<AreaMember<Shared, Observed>>,
}

/// The number, the address and the size. The tables of the members have 100 kB as text.
impl fmt::Debug for AreaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area")
            .field("id", &self.info.area)
            .field("base", &format_args!("{:#x}", self.info.base))
            .field("limit_bytes", &self.info.limit_bytes)
            .finish_non_exhaustive()
    }
}

impl AreaState {
    /// Maps the memory and the ledger that the daemon gave.
    pub(crate) fn map(
        info: AreaInfo,
        index: u16,
        fds: Vec<OwnedFd>,
        me: Address,
        prefault: bool,
    ) -> Result<Self, Fail> {
        let Ok([memory, ledger]) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(unexpected());
        };
        let writable = !info.owner_writes || info.owner == me.0;
        let bytes = usize::try_from(info.limit_bytes).map_err(|_| Fail::from(Code::NoMem))?;
        let region = FixedRegion::map_at(&memory, info.base, bytes, writable).map_err(|errno| {
            let why = format!(
                "area {} cannot be mapped at {:#x}: {errno}; free that address range",
                info.area, info.base
            );
            let code = if errno == m3ipc_sys::Errno::EXIST { Code::RscBusy } else { Code::NoMem };
            Fail::new(code, why)
        })?;
        let own = Shared::map_sparse(&ledger, ledger_bytes(info.numbers))?;
        let member = Mutex::new(AreaMember::new(info.area, index, info.numbers, own));
        let (had_handle, kept) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { info, region, memory, prefault, had_handle, kept, member })
    }

    /// The program gets a handle of the area.
    pub(crate) fn note_handle(&self) {
        self.had_handle.store(true, Ordering::Relaxed);
    }

    /// The area outlives its handles.
    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Whether the area is the library's alone: the program has had no handle of it.
    pub(crate) fn is_internal(&self) -> bool {
        !self.had_handle.load(Ordering::Relaxed) && !self.kept.load(Ordering::Relaxed)
    }

    /// Whether its member `me` can leave the area, provided that no handle and no block of it is
    /// left here.
    pub(crate) fn is_unused_by(&self, me: Address) -> bool {
        let kept = self.kept.load(Ordering::Relaxed);
        let member = self.member();
        if member.members().next().is_none() {
            return !kept || matches!(self.info.audience, AreaAudience::Pair(_));
        }
        let was_dropped = self.had_handle.load(Ordering::Relaxed) && !kept;
        was_dropped && self.info.owner == me.0 && member.blocks_away() == 0
    }

    /// This endpoint as a member of the area: its allocator and the ledgers.
    pub(crate) fn member(&self) -> MutexGuard<'_, AreaMember<Shared, Observed>> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
