//! The areas that an endpoint has attached, and the block that came with its last message.

use crate::area::{AreaState, Block};
use crate::error::AreaError;
use m3ipc_abi::Address;
use std::collections::HashMap;
use std::sync::Arc;

/// The attached areas by number, and the facts that follow from them.
#[derive(Debug, Default)]
pub(super) struct AttachedAreas {
    by_id: HashMap<u32, Arc<AreaState>>,
    /// Counts the changes of areas and members, to date cached facts.
    changes: u32,
    /// The area for large payloads of each peer.
    pair_areas: HashMap<i32, u32>,
    /// Whether a member left an area, so that this endpoint may be the last one in it.
    member_left: bool,
    /// Areas in which another member needs room.
    room_wanted: Vec<u32>,
    /// Areas without their creator that this endpoint still uses: it leaves each after the end of
    /// its last handle and block.
    ownerless: Vec<u32>,
    /// Whether new areas begin in the addresses that sanitizers and valgrind leave free.
    begins_low: bool,
    /// The block that came with the message taken last, or why it was not accepted.
    incoming: Option<Result<Block, AreaError>>,
}

impl AttachedAreas {
    /// Whether no area is attached.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The count of changes: a fact about areas holds while it stays the same.
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    /// The area with this number.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Arc<AreaState>> {
        self.by_id.get(&id)
    }

    /// The area with this number, of which a member or an extent changes.
    pub(super) fn get_changing(&mut self, id: u32) -> Option<&Arc<AreaState>> {
        let state = self.by_id.get(&id)?;
        self.changes = self.changes.wrapping_add(1);
        Some(state)
    }

    /// The area that contains this memory address.
    pub(super) fn at(&self, address: u64) -> Option<&Arc<AreaState>> {
        self.by_id.values().find(|state| {
            address
                .checked_sub(state.info.base)
                .is_some_and(|offset| offset < state.info.limit_bytes)
        })
    }

    /// All areas.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<AreaState>> {
        self.by_id.values()
    }

    /// Adds an area that was mapped.
    pub(super) fn insert(&mut self, state: Arc<AreaState>) {
        self.by_id.insert(state.info.area, state);
        self.changes = self.changes.wrapping_add(1);
    }

    /// Removes an area that the endpoint leaves.
    pub(super) fn remove(&mut self, id: u32) {
        self.by_id.remove(&id);
        self.changes = self.changes.wrapping_add(1);
        self.pair_areas.retain(|_, area| *area != id);
    }

    /// The area for large payloads to this peer.
    pub(super) fn pair_area(&self, peer: Address) -> Option<&Arc<AreaState>> {
        self.pair_areas.get(&peer.0).and_then(|id| self.by_id.get(id))
    }

    /// From now on large payloads to this peer go through this area.
    pub(super) fn set_pair_area(&mut self, peer: Address, id: u32) {
        self.pair_areas.insert(peer.0, id);
    }

    /// Large payloads to this peer go through the area of its own payloads, unless there is
    /// another area for them.
    pub(super) fn suggest_pair_area(&mut self, peer: Address, id: u32) {
        self.pair_areas.entry(peer.0).or_insert(id);
    }

    /// Forgets the area for large payloads to this peer, and returns its number.
    pub(super) fn take_pair_area(&mut self, peer: Address) -> Option<u32> {
        self.pair_areas.remove(&peer.0)
    }

    /// Notes that a member left an area: of `ownerless`, if that has no creator any more. Its
    /// unused memory goes back to the system.
    pub(super) fn note_member_left(&mut self, ownerless: Option<u32>) {
        self.member_left = true;
        if let Some(id) = ownerless {
            self.room_wanted.push(id);
            if !self.ownerless.contains(&id) {
                self.ownerless.push(id);
            }
        }
    }

    /// Whether new areas begin in the addresses that sanitizers and valgrind leave free.
    pub(super) fn begins_low(&self) -> bool {
        self.begins_low
    }

    /// The range of addresses in which this endpoint's latest area found a place, or hopes to.
    pub(super) fn begin_low(&mut self, low: bool) {
        self.begins_low = low;
    }

    /// Notes that another member needs room in an area.
    pub(super) fn note_room_wanted(&mut self, id: u32) {
        self.room_wanted.push(id);
    }

    /// Whether an event asks for [`Endpoint::maintain_areas`](super::Endpoint::maintain_areas).
    #[inline]
    pub(super) fn need_maintenance(&self) -> bool {
        self.member_left || !self.room_wanted.is_empty() || self.has_loose()
    }

    /// Whether an area without its creator has no handle and no block here any more.
    #[inline]
    pub(super) fn has_loose(&self) -> bool {
        !self.ownerless.is_empty() && self.ownerless.iter().any(|id| self.is_loose(*id))
    }

    fn is_loose(&self, id: u32) -> bool {
        self.by_id.get(&id).is_none_or(|state| Arc::strong_count(state) == 1)
    }

    /// Keeps the block that came with the message taken last, or why it was not accepted.
    pub(super) fn set_incoming(&mut self, block: Result<Block, AreaError>) {
        self.incoming = Some(block);
    }

    /// The block that came with the message taken last.
    pub(super) fn take_incoming(&mut self) -> Option<Result<Block, AreaError>> {
        self.incoming.take()
    }

    /// Frees the block of an earlier message, if it was not taken.
    #[inline]
    pub(super) fn forget_incoming(&mut self) {
        if self.incoming.is_some() {
            self.incoming = None;
        }
    }

    /// Whether maintenance is due, or a received block was not taken.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.member_left || !self.room_wanted.is_empty() || self.incoming.is_some()
    }

    /// The areas in which another member needs room. Ends the need of maintenance.
    pub(super) fn begin_maintenance(&mut self) -> Vec<u32> {
        self.member_left = false;
        let by_id = &self.by_id;
        self.ownerless.retain(|id| by_id.get(id).is_some_and(|state| Arc::strong_count(state) > 1));
        std::mem::take(&mut self.room_wanted)
    }
}
