//! Members that leave areas, and the extents that they leave behind.
//!
//! The extents of a dead member are free once no living member has or expects one of its blocks.
//! For its own areas the daemon reads the ledgers. For areas of a predecessor it asks the members.

use crate::server::Server;
use crate::state::areas::Ledgers;
use crate::tables::{Area, AreaMemberState, MemberId};
use m3ipc_abi::Extent;
use m3ipc_wire::{AreaEvent, DaemonEvent};
use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, fence};

impl Server {
    /// Removes a member from an area. Its blocks and extents become free as far as possible.
    pub(super) fn leave_area(&mut self, id: MemberId, area: u32) {
        let gone = self.node.set_area_member_state(id, area, AreaMemberState::Gone);
        let Ok(index) = gone else { return };
        self.record();
        if self.node.area(id.vm, area).is_err() {
            return self.areas.remove(id.vm, area);
        }
        let event = AreaEvent::Left { area, index };
        self.send_area_event_to_others(id.vm, area, Some(index), &event, None);
        self.reclaim_extents(id.vm, area);
    }

    /// Removes an endpoint that ended from all areas.
    pub(crate) fn leave_areas(&mut self, id: MemberId) {
        for area in self.node.areas_of(id) {
            self.leave_area(id, area);
        }
    }

    /// After a takeover: removes members that died while no daemon ran, and members that have not
    /// mapped their area: the predecessor alone had its memory.
    pub(crate) fn leave_areas_of_the_dead(&mut self, vm: i32) {
        let members = |area: &Area| -> Vec<(MemberId, u32, bool)> {
            let living = area.members.iter().filter(|member| member.state != AreaMemberState::Gone);
            living
                .map(|member| {
                    let has_memory = member.state != AreaMemberState::Joining;
                    (MemberId::new(vm, member.address), area.id, has_memory)
                })
                .collect()
        };
        let all: Vec<_> = self.node.areas(vm).flat_map(members).collect();
        for (id, area, has_memory) in all {
            if !has_memory || self.node.endpoint(id).is_none() {
                self.leave_area(id, area);
            }
        }
    }

    /// Frees the extents of dead members in which no living member has or expects a block.
    pub(super) fn reclaim_extents(&mut self, vm: i32, area: u32) {
        let Ok(entry) = self.node.area(vm, area).cloned() else { return };
        let dead = entry.extents.iter().filter(|extent| entry.is_gone(extent.allocator));
        // The members have got the death before this fence. A member that accepts a block of the
        // dead member either sees the death, or we see its claim below.
        fence(Ordering::SeqCst);
        let Some(memory) = self.areas.get(vm, area) else {
            if dead.count() > 0 {
                let event = AreaEvent::FindOrphans { area };
                self.send_area_event_to_others(vm, area, None, &event, None);
            }
            return;
        };
        let ledgers = Ledgers { memory, area: &entry };
        let in_use = |extent: &&Extent| {
            let numbers = extent.first_number..extent.first_number + extent.numbers;
            m3ipc_area::is_in_use(&ledgers, extent.allocator, numbers)
        };
        // A block may have its number from one extent of a member and lie in another. So either all
        // extents of a member are free, or none.
        let used: BTreeSet<u16> =
            dead.clone().filter(in_use).map(|extent| extent.allocator).collect();
        let free: Vec<Extent> =
            dead.filter(|extent| !used.contains(&extent.allocator)).copied().collect();
        self.free_extents(vm, area, &free, None);
    }

    /// Asks the other members that have extents to return them, if they use none of them.
    pub(super) fn ask_for_room(&mut self, id: MemberId, area: u32) {
        let Ok(entry) = self.node.area(id.vm, area) else { return };
        let holders: BTreeSet<u16> = entry.extents.iter().map(|extent| extent.allocator).collect();
        let others = entry
            .present()
            .filter(|(index, member)| holders.contains(index) && member.address != id.address);
        let others: Vec<MemberId> =
            others.map(|(_, member)| MemberId::new(id.vm, member.address)).collect();
        for other in others {
            self.send_event_to(other, DaemonEvent::Area(AreaEvent::RoomWanted { area }));
        }
    }

    /// A member returns an extent that it does not use.
    pub(super) fn release_extent(&mut self, id: MemberId, area: u32, offset: u64) {
        let Ok(entry) = self.node.area(id.vm, area) else { return };
        let Some(index) = entry.index_of(id.address) else { return };
        let is_own = |extent: &&Extent| extent.offset == offset && extent.allocator == index;
        let Some(extent) = entry.extents.iter().find(is_own).copied() else { return };
        self.free_extents(id.vm, area, &[extent], Some(index));
    }

    /// Frees extents, and reports that to the members except one.
    fn free_extents(&mut self, vm: i32, area: u32, extents: &[Extent], except: Option<u16>) {
        for extent in extents {
            self.node.free_extent(vm, area, extent.offset);
            self.record();
            if let Some(memory) = self.areas.get(vm, area) {
                // The memory of a sealed area stays.
                let _ = m3ipc_sys::release_memory(&memory.memory, extent.offset, extent.bytes);
            }
            let event = AreaEvent::ExtentGone { area, offset: extent.offset };
            self.send_area_event_to_others(vm, area, except, &event, None);
        }
    }

    /// A member of a predecessor's area reports that no block of a dead member is in use.
    pub(super) fn area_orphaned(&mut self, id: MemberId, area: u32, dead: u16) {
        let Ok(entry) = self.node.area(id.vm, area).cloned() else { return };
        let Some(reporter) = entry.index_of(id.address) else { return };
        if !entry.is_gone(dead) || self.areas.get(id.vm, area).is_some() {
            return;
        }
        if self.areas.add_orphan_report(id.vm, &entry, dead, reporter) {
            let extents = entry.extents.iter().filter(|extent| extent.allocator == dead).copied();
            self.free_extents(id.vm, area, &extents.collect::<Vec<_>>(), None);
        }
    }
}
