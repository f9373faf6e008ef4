//! Areas of an endpoint: create, attach, detach, and the daemon's events about them.

use super::Endpoint;
use super::daemon_limit::DaemonLimit;
use super::payload::{detach, is_area_lost};
use crate::area::{Area, AreaConfig, AreaMapping, AreaState, Block, HUGE_PAGE_BYTES, Unmapped};
use crate::control::{LateArea, unexpected};
use crate::error::{AreaError, Fail};
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_abi::{Address, Code, Extent};
use m3ipc_area::BlockLifetime;
use m3ipc_shm::Observed;
use m3ipc_sys::Errno;
use m3ipc_wire::{AreaEvent, AreaReply, AreaRequest, Reply, Request};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The least size of a requested extent in bytes.
const EXTENT_LEAST_BYTES: u64 = 1 << 20;
/// Changes of the address range of a new area before its creator gives up: two ranges, each twice.
const RANGE_TRIES: u32 = 3;

/// Attempts to get an extent in a full area, and the pause between two of them.
const ROOM_TRIES: u32 = 5;
const ROOM_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);
/// The least time from one wait for room to the next one of all stand-ins of a process: a proxy
/// serves all pairs in one thread, and the full area of one pair must not delay the others.
const ROOM_WAITS_APART_NS: u64 = 100_000_000;
/// When a stand-in of this process began its latest wait for room.
static LATEST_ROOM_WAIT_NS: AtomicU64 = AtomicU64::new(0);

impl Endpoint {
    /// Creates an area and attaches it. The example is at [`Area`].
    ///
    /// # Errors
    /// - [`AreaError::BadSize`] for a bad limit.
    /// - [`AreaError::Denied`] if the VM does not allow it.
    /// - [`AreaError::NoResources`] if memory or addresses are used up.
    /// - [`AreaError::AddressInUse`] if another mapping lies at the address.
    pub fn create_area(&mut self, config: &AreaConfig) -> Result<Area, AreaError> {
        self.disarm();
        let limit = DaemonLimit::default_from_now();
        let mut low = self.areas.begins_low();
        let mut conflicts = 0;
        let joined = loop {
            let params = config.to_wire(m3ipc_sys::page_bytes(), low);
            match self.join(&AreaRequest::Create(params), config.mapping(), limit, Unmapped::Await)
            {
                Err(fail) if is_area_lost(&fail) && !limit.has_passed() => {}
                // Another mapping lies there. A tool may have taken the whole range.
                Err(fail) if fail.code == Code::RscBusy && conflicts < RANGE_TRIES => {
                    conflicts += 1;
                    low = !low;
                }
                other => break other?,
            }
        };
        if conflicts > 0 {
            self.areas.begin_low(low);
        }
        if config.wants_transparent() {
            // Kernels without transparent huge pages use small pages.
            let _ = joined.region.want_huge_pages();
        }
        Ok(Area::new(&joined))
    }

    /// Attaches an area by its number. Returns the same area if it is attached already.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::AreaConfig;
    ///
    /// let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// assert_eq!(server.attach_area(area.id())?.base(), area.base());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`AreaError::Unknown`] if there is no such area.
    /// - [`AreaError::Denied`] if the endpoint is not in the audience.
    /// - [`AreaError::Orphaned`] if the daemon of the area was killed.
    /// - [`AreaError::AddressInUse`] if another mapping lies at the address.
    pub fn attach_area(&mut self, id: u32) -> Result<Area, AreaError> {
        self.disarm();
        let limit = DaemonLimit::default_from_now();
        let state = self.attach(id, AreaMapping::Whole, limit, Unmapped::Await)?;
        Ok(Area::new(&state))
    }

    /// The area with this number, attached now if it was not.
    pub(super) fn attach(
        &mut self,
        id: u32,
        mapping: AreaMapping,
        limit: DaemonLimit,
        unmapped: Unmapped,
    ) -> Result<Arc<AreaState>, Fail> {
        let Some(state) = self.areas.get(id) else {
            return self.join(&AreaRequest::Attach(id), mapping, limit, unmapped);
        };
        if mapping != AreaMapping::ByNeed {
            state.map_whole()?;
        }
        Ok(Arc::clone(state))
    }

    pub(super) fn join(
        &mut self,
        request: &AreaRequest,
        mapping: AreaMapping,
        limit: DaemonLimit,
        unmapped: Unmapped,
    ) -> Result<Arc<AreaState>, Fail> {
        self.membership.check_bound()?;
        self.maintain_areas();
        let limit = limit.begun();
        let LateArea { info, index, fds, events } = self.ask_to_join(request, limit, unmapped)?;
        let id = info.area;
        let me = self.membership.address();
        let mapping = (mapping, self.session.returns_count());
        let state = match AreaState::map(info, index, fds, me, mapping) {
            Ok(state) => Arc::new(state),
            Err(fail) => {
                self.session.control_mut().request_later(&detach(id));
                return Err(fail);
            }
        };
        m3ipc_sys::pause_point("client.area_mapped");
        self.areas.insert(Arc::clone(&state));
        for (event, fds) in events {
            self.apply_area_event(event, fds);
        }
        let reply = self.ask_within(&Request::Area(AreaRequest::Mapped(id)), limit);
        self.receive_area_events();
        if let Err(fail) = reply {
            self.leave_area(id);
            return Err(fail);
        }
        Ok(state)
    }

    /// Asks for the memory of an area. A request that was given up may have brought it.
    fn ask_to_join(
        &mut self,
        request: &AreaRequest,
        limit: DaemonLimit,
        unmapped: Unmapped,
    ) -> Result<LateArea, Fail> {
        let wanted = Request::Area(request.clone());
        loop {
            match self.ask_to_limit(&wanted, limit) {
                Ok((Reply::Area(AreaReply::Joined { info, index }), fds)) => {
                    // The reply to an earlier request for it may have come too.
                    let earlier = self.late_area(&AreaRequest::Attach(info.area));
                    let events = earlier.map_or_else(Vec::new, |late| late.events);
                    return Ok(LateArea { info, index, fds, events });
                }
                Ok(_) => return Err(unexpected()),
                Err(fail) if fail.code == Code::Again && unmapped == Unmapped::Refuse => {
                    return Err(Fail::new(Code::PeerBroke, fail.why()));
                }
                Err(fail) if fail.code == Code::Again && !limit.has_passed() => {
                    std::thread::sleep(std::time::Duration::from_millis(1))
                }
                Err(fail) => {
                    let late = self.late_area(request);
                    return late.ok_or_else(|| match fail.code {
                        Code::TimedOut => limit.failure(|| self.session.control().why_silent()),
                        _ => fail,
                    });
                }
            }
        }
    }

    /// The memory of an area that came after its request was given up. The daemon refuses a second
    /// request for it. Leaves areas that nobody wants any more.
    fn late_area(&mut self, request: &AreaRequest) -> Option<LateArea> {
        let mut found = None;
        while let Some(late) = self.session.control_mut().take_late_area() {
            if found.is_none() && *request == AreaRequest::Attach(late.info.area) {
                found = Some(late);
            } else {
                self.session.control_mut().request_later(&detach(late.info.area));
            }
        }
        found
    }

    /// Leaves an area without waiting for the daemon.
    pub(super) fn leave_area(&mut self, id: u32) {
        self.areas.remove(id);
        self.forget_common_ranges();
        self.session.control_mut().request_later(&detach(id));
    }

    /// Leaves an area. Blocks that this endpoint holds return to their allocator members. Its own
    /// blocks stay until they come back. The example is at [`attached`](Self::attached).
    ///
    /// # Errors
    /// [`AreaError::Unbound`], and others.
    pub fn detach_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.disarm();
        self.membership.check_bound()?;
        self.areas.remove(area.id());
        self.forget_common_ranges();
        self.ask_within(&detach(area.id()), DaemonLimit::default_from_now())?;
        Ok(())
    }

    /// Closes an area to new members. The area ends with its last member. The example is at
    /// [`attached`](Self::attached).
    ///
    /// # Errors
    /// [`AreaError::Denied`] for every endpoint but the creator.
    pub fn close_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.disarm();
        self.membership.check_bound()?;
        let request = Request::Area(AreaRequest::Close(area.id()));
        self.ask_within(&request, DaemonLimit::default_from_now())?;
        Ok(())
    }

    /// The area with this number, if it is attached: by [`attach_area`](Self::attach_area) or
    /// because a block came from it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// let area = client.create_area(&m3ipc::AreaConfig::vm(1 << 20))?;
    /// assert_eq!(client.attached(area.id()).map(|area| area.base()), Some(area.base()));
    /// assert_eq!(client.area_at(area.base() + 5).map(|area| area.id()), Some(area.id()));
    /// client.close_area(&area)?;
    /// assert!(server.attach_area(area.id()).is_err(), "it is closed to new members");
    /// client.detach_area(&area)?;
    /// assert!(client.attached(area.id()).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn attached(&self, id: u32) -> Option<Area> {
        self.areas.get(id).filter(|state| state.map_whole().is_ok()).map(Area::new)
    }

    /// The attached area that contains this memory address. The example is at
    /// [`attached`](Self::attached).
    #[must_use]
    pub fn area_at(&self, address: u64) -> Option<Area> {
        self.areas.at(address).filter(|state| state.map_whole().is_ok()).map(Area::new)
    }

    /// Allocates a block of `bytes` bytes. Requests an extent from the daemon if none has the
    /// space. The example is at [`Area`].
    ///
    /// # Errors
    /// - [`AreaError::Full`] if the area has no space left.
    /// - [`AreaError::Denied`] if only the owner allocates.
    /// - [`AreaError::NoResources`] if the machine has no memory left.
    pub fn allocate(
        &mut self,
        area: &Area,
        bytes: u64,
        kind: BlockLifetime,
    ) -> Result<Block, AreaError> {
        self.disarm();
        let limit = DaemonLimit::default_from_now();
        Ok(self.allocate_in(area.state(), bytes, 64, kind, limit)?)
    }

    /// Allocates a block of whole pages, so that a send can remove it from the sender's address
    /// space: see [`Hold::Taken`](crate::Hold::Taken).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{AreaConfig, BlockLifetime};
    ///
    /// let area = client.create_area(&AreaConfig::vm(1 << 20))?;
    /// let block = client.allocate_pages(&area, 100, BlockLifetime::Long)?;
    /// assert_eq!((block.bytes(), block.capacity_bytes()), (100, 4096));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn allocate_pages(
        &mut self,
        area: &Area,
        bytes: u64,
        kind: BlockLifetime,
    ) -> Result<Block, AreaError> {
        self.disarm();
        let page = if area.state().info.huge { HUGE_PAGE_BYTES } else { m3ipc_sys::page_bytes() };
        let whole = m3ipc_sys::whole_pages(bytes.max(1), page);
        let limit = DaemonLimit::default_from_now();
        let mut block = self.allocate_in(area.state(), whole, page, kind, limit)?;
        block.set_bytes(bytes)?;
        Ok(block)
    }

    pub(super) fn allocate_in(
        &mut self,
        area: &Arc<AreaState>,
        bytes: u64,
        align: u64,
        kind: BlockLifetime,
        limit: DaemonLimit,
    ) -> Result<Block, Fail> {
        area.check_process()?;
        self.receive_area_events_if_any();
        let mut member = area.member();
        member.mark_events_received();
        let tried = member.allocate(bytes, align, kind);
        drop(member);
        let held = match tried {
            Ok(held) => held,
            Err(full) => self.allocate_anew(area, (bytes, align, kind), full.bytes, limit)?,
        };
        Block::of_held(area, held)
    }

    #[cold]
    fn allocate_anew(
        &mut self,
        area: &Arc<AreaState>,
        (bytes, align, kind): (u64, u64, BlockLifetime),
        needed: u64,
        limit: DaemonLimit,
    ) -> Result<m3ipc_area::HeldBlock, Fail> {
        self.membership.check_bound()?;
        let limit = limit.begun();
        self.receive_area_events();
        let mut member = area.member();
        member.mark_events_received();
        if let Ok(held) = member.allocate(bytes, align, kind) {
            return Ok(held);
        }
        let (_, total) = member.free_and_total_bytes();
        drop(member);
        let most = area.info.limit_bytes / 4;
        // An extent begins on a page, so page-aligned blocks need no space for alignment.
        let page = m3ipc_sys::page_bytes();
        let needed = if align <= page || area.info.huge { bytes.max(1) } else { needed };
        let needed = m3ipc_sys::whole_pages(needed, page);
        let wanted = needed.max(total.max(EXTENT_LEAST_BYTES).min(most));
        let request = AreaRequest::Extent {
            area: area.info.area,
            needed,
            wanted,
            from_back: kind == BlockLifetime::Long,
        };
        let asked = self.ask_for_extent(&request, limit);
        if asked.is_err() {
            self.session.control_mut().note_failed_extent(area.info.area);
        }
        let extent = match asked {
            Ok(extent) => extent,
            // Blocks may have come back meanwhile.
            Err(fail) if fail.code == Code::AllocMem => {
                self.receive_area_events();
                let mut member = area.member();
                member.mark_events_received();
                return member.allocate(bytes, align, kind).map_err(|_full| fail);
            }
            Err(fail) => return Err(fail),
        };
        m3ipc_sys::pause_point("client.extent_given");
        // The range may have been another extent, whose end is an event from before the reply.
        self.receive_area_events();
        self.reserve(area, extent, limit)?;
        if area.prefault {
            let (offset, bytes) = (usize::try_from(extent.offset), usize::try_from(extent.bytes));
            if let (Ok(offset), Ok(bytes)) = (offset, bytes) {
                // On failure the kernel maps the pages at their first access.
                let _ = area.region.prefault(offset, bytes);
            }
        }
        let mut member = area.member();
        member.learn_extent(extent);
        member
            .allocate(bytes, align, kind)
            .map_err(|full| Fail::new(Code::AllocMem, full.to_string()))
    }

    /// Reserves the memory of a new extent. Without memory the extent returns to the daemon, since
    /// no member would ever allocate there.
    fn reserve(
        &mut self,
        area: &Arc<AreaState>,
        extent: Extent,
        limit: DaemonLimit,
    ) -> Result<(), Fail> {
        let Extent { offset, bytes, .. } = extent;
        let reserved = loop {
            match m3ipc_sys::reserve_memory(&area.memory, offset, bytes) {
                // On old kernels every signal ends it.
                Err(Errno::INTR) if !limit.has_passed() => {}
                reserved => break reserved,
            }
        };
        reserved.map_err(|errno| {
            // A daemon that took over does not have the memory. A sealed one stays.
            let _ = m3ipc_sys::release_memory(&area.memory, offset, bytes);
            let release = AreaRequest::Release { area: area.info.area, offset };
            self.session.control_mut().request_later(&Request::Area(release));
            Fail::new(Code::NoMem, format!("no memory for {bytes} bytes of area: {errno}"))
        })
    }

    /// An extent from the daemon. Other members return unused extents in a full area, if they run.
    fn ask_for_extent(
        &mut self,
        request: &AreaRequest,
        limit: DaemonLimit,
    ) -> Result<Extent, Fail> {
        let limit = limit.begun();
        let mut tries = ROOM_TRIES;
        loop {
            match self.ask_area(request, limit) {
                Ok((AreaReply::Extent(extent), _)) => return Ok(extent),
                Ok(_) => return Err(unexpected()),
                Err(fail) if fail.code == Code::AllocMem && tries > 0 && !limit.has_passed() => {
                    if tries == ROOM_TRIES && !self.may_wait_for_room() {
                        return Err(fail);
                    }
                    tries -= 1;
                    std::thread::sleep(ROOM_PAUSE);
                }
                Err(fail) => return Err(fail),
            }
        }
    }

    fn may_wait_for_room(&self) -> bool {
        if !self.is_one_stand_in() {
            return true;
        }
        let now_ns = m3ipc_sys::monotonic_ns();
        let latest_ns = LATEST_ROOM_WAIT_NS.load(Ordering::Relaxed);
        let is_due = latest_ns == 0 || now_ns.saturating_sub(latest_ns) >= ROOM_WAITS_APART_NS;
        if is_due {
            LATEST_ROOM_WAIT_NS.store(now_ns, Ordering::Relaxed);
        }
        is_due
    }

    /// The index of a member in the area, for a give.
    pub(super) fn member_index(
        &mut self,
        area: &Arc<AreaState>,
        to: Address,
        limit: DaemonLimit,
    ) -> Result<u16, Fail> {
        area.check_process()?;
        if to == self.membership.address() {
            let why = format!("endpoint {to} is the caller itself; give the block to another one");
            return Err(Fail::new(Code::Endpoint, why));
        }
        if let Some(index) = area.member().find(to) {
            return Ok(index);
        }
        self.receive_area_events();
        if let Some(index) = area.member().find(to) {
            return Ok(index);
        }
        let request = AreaRequest::Index { area: area.info.area, address: to.0 };
        let (Reply::Number(number), _) = self.ask_within(&Request::Area(request), limit)? else {
            return Err(unexpected());
        };
        let index = u16::try_from(number).map_err(|_| unexpected())?;
        area.member().expect_member(index, to);
        Ok(index)
    }

    fn ask_area(
        &mut self,
        request: &AreaRequest,
        limit: DaemonLimit,
    ) -> Result<(AreaReply, Vec<OwnedFd>), Fail> {
        match self.ask_within(&Request::Area(request.clone()), limit)? {
            (Reply::Area(reply), fds) => Ok((reply, fds)),
            _ => Err(unexpected()),
        }
    }

    /// Applies events about areas if the daemon has sent any; one load if it has not.
    #[inline]
    pub(super) fn receive_area_events_if_any(&mut self) {
        if self.session.has_events_by(Ordering::SeqCst) {
            self.receive_area_events();
        }
    }

    /// Applies events about areas ahead of all other events.
    #[cold]
    pub(super) fn receive_area_events(&mut self) {
        for (event, fds) in self.session.control_mut().take_area_events() {
            self.apply_area_event(event, fds);
        }
    }

    pub(super) fn apply_area_event(&mut self, event: AreaEvent, fds: Vec<OwnedFd>) {
        self.fast.close();
        let (AreaEvent::Member { area, .. }
        | AreaEvent::Expected { area, .. }
        | AreaEvent::Left { area, .. }
        | AreaEvent::Extent { area, .. }
        | AreaEvent::FindOrphans { area }
        | AreaEvent::RoomWanted { area }
        | AreaEvent::ExtentGone { area, .. }) = event;
        let Some(state) = self.areas.get_changing(area).map(Arc::clone) else {
            return self.session.control_mut().keep_for_late_area(area, event, fds);
        };
        let mut member = state.member();
        match &event {
            AreaEvent::Member { index, address, .. } => {
                let ledger = fds.into_iter().next();
                let bytes = m3ipc_area::ledger_bytes(state.info.numbers);
                let ledger = ledger.and_then(|fd| Observed::map_sparse(fd, bytes).ok());
                // Without its ledger no claim of the member can be checked, so nothing is accepted
                // from it.
                match ledger {
                    Some(ledger) => member.learn_member(*index, Address(*address), ledger),
                    None => member.expect_member(*index, Address(*address)),
                }
            }
            AreaEvent::Expected { index, address, .. } => {
                member.expect_member(*index, Address(*address))
            }
            AreaEvent::Left { index, died, .. } => {
                member.member_left(*index);
                drop(member);
                if *died {
                    state.note_death(*index);
                }
                let is_ownerless = state.has_lost_owner(self.membership.address());
                self.areas.note_member_left(is_ownerless.then_some(area));
            }
            AreaEvent::Extent { extent, .. } => member.learn_extent(*extent),
            AreaEvent::ExtentGone { offset, .. } => member.forget_extent(*offset),
            AreaEvent::RoomWanted { area } => self.areas.note_room_wanted(*area),
            AreaEvent::FindOrphans { area } => {
                for index in member.orphaned_extents() {
                    let orphaned = AreaRequest::Orphaned { area: *area, index };
                    // If the daemon is gone, its successor asks again.
                    let _ = self.session.control().send(&Request::Area(orphaned));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pages;

    #[test]
    fn an_allocation_without_memory_uses_up_nothing_of_the_area() {
        let node = crate::test::node();
        let (mut own, _other) = node.pair();
        let Ok(area) = own.create_area(&AreaConfig::vm(4 << 20).pages(Pages::Huge)) else {
            return println!("SKIP: this kernel has no huge pages");
        };
        // More extents than the area has room for.
        for attempt in 0..8 {
            match own.allocate(&area, 1 << 20, BlockLifetime::Short) {
                Ok(_block) => return println!("SKIP: the pool of huge pages has some"),
                Err(error) => assert_eq!(error.code(), Code::NoMem, "{attempt}: {error}"),
            }
        }
    }
}
