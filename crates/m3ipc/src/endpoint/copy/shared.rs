//! The way between areas: what lies in an area that the requester has attached as well, it copies by itself.
//!
//! The party lies still as for every copy. No grant is asked for: the audience of an area is who may use it.
//! Areas of huge pages of the system's pool are left to the kernel, since touching those can fail.

use super::{Endpoint, Fail, Location, Own, Role};
use crate::area::Inner;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::copy_gate;
use m3ipc_shm::FixedRegion;
use m3ipc_sys::{CopySource, CopyTarget};
use std::sync::Arc;

/// The most that is copied at once: as long as that takes, this process gets no blocks of the area.
const STEP_BYTES: usize = 256 * 1024;

/// Memory of an area around an address of a party, which is in the area too.
#[derive(Debug)]
pub(in crate::endpoint) struct Common {
    start: u64,
    end: u64,
    /// What was known of areas when this was looked up.
    changes: u32,
    base: u64,
    ground: Arc<FixedRegion>,
}

/// A range of a ground.
type Spot<'a> = (&'a FixedRegion, u64);

impl Common {
    #[inline]
    fn covers(&self, address: u64, bytes: u64, changes: u32) -> bool {
        self.changes == changes
            && address >= self.start
            && address.checked_add(bytes).is_some_and(|end| end <= self.end)
    }
}

impl Endpoint {
    /// The address, where this memory of a peer lies in an area that is attached here.
    #[inline]
    pub(super) fn common_address(
        &mut self,
        index: u32,
        location: Location,
        bytes: u64,
    ) -> Option<u64> {
        let Location::At(address) = location else { return None };
        if self.areas.list.is_empty() {
            return None;
        }
        let changes = self.areas.changes;
        let common = self.peers.get(index).copying.common.as_ref();
        let known = common.is_some_and(|common| common.covers(address, bytes, changes));
        (known || self.look_up_common(index, address, bytes)).then_some(address)
    }

    #[cold]
    fn look_up_common(&mut self, index: u32, address: u64, bytes: u64) -> bool {
        self.hear_areas_if_any();
        let changes = self.areas.changes;
        let peer = self.peers.get_mut(index);
        let common = common_of(self.areas.list.values(), address, |inner| {
            inner.side().find(peer.address()).is_some()
        });
        peer.copying.common = common.map(|common| Common { changes, ..common });
        peer.copying.common.as_ref().is_some_and(|common| common.covers(address, bytes, changes))
    }

    /// Copies between memory of one's own and an area; `false` where that is not to be done this way.
    #[inline]
    pub(super) fn copy_in_common(
        &mut self,
        index: u32,
        address: u64,
        own: &mut Own<'_>,
        role: Role,
        deadline: Deadline,
    ) -> Result<bool, Fail> {
        if !self.is_sure(own) {
            return Ok(false);
        }
        self.meet(index, role, deadline)?;
        self.board(index)?;
        m3ipc_sys::pause_point("requester.boarded");
        let peer = self.peers.get(index);
        let (mut done, all) = (0, own.bytes());
        let ended = loop {
            let Some((ground, at)) = spot(peer.copying.common.as_ref(), address, done) else {
                break Ok(false);
            };
            let part = STEP_BYTES.min(all - done);
            let copied = match own {
                Own::From(bytes) if bytes.is_sure() => ground.copy_in(at, &bytes.part(done, part)),
                Own::Into(room) if room.is_sure() => ground.copy_out(at, &room.part(done, part)),
                Own::From(bytes) => {
                    let sure = assured(&self.areas.list, &bytes.part(done, part));
                    sure.is_some_and(|bytes| ground.copy_in(at, &bytes))
                }
                Own::Into(room) => {
                    let mut room = room.part(done, part);
                    let sure = assured_room(&self.areas.list, &mut room);
                    sure.is_some_and(|room| ground.copy_out(at, &room))
                }
            };
            if !copied {
                break Ok(false);
            }
            done += part;
            if done >= all {
                break Ok(true);
            }
            if !copy_gate::is_copying(peer.link.peer_copy_gate()) {
                break Err(Code::ProcSts.into());
            }
        };
        peer.link.end_copy();
        self.copies.copied = done as u64;
        if ended == Ok(true) {
            self.desk.count(m3ipc_link::Counter::CopiedShared);
        }
        ended
    }

    /// Copies between areas for two others, in one pass; `false` where that is not to be done this way.
    pub(super) fn copy_across_common(
        &mut self,
        (from, source): (u32, Location),
        (to, destination): (u32, Location),
        bytes: u64,
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<bool, Fail> {
        let source = self.common_address(from, source, bytes);
        let destination = self.common_address(to, destination, bytes);
        let (Some(source), Some(destination)) = (source, destination) else { return Ok(false) };
        for (index, role) in [(from, Role::Source), (to, Role::Destination)] {
            *failed = role;
            self.meet(index, role, deadline)?;
        }
        *failed = Role::Source;
        self.board(from)?;
        *failed = Role::Destination;
        let (source_peer, destination_peer) = (self.peers.get(from), self.peers.get(to));
        if let Err(fail) = self.board(to) {
            source_peer.link.end_copy();
            return Err(fail);
        }
        m3ipc_sys::pause_point("requester.boarded");
        let mut done = 0;
        let ended = loop {
            let here = spot(source_peer.copying.common.as_ref(), source, done);
            let there = spot(destination_peer.copying.common.as_ref(), destination, done);
            let (Some((ground, at)), Some((other, place))) = (here, there) else { break Ok(false) };
            let part = STEP_BYTES.min(usize::try_from(bytes - done as u64).unwrap_or(STEP_BYTES));
            if !ground.copy_across(at, other, place, part) {
                break Ok(false);
            }
            done += part;
            if done as u64 >= bytes {
                break Ok(true);
            }
            let left = |peer: &crate::endpoint::peers::Peer| {
                !copy_gate::is_copying(peer.link.peer_copy_gate())
            };
            if left(source_peer) || left(destination_peer) {
                *failed = if left(source_peer) { Role::Source } else { Role::Destination };
                break Err(Code::ProcSts.into());
            }
        };
        source_peer.link.end_copy();
        destination_peer.link.end_copy();
        self.copies.copied = done as u64;
        if ended == Ok(true) {
            self.desk.count(m3ipc_link::Counter::CopiedShared);
        }
        ended
    }

    /// Gets acquainted with a party, where nothing was ever copied with it.
    #[inline]
    pub(super) fn meet(&mut self, index: u32, role: Role, deadline: Deadline) -> Result<(), Fail> {
        match self.peers.get(index).copying.direct {
            Some(_) => Ok(()),
            None => self.berth(index, false, role, deadline),
        }
    }

    /// Whether one's own side can be touched without the kernel's help.
    #[inline]
    fn is_sure(&self, own: &mut Own<'_>) -> bool {
        match own {
            Own::From(bytes) => bytes.is_sure() || assured(&self.areas.list, bytes).is_some(),
            Own::Into(room) => room.is_sure() || assured_room(&self.areas.list, room).is_some(),
        }
    }

    /// An area was left: nothing of it is kept for copies.
    pub(in crate::endpoint) fn forget_common(&mut self) {
        let indexes: Vec<u32> = self.peers.indexes().collect();
        for index in indexes {
            self.peers.get_mut(index).copying.common = None;
        }
    }
}

type List = std::collections::HashMap<u32, Arc<Inner>>;

/// What there is of an area around this address, where this member of it is one.
fn common_of<'a>(
    areas: impl Iterator<Item = &'a Arc<Inner>>,
    address: u64,
    is_member: impl Fn(&Inner) -> bool,
) -> Option<Common> {
    for inner in areas {
        let Some(offset) = address.checked_sub(inner.info.base) else { continue };
        if offset >= inner.info.limit_bytes {
            continue;
        }
        if inner.info.huge || !is_member(inner) {
            return None;
        }
        let (first, end) = inner.side().span(offset)?;
        let base = inner.info.base;
        let end = end.min(inner.info.limit_bytes);
        let ground = Arc::clone(&inner.ground);
        return Some(Common { start: base + first, end: base + end, changes: 0, base, ground });
    }
    None
}

#[inline]
fn spot(common: Option<&Common>, address: u64, done: usize) -> Option<Spot<'_>> {
    common.map(|common| (&*common.ground, address + done as u64 - common.base))
}

/// One's own bytes, if they lie in an area.
#[cold]
fn assured<'a>(areas: &List, bytes: &CopySource<'a>) -> Option<CopySource<'a>> {
    areas
        .values()
        .filter(|inner| !inner.info.huge)
        .find_map(|inner| inner.ground.assure_source(bytes))
}

#[cold]
fn assured_room<'a>(areas: &List, room: &'a mut CopyTarget<'_>) -> Option<CopyTarget<'a>> {
    let inner = areas
        .values()
        .find(|inner| !inner.info.huge && inner.ground.assure_target(room).is_some())?;
    inner.ground.assure_target(room)
}
