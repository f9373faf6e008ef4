//! Copies in areas: the requester copies memory of an area that it has attached by itself.
//!
//! The party must be parked, as for every copy. No grant is needed: the audience of an area may use
//! it. Areas with huge pages of the system's pool are left to the kernel, since an access to them
//! can fail.

use super::party::begin_copy;
use super::side::{Location, OwnMemory, Role};
use crate::area::AreaState;
use crate::endpoint::Endpoint;
use crate::endpoint::attached_areas::AttachedAreas;
use crate::endpoint::peer::Peer;
use crate::endpoint::peer_copies::CommonRange;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::copy_gate;
use m3ipc_shm::FixedRegion;
use m3ipc_sys::{CopySource, CopyTarget};
use std::sync::Arc;

/// Bytes of one step. During a step this process gets no blocks of the area.
pub(super) const STEP_BYTES: usize = 256 * 1024;

/// A region and an offset in it.
type CommonSpan<'a> = (&'a FixedRegion, u64);

impl Endpoint {
    /// The address, if this memory of a peer lies in an area that is attached here.
    #[inline]
    pub(super) fn common_address(
        &mut self,
        index: u32,
        location: Location,
        bytes: u64,
    ) -> Option<u64> {
        let Location::At(address) = location else { return None };
        if self.areas.is_empty() {
            return None;
        }
        let changes = self.areas.changes();
        let common = self.peers.get(index).copies().requester().common.as_ref();
        let known = common.is_some_and(|common| common.covers(address, bytes, changes));
        (known || self.find_common(index, address, bytes)).then_some(address)
    }

    #[cold]
    fn find_common(&mut self, index: u32, address: u64, bytes: u64) -> bool {
        self.receive_area_events_if_any();
        let changes = self.areas.changes();
        let peer = self.peers.get_mut(index);
        let common = common_of(self.areas.all(), address, |state| {
            state.member().find(peer.address()).is_some()
        });
        peer.copies_mut().requester_mut().common =
            common.map(|common| CommonRange { changes, ..common });
        peer.copies()
            .requester()
            .common
            .as_ref()
            .is_some_and(|common| common.covers(address, bytes, changes))
    }

    /// Copies between own memory and an area; `false` if another way must be used.
    #[inline]
    pub(super) fn copy_in_common(
        &mut self,
        index: u32,
        address: u64,
        own: &mut OwnMemory<'_>,
        role: Role,
        deadline: Deadline,
    ) -> Result<bool, Fail> {
        if !self.is_sure(own) {
            return Ok(false);
        }
        self.ensure_probed(index, role, deadline)?;
        let peer = self.peers.get(index);
        begin_copy(peer)?;
        m3ipc_sys::pause_point("requester.boarded");
        let (mut done, all) = (0, own.bytes());
        let ended = loop {
            let Some((region, at)) =
                common_span(peer.copies().requester().common.as_ref(), address, done)
            else {
                break Ok(false);
            };
            let part = STEP_BYTES.min(all - done);
            let copied = match own {
                OwnMemory::From(bytes) if bytes.is_sure() => {
                    region.copy_in(at, &bytes.part(done, part))
                }
                OwnMemory::Into(buffer) if buffer.is_sure() => {
                    region.copy_out(at, &buffer.part(done, part))
                }
                OwnMemory::From(bytes) => {
                    let sure = assured_source(&self.areas, &bytes.part(done, part));
                    sure.is_some_and(|bytes| region.copy_in(at, &bytes))
                }
                OwnMemory::Into(buffer) => {
                    let mut buffer = buffer.part(done, part);
                    let sure = assured_target(&self.areas, &mut buffer);
                    sure.is_some_and(|buffer| region.copy_out(at, &buffer))
                }
            };
            if !copied {
                break Ok(false);
            }
            done += part;
            if done >= all {
                break Ok(true);
            }
            if !copy_gate::is_copying(peer.link().peer_copy_gate()) {
                break Err(Code::ProcSts.into());
            }
        };
        peer.link().end_copy();
        self.copies.copied = done as u64;
        if ended == Ok(true) {
            self.session.page().count(m3ipc_link::Counter::CopiedShared);
        }
        ended
    }

    /// Copies between areas for two other endpoints in one pass; `false` if another way must be
    /// used.
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
            self.ensure_probed(index, role, deadline)?;
        }
        *failed = Role::Source;
        let (source_peer, destination_peer) = (self.peers.get(from), self.peers.get(to));
        begin_copy(source_peer)?;
        *failed = Role::Destination;
        if let Err(fail) = begin_copy(destination_peer) {
            source_peer.link().end_copy();
            return Err(fail);
        }
        m3ipc_sys::pause_point("requester.boarded");
        let mut done = 0;
        let ended = loop {
            let here = common_span(source_peer.copies().requester().common.as_ref(), source, done);
            let there = common_span(
                destination_peer.copies().requester().common.as_ref(),
                destination,
                done,
            );
            let (Some((region, at)), Some((other, place))) = (here, there) else { break Ok(false) };
            let part = STEP_BYTES.min(usize::try_from(bytes - done as u64).unwrap_or(STEP_BYTES));
            if !region.copy_across(at, other, place, part) {
                break Ok(false);
            }
            done += part;
            if done as u64 >= bytes {
                break Ok(true);
            }
            let left = |peer: &Peer| !copy_gate::is_copying(peer.link().peer_copy_gate());
            if left(source_peer) || left(destination_peer) {
                *failed = if left(source_peer) { Role::Source } else { Role::Destination };
                break Err(Code::ProcSts.into());
            }
        };
        source_peer.link().end_copy();
        destination_peer.link().end_copy();
        self.copies.copied = done as u64;
        if ended == Ok(true) {
            self.session.page().count(m3ipc_link::Counter::CopiedShared);
        }
        ended
    }

    /// Asks for the gate of a party before the first copy with it.
    #[inline]
    pub(super) fn ensure_probed(
        &mut self,
        index: u32,
        role: Role,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        match self.peers.get(index).copies().requester().direct {
            Some(_) => Ok(()),
            None => self.request_gate(index, false, role, deadline),
        }
    }

    /// Whether own memory can be accessed without the help of the kernel.
    #[inline]
    fn is_sure(&self, own: &mut OwnMemory<'_>) -> bool {
        match own {
            OwnMemory::From(bytes) => {
                bytes.is_sure() || assured_source(&self.areas, bytes).is_some()
            }
            OwnMemory::Into(buffer) => {
                buffer.is_sure() || assured_target(&self.areas, buffer).is_some()
            }
        }
    }

    /// Forgets the cached ranges after an area was left.
    pub(in crate::endpoint) fn forget_common_ranges(&mut self) {
        let indexes: Vec<u32> = self.peers.indexes().collect();
        for index in indexes {
            self.peers.get_mut(index).copies_mut().requester_mut().common = None;
        }
    }
}

/// The range of an area that contains this address, if the peer is a member.
fn common_of<'a>(
    areas: impl Iterator<Item = &'a Arc<AreaState>>,
    address: u64,
    is_member: impl Fn(&AreaState) -> bool,
) -> Option<CommonRange> {
    for state in areas {
        let Some(offset) = address.checked_sub(state.info.base) else { continue };
        if offset >= state.info.limit_bytes {
            continue;
        }
        if state.info.huge || !is_member(state) {
            return None;
        }
        let (first, end) = state.member().span(offset)?;
        let base = state.info.base;
        let end = end.min(state.info.limit_bytes);
        let copier = state.region.copier();
        return Some(CommonRange {
            start: base + first,
            end: base + end,
            changes: 0,
            base,
            copier,
        });
    }
    None
}

#[inline]
fn common_span(common: Option<&CommonRange>, address: u64, done: usize) -> Option<CommonSpan<'_>> {
    common.map(|common| (common.copier.region(), address + done as u64 - common.base))
}

/// Own memory, if it lies in an area.
#[cold]
fn assured_source<'a>(areas: &AttachedAreas, bytes: &CopySource<'a>) -> Option<CopySource<'a>> {
    areas.all().filter(|state| !state.info.huge).find_map(|state| state.region.assure_source(bytes))
}

#[cold]
fn assured_target<'a>(
    areas: &AttachedAreas,
    buffer: &'a mut CopyTarget<'_>,
) -> Option<CopyTarget<'a>> {
    let state = areas
        .all()
        .find(|state| !state.info.huge && state.region.assure_target(buffer).is_some())?;
    state.region.assure_target(buffer)
}
