//! Areas of an endpoint: made, joined, left, and what the daemon tells of them.

use super::Endpoint;
use crate::area::{Area, AreaConfig, AreaError, Block, Inner, Pages};
use crate::control::unexpected;
use crate::error::Fail;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_area::BlockLifetime;
use m3ipc_shm::Observed;
use m3ipc_wire::{AreaEvent, AreaReply, AreaRequest, Reply, Request};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The least that is asked for when room is short, in bytes.
const EXTENT_LEAST_BYTES: u64 = 1 << 20;

/// What an endpoint has of areas.
#[derive(Debug, Default)]
pub(super) struct Areas {
    pub(super) list: HashMap<u32, Arc<Inner>>,
    /// Counts what has changed in areas and their members.
    pub(super) changes: u32,
    /// Areas that large payloads travel in, by peer.
    pub(super) pairs: HashMap<i32, u32>,
    /// The block that came with the message taken last.
    pub(super) came: Option<Result<Block, AreaError>>,
}

impl Endpoint {
    /// Makes an area, and attaches it.
    ///
    /// # Errors
    /// [`AreaError`]: -338 bad limit, -335, -12 no memory or no addresses, -342 something is mapped there.
    pub fn create_area(&mut self, config: &AreaConfig) -> Result<Area, AreaError> {
        let joined = self.join(&AreaRequest::Create(config.rounded()), config.prefault)?;
        if config.pages == Pages::Transparent {
            // A wish: kernels without them go on with small ones.
            let _ = joined.inner.ground.want_huge_pages();
        }
        Ok(joined)
    }

    /// Attaches the area of this number. One that is attached already is given once more.
    ///
    /// # Errors
    /// [`AreaError`]: -316 no such area, -335 not in its audience, -106 its daemon was killed, -342 something is mapped there.
    pub fn attach_area(&mut self, id: u32) -> Result<Area, AreaError> {
        if let Some(inner) = self.areas.list.get(&id) {
            return Ok(Area { inner: Arc::clone(inner) });
        }
        Ok(self.join(&AreaRequest::Attach(id), false)?)
    }

    fn join(&mut self, request: &AreaRequest, prefault: bool) -> Result<Area, Fail> {
        self.stand()?;
        let (info, index, fds) = loop {
            match self.ask_area(request) {
                Ok((AreaReply::Joined { info, index }, fds)) => break (info, index, fds),
                Ok(_) => return Err(unexpected()),
                // Its owner is just about to be ready.
                Err(fail) if fail.code == Code::Again => {
                    std::thread::sleep(std::time::Duration::from_millis(1))
                }
                Err(fail) => return Err(fail),
            }
        };
        let id = info.area;
        let mapped = Inner::map(info, index, fds, self.address, prefault);
        let inner = match mapped {
            Ok(inner) => Arc::new(inner),
            Err(fail) => {
                let _ = self.control.request(&Request::Area(AreaRequest::Detach(id)));
                return Err(fail);
            }
        };
        m3ipc_sys::pause_point("client.area_mapped");
        self.areas.list.insert(id, Arc::clone(&inner));
        self.areas.changes = self.areas.changes.wrapping_add(1);
        let told = self.control.request(&Request::Area(AreaRequest::Mapped(id)));
        self.hear_areas();
        if let Err(fail) = told {
            self.areas.list.remove(&id);
            self.reattach_if_cut();
            let _ = self.control.request(&Request::Area(AreaRequest::Detach(id)));
            return Err(fail);
        }
        Ok(Area { inner })
    }

    /// Leaves an area: what it holds there is its homes' again, its own blocks stay until they come back.
    ///
    /// # Errors
    /// [`AreaError`].
    pub fn detach_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.stand()?;
        self.areas.list.remove(&area.id());
        self.forget_common();
        self.areas.pairs.retain(|_, id| *id != area.id());
        self.control.request(&Request::Area(AreaRequest::Detach(area.id())))?;
        Ok(())
    }

    /// Lets nobody new join an area, which ends when the last has left it.
    ///
    /// # Errors
    /// [`AreaError`] with -335 for all but its maker.
    pub fn close_area(&mut self, area: &Area) -> Result<(), AreaError> {
        self.stand()?;
        self.control.request(&Request::Area(AreaRequest::Close(area.id())))?;
        Ok(())
    }

    /// The area of this number, if it is attached, by oneself or with a block that came.
    #[must_use]
    pub fn attached(&self, id: u32) -> Option<Area> {
        self.areas.list.get(&id).map(|inner| Area { inner: Arc::clone(inner) })
    }

    /// The area that this address of memory lies in, if it is an attached one.
    #[must_use]
    pub fn area_at(&self, address: u64) -> Option<Area> {
        let inside = |inner: &&Arc<Inner>| {
            address
                .checked_sub(inner.info.base)
                .is_some_and(|offset| offset < inner.info.limit_bytes)
        };
        self.areas.list.values().find(inside).map(|inner| Area { inner: Arc::clone(inner) })
    }

    /// Allocates a block of so many bytes. Room is made where there is none, up to the area's limit.
    ///
    /// # Errors
    /// [`AreaError`] with -344 where the area is full, -335 where only its owner allocates, -12 no memory.
    pub fn allocate(
        &mut self,
        area: &Area,
        bytes: u64,
        kind: BlockLifetime,
    ) -> Result<Block, AreaError> {
        Ok(self.allocate_in(&area.inner, bytes, 64, kind)?)
    }

    /// The same in whole pages, so that it can be taken from its giver when it is sent.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn allocate_pages(
        &mut self,
        area: &Area,
        bytes: u64,
        kind: BlockLifetime,
    ) -> Result<Block, AreaError> {
        let page = if area.inner.info.huge { 2 << 20 } else { 4096 };
        let whole = bytes.max(1).checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let mut block = self.allocate_in(&area.inner, whole, page, kind)?;
        block.set_bytes(bytes)?;
        Ok(block)
    }

    pub(super) fn allocate_in(
        &mut self,
        area: &Arc<Inner>,
        bytes: u64,
        align: u64,
        kind: BlockLifetime,
    ) -> Result<Block, Fail> {
        self.hear_areas_if_any();
        let mut side = area.side();
        side.mark_events_received();
        let tried = side.allocate(bytes, align, kind);
        drop(side);
        let held = match tried {
            Ok(held) => held,
            Err(full) => self.allocate_anew(area, (bytes, align, kind), full.bytes)?,
        };
        Block::of_held(area, held)
    }

    #[cold]
    fn allocate_anew(
        &mut self,
        area: &Arc<Inner>,
        (bytes, align, kind): (u64, u64, BlockLifetime),
        needed: u64,
    ) -> Result<m3ipc_area::HeldBlock, Fail> {
        self.stand()?;
        self.hear_areas();
        let mut side = area.side();
        side.mark_events_received();
        if let Ok(held) = side.allocate(bytes, align, kind) {
            return Ok(held);
        }
        let (_, total) = side.free_and_total_bytes();
        drop(side);
        let most = area.info.limit_bytes / 4;
        // Of whole pages the beginning is aligned, and needs no more than the block.
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
                // Where it cannot be done ahead it is done when the pages are touched.
                let _ = area.ground.prefault(offset, bytes);
            }
        }
        let mut side = area.side();
        side.learn_extent(extent);
        side.allocate(bytes, align, kind)
            .map_err(|full| Fail::new(Code::AllocMem, full.to_string()))
    }

    /// The index of a member, so that it can be given blocks.
    pub(super) fn member_index(&mut self, area: &Arc<Inner>, to: Address) -> Result<u16, Fail> {
        if let Some(index) = area.side().find(to) {
            return Ok(index);
        }
        self.hear_areas();
        if let Some(index) = area.side().find(to) {
            return Ok(index);
        }
        let request = AreaRequest::Index { area: area.info.area, address: to.0 };
        let (Reply::Number(number), _) = self.control.request(&Request::Area(request))? else {
            return Err(unexpected());
        };
        let index = u16::try_from(number).map_err(|_| unexpected())?;
        area.side().expect_member(index, to);
        Ok(index)
    }

    fn ask_area(&mut self, request: &AreaRequest) -> Result<(AreaReply, Vec<OwnedFd>), Fail> {
        let request = Request::Area(request.clone());
        let answer = match self.control.request(&request) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_cut();
                self.control.request(&request)
            }
            other => other,
        };
        match answer? {
            (Reply::Area(reply), fds) => Ok((reply, fds)),
            _ => Err(unexpected()),
        }
    }

    /// Hears of members and extents, if the daemon has anything to tell: one load where it has not.
    #[inline]
    pub(super) fn hear_areas_if_any(&mut self) {
        if self.desk.event_word().load(Ordering::SeqCst) != self.news_seen {
            self.hear_areas();
        }
    }

    /// Hears of members and extents ahead of all other news.
    #[cold]
    pub(super) fn hear_areas(&mut self) {
        for (news, fds) in self.control.take_area_news() {
            self.area_news(&news, fds);
        }
    }

    pub(super) fn area_news(&mut self, news: &AreaEvent, fds: Vec<OwnedFd>) {
        let (AreaEvent::Member { area, .. }
        | AreaEvent::Expected { area, .. }
        | AreaEvent::Left { area, .. }
        | AreaEvent::Extent { area, .. }
        | AreaEvent::FindOrphans { area }
        | AreaEvent::ExtentGone { area, .. }) = news;
        let Some(inner) = self.areas.list.get(area) else { return };
        self.areas.changes = self.areas.changes.wrapping_add(1);
        let mut side = inner.side();
        match news {
            AreaEvent::Member { index, address, .. } => {
                let ledger = fds.into_iter().next();
                let bytes = m3ipc_area::ledger_bytes(inner.info.numbers);
                let ledger = ledger.and_then(|fd| Observed::map_sparse(fd, bytes).ok());
                // One that cannot be mapped is one whose claims are never believed: nothing is accepted from it.
                match ledger {
                    Some(ledger) => side.learn_member(*index, Address(*address), ledger),
                    None => side.expect_member(*index, Address(*address)),
                }
            }
            AreaEvent::Expected { index, address, .. } => {
                side.expect_member(*index, Address(*address))
            }
            AreaEvent::Left { index, .. } => side.member_left(*index),
            AreaEvent::Extent { extent, .. } => side.learn_extent(*extent),
            AreaEvent::ExtentGone { offset, .. } => side.forget_extent(*offset),
            AreaEvent::FindOrphans { area } => {
                for index in side.orphaned_extents() {
                    let deserted = AreaRequest::Orphaned { area: *area, index };
                    // Where the daemon has gone the next one asks again.
                    let _ = self.control.send(&Request::Area(deserted));
                }
            }
        }
    }

    /// After a takeover: what the former daemon may not have told of areas.
    pub(super) fn recall_areas(&mut self) -> Result<(), Fail> {
        let areas: Vec<u32> = self.areas.list.keys().copied().collect();
        for area in areas {
            self.control.request(&Request::Area(AreaRequest::Recall(area)))?;
        }
        Ok(())
    }
}
