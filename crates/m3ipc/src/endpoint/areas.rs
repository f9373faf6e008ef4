//! Areas of an endpoint: create, attach, detach, and the daemon's events about them.

use super::Endpoint;
use crate::area::{Area, AreaConfig, AreaState, Block};
use crate::control::unexpected;
use crate::error::{AreaError, Fail};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_area::BlockLifetime;
use m3ipc_shm::Observed;
use m3ipc_wire::{AreaEvent, AreaReply, AreaRequest, Reply, Request};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The least size of a requested extent in bytes.
const EXTENT_LEAST_BYTES: u64 = 1 << 20;

impl Endpoint {
    /// Creates an area and attaches it. The example is at [`Area`].
    ///
    /// # Errors
    /// - [`AreaError::BadSize`] for a bad limit.
    /// - [`AreaError::Denied`] if the VM does not allow it.
    /// - [`AreaError::NoResources`] if memory or addresses are used up.
    /// - [`AreaError::AddressInUse`] if another mapping lies at the address.
    pub fn create_area(&mut self, config: &AreaConfig) -> Result<Area, AreaError> {
        let joined = self.join(&AreaRequest::Create(config.to_wire()), config.wants_prefault())?;
        if config.wants_transparent() {
            // Kernels without transparent huge pages use small pages.
            let _ = joined.state().region.want_huge_pages();
        }
        Ok(joined)
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
        if let Some(state) = self.areas.get(id) {
            return Ok(Area::new(state));
        }
        Ok(self.join(&AreaRequest::Attach(id), false)?)
    }

    fn join(&mut self, request: &AreaRequest, prefault: bool) -> Result<Area, Fail> {
        self.check_bound()?;
        let (info, index, fds) = loop {
            match self.ask_area(request) {
                Ok((AreaReply::Joined { info, index }, fds)) => break (info, index, fds),
                Ok(_) => return Err(unexpected()),
                // The creator has not mapped the area yet.
                Err(fail) if fail.code == Code::Again => {
                    std::thread::sleep(std::time::Duration::from_millis(1))
                }
                Err(fail) => return Err(fail),
            }
        };
        let id = info.area;
        let mapped = AreaState::map(info, index, fds, self.address, prefault);
        let state = match mapped {
            Ok(state) => Arc::new(state),
            Err(fail) => {
                let _ = self.control.request(&Request::Area(AreaRequest::Detach(id)));
                return Err(fail);
            }
        };
        m3ipc_sys::pause_point("client.area_mapped");
        self.areas.insert(Arc::clone(&state));
        let reply = self.control.request(&Request::Area(AreaRequest::Mapped(id)));
        self.receive_area_events();
        if let Err(fail) = reply {
            self.areas.remove_unconfirmed(id);
            self.reattach_if_closed();
            let _ = self.control.request(&Request::Area(AreaRequest::Detach(id)));
            return Err(fail);
        }
        Ok(Area::new(&state))
    }

    /// Leaves an area. Blocks that this endpoint holds return to their allocator members. Its own
    /// blocks stay until they come back. The example is at [`attached`](Self::attached).
    ///
    /// # Errors
    /// [`AreaError::Unbound`], and others.
    pub fn detach_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.check_bound()?;
        self.areas.remove(area.id());
        self.forget_common_ranges();
        self.control.request(&Request::Area(AreaRequest::Detach(area.id())))?;
        Ok(())
    }

    /// Closes an area to new members. The area ends with its last member. The example is at
    /// [`attached`](Self::attached).
    ///
    /// # Errors
    /// [`AreaError::Denied`] for every endpoint but the creator.
    pub fn close_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.check_bound()?;
        self.control.request(&Request::Area(AreaRequest::Close(area.id())))?;
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
        self.areas.get(id).map(Area::new)
    }

    /// The attached area that contains this memory address. The example is at
    /// [`attached`](Self::attached).
    #[must_use]
    pub fn area_at(&self, address: u64) -> Option<Area> {
        self.areas.at(address).map(Area::new)
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
        Ok(self.allocate_in(area.state(), bytes, 64, kind)?)
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
        let page = if area.state().info.huge { 2 << 20 } else { 4096 };
        let whole = bytes.max(1).checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let mut block = self.allocate_in(area.state(), whole, page, kind)?;
        block.set_bytes(bytes)?;
        Ok(block)
    }

    pub(super) fn allocate_in(
        &mut self,
        area: &Arc<AreaState>,
        bytes: u64,
        align: u64,
        kind: BlockLifetime,
    ) -> Result<Block, Fail> {
        self.receive_area_events_if_any();
        let mut member = area.member();
        member.mark_events_received();
        let tried = member.allocate(bytes, align, kind);
        drop(member);
        let held = match tried {
            Ok(held) => held,
            Err(full) => self.allocate_anew(area, (bytes, align, kind), full.bytes)?,
        };
        Block::of_held(area, held)
    }

    #[cold]
    fn allocate_anew(
        &mut self,
        area: &Arc<AreaState>,
        (bytes, align, kind): (u64, u64, BlockLifetime),
        needed: u64,
    ) -> Result<m3ipc_area::HeldBlock, Fail> {
        self.check_bound()?;
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
        let needed = if align <= 4096 || area.info.huge { bytes.max(1) } else { needed };
        let needed = needed.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let wanted = needed.max(total.max(EXTENT_LEAST_BYTES).min(most));
        let request = AreaRequest::Extent {
            area: area.info.area,
            needed,
            wanted,
            from_back: kind == BlockLifetime::Long,
        };
        let AreaReply::Extent(extent) = self.ask_area(&request)?.0 else {
            return Err(unexpected());
        };
        m3ipc_sys::pause_point("client.extent_given");
        m3ipc_sys::reserve_memory(&area.memory, extent.offset, extent.bytes).map_err(|errno| {
            Fail::new(Code::NoMem, format!("no memory for {} bytes of area: {errno}", extent.bytes))
        })?;
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

    /// The index of a member in the area, for a give.
    pub(super) fn member_index(&mut self, area: &Arc<AreaState>, to: Address) -> Result<u16, Fail> {
        if let Some(index) = area.member().find(to) {
            return Ok(index);
        }
        self.receive_area_events();
        if let Some(index) = area.member().find(to) {
            return Ok(index);
        }
        let request = AreaRequest::Index { area: area.info.area, address: to.0 };
        let (Reply::Number(number), _) = self.control.request(&Request::Area(request))? else {
            return Err(unexpected());
        };
        let index = u16::try_from(number).map_err(|_| unexpected())?;
        area.member().expect_member(index, to);
        Ok(index)
    }

    fn ask_area(&mut self, request: &AreaRequest) -> Result<(AreaReply, Vec<OwnedFd>), Fail> {
        let request = Request::Area(request.clone());
        let answer = match self.control.request(&request) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_closed();
                self.control.request(&request)
            }
            other => other,
        };
        match answer? {
            (Reply::Area(reply), fds) => Ok((reply, fds)),
            _ => Err(unexpected()),
        }
    }

    /// Applies events about areas if the daemon has sent any; one load if it has not.
    #[inline]
    pub(super) fn receive_area_events_if_any(&mut self) {
        if self.control_page.event_word().load(Ordering::SeqCst) != self.events_seen {
            self.receive_area_events();
        }
    }

    /// Applies events about areas ahead of all other events.
    #[cold]
    pub(super) fn receive_area_events(&mut self) {
        for (event, fds) in self.control.take_area_events() {
            self.apply_area_event(&event, fds);
        }
    }

    pub(super) fn apply_area_event(&mut self, event: &AreaEvent, fds: Vec<OwnedFd>) {
        let (AreaEvent::Member { area, .. }
        | AreaEvent::Expected { area, .. }
        | AreaEvent::Left { area, .. }
        | AreaEvent::Extent { area, .. }
        | AreaEvent::FindOrphans { area }
        | AreaEvent::ExtentGone { area, .. }) = event;
        let Some(state) = self.areas.get_changing(*area) else { return };
        let mut member = state.member();
        match event {
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
            AreaEvent::Left { index, .. } => member.member_left(*index),
            AreaEvent::Extent { extent, .. } => member.learn_extent(*extent),
            AreaEvent::ExtentGone { offset, .. } => member.forget_extent(*offset),
            AreaEvent::FindOrphans { area } => {
                for index in member.orphaned_extents() {
                    let orphaned = AreaRequest::Orphaned { area: *area, index };
                    // If the daemon is gone, its successor asks again.
                    let _ = self.control.send(&Request::Area(orphaned));
                }
            }
        }
    }

    /// After a takeover: asks for the area events that the former daemon may not have sent.
    pub(super) fn recall_areas(&mut self) -> Result<(), Fail> {
        for area in self.areas.numbers() {
            self.control.request(&Request::Area(AreaRequest::Recall(area)))?;
        }
        Ok(())
    }
}
