//! The parts of an attached area: mapping, memory and ledgers.

use crate::control::unexpected;
use crate::error::Fail;
use core::fmt;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{AreaMember, ledger_bytes};
use m3ipc_shm::{FixedRegion, LeasedRange, Observed, Shared};
use m3ipc_sys::Errno;
use m3ipc_wire::{AreaAudience, AreaInfo};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What becomes of a request for an area that its creator has not mapped yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmapped {
    /// It is repeated within its limit.
    Await,
    /// It fails: the giver of a block has mapped its area, so the block is nobody's to give.
    Refuse,
}

/// When the memory of an area is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AreaMapping {
    /// All of it at once: programs follow addresses in it.
    Whole,
    /// The same, with the pages of each extent.
    Prefaulted,
    /// Extents with their first block: only the library uses the area.
    ByNeed,
}

/// This process as a member of an area.
pub(crate) type Member = AreaMember<Shared, Observed>;

/// An area as an endpoint has attached it. The handles and blocks of the area share it.
pub(crate) struct AreaState {
    pub(crate) info: AreaInfo,
    pub(crate) region: Arc<FixedRegion>,
    pub(crate) memory: OwnedFd,
    /// Whether the pages of an extent are mapped when it is reserved.
    pub(crate) prefault: bool,
    /// The daemons that the endpoint had had when it joined.
    pub(crate) daemons: u32,
    /// Whether the program has had a handle of the area.
    had_handle: AtomicBool,
    /// Whether the area outlives its handles.
    kept: AtomicBool,
    /// Whether its creator has died.
    owner_died: AtomicBool,
    member: Mutex<Member>,
}

/// The failure of a child by fork.
#[cold]
pub(crate) fn forked() -> Fail {
    let why = "the area belongs to the parent process, and a fork shares none; bind in the child \
               and attach it there";
    Fail::new(Code::NotBind, why)
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
        (mapping, daemons): (AreaMapping, u32),
    ) -> Result<Self, Fail> {
        let Ok([memory, ledger]) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(unexpected());
        };
        let writable = !info.owner_writes || info.owner == me.0;
        let bytes = usize::try_from(info.limit_bytes).map_err(|_| Fail::from(Code::NoMem))?;
        let region = match mapping {
            AreaMapping::ByNeed => FixedRegion::at(&memory, info.base, bytes, writable),
            _ => FixedRegion::map_at(&memory, info.base, bytes, writable),
        };
        let region = region.map_err(|errno| unmapped(&info, (0, bytes), errno))?;
        let own = Shared::map_sparse(&ledger, ledger_bytes(info.numbers))?;
        let member = Mutex::new(AreaMember::new(info.area, index, info.numbers, own));
        let (had_handle, kept) = (AtomicBool::new(false), AtomicBool::new(false));
        let prefault = mapping == AreaMapping::Prefaulted;
        let owner_died = AtomicBool::new(false);
        Ok(Self { info, region, memory, prefault, daemons, had_handle, kept, owner_died, member })
    }

    /// Maps what is not mapped yet: the program gets addresses of the area.
    pub(crate) fn map_whole(&self) -> Result<(), Fail> {
        self.map_part(0, usize::try_from(self.info.limit_bytes).unwrap_or(usize::MAX))
    }

    /// Leases the range of a block, and maps its extents before that if necessary.
    pub(crate) fn lease(
        &self,
        (offset, bytes): (u64, u64),
        write: bool,
        overlaps: impl FnOnce() -> Fail,
    ) -> Result<LeasedRange, Fail> {
        let lease = || self.region.lease(offset, bytes, write);
        if let Some(range) = lease() {
            return Ok(range);
        }
        // No other block of theirs is further away than its neighbours in one extent.
        let (begin, end) = self.member().span(offset).ok_or_else(unexpected)?;
        if let (Ok(begin), Ok(end)) = (usize::try_from(begin), usize::try_from(end)) {
            self.map_part(begin, end.saturating_sub(begin))?;
        }
        lease().ok_or_else(overlaps)
    }

    fn map_part(&self, offset: usize, bytes: usize) -> Result<(), Fail> {
        self.region
            .map_part(&self.memory, offset, bytes)
            .map_err(|errno| unmapped(&self.info, (offset, bytes), errno))
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

    /// The member with this index has died. If it was the creator, the area ends with its blocks.
    pub(crate) fn note_death(&self, index: u16) {
        if self.member().address_of(index) == Some(Address(self.info.owner)) {
            self.owner_died.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its creator has died, as far as its member `me` knows.
    pub(crate) fn has_lost_owner(&self, me: Address) -> bool {
        self.info.owner != me.0 && self.owner_died.load(Ordering::Relaxed)
    }

    /// Whether its member `me` can leave the area, provided that no handle and no block of it is
    /// left here.
    pub(crate) fn is_unused_by(&self, me: Address) -> bool {
        if self.has_lost_owner(me) {
            return self.member().blocks_away() == 0;
        }
        let kept = self.kept.load(Ordering::Relaxed);
        let member = self.member();
        if member.members().next().is_none() {
            return !kept || matches!(self.info.audience, AreaAudience::Pair(_));
        }
        let was_dropped = self.had_handle.load(Ordering::Relaxed) && !kept;
        was_dropped && self.info.owner == me.0 && member.blocks_away() == 0
    }

    /// Whether this process attached the area. A child by fork has neither its mappings nor its
    /// lock.
    pub(crate) fn is_original(&self) -> bool {
        self.region.is_original()
    }

    /// Fails in a child by fork.
    pub(crate) fn check_process(&self) -> Result<(), Fail> {
        if self.is_original() { Ok(()) } else { Err(forked()) }
    }

    /// What `read` finds in the allocator and the ledgers; the default in a child by fork.
    pub(crate) fn look<T: Default>(&self, read: impl FnOnce(&Member) -> T) -> T {
        if self.is_original() { read(&self.member()) } else { T::default() }
    }

    /// This endpoint as a member of the area: its allocator and the ledgers.
    pub(crate) fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of a mapping, with the occupant of the addresses.
fn unmapped(info: &AreaInfo, (offset, bytes): (usize, usize), errno: Errno) -> Fail {
    let from = info.base + offset as u64;
    let code = if errno == Errno::EXIST { Code::RscBusy } else { Code::NoMem };
    let occupant = (errno == Errno::EXIST)
        .then(|| m3ipc_sys::occupant_of(from..from.saturating_add(bytes as u64)))
        .flatten();
    let advice = match occupant {
        Some(occupant) => format!("{occupant} lies there; free that address range"),
        None => "raise the limits of memory and addresses, or use less of both".to_owned(),
    };
    Fail::new(code, format!("area {} cannot be mapped at {from:#x}: {errno}; {advice}", info.area))
}
