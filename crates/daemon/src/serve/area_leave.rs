//! Members that leave areas, and the extents that they leave behind.
//!
//! The extents of a dead member are free once no living member has or expects one of its blocks.
//! For its own areas the daemon reads the ledgers. For areas of a predecessor it asks the members.

use crate::server::Server;
use crate::state::areas::Ledgers;
use crate::state::connection::Connection;
use crate::state::timers::Timer;
use crate::tables::{Area, AreaMemberState, MemberId};
use m3ipc_abi::Extent;
use m3ipc_wire::{AreaEvent, DaemonEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{Ordering, fence};

/// The number of ledger records that one request may read. Each further member of the area makes
/// the scan of a number longer.
const SCAN_READS: usize = 1 << 17;
/// The number of extents that one request may free.
const FREES_MAX: usize = 256;
/// The pause before the next part of a scan, in which other members are served.
const RECLAIM_PAUSE_NS: u64 = 1_000_000;
/// The pause before a scan that waits until all members know who has died.
const UNSENT_PAUSE_NS: u64 = 10_000_000;

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
    ///
    /// One call reads a bounded part of the ledgers and frees a bounded number of extents; a timer
    /// goes on. A number that is out of use stays so, so the next call begins behind it.
    pub(crate) fn reclaim_extents(&mut self, vm: i32, area: u32) {
        let Ok(entry) = self.node.area(vm, area) else { return };
        let mut dead: BTreeMap<u16, Vec<Extent>> = BTreeMap::new();
        for extent in entry.extents.iter().filter(|extent| entry.is_gone(extent.allocator)) {
            dead.entry(extent.allocator).or_default().push(*extent);
        }
        if dead.is_empty() {
            return;
        }
        if self.may_miss_deaths(vm, area) {
            return self.reclaim_later(vm, area, UNSENT_PAUSE_NS);
        }
        // The members have got the deaths before this fence. A member that accepts a block or takes
        // one back either sees them, or we see its claim below.
        fence(Ordering::SeqCst);
        let Some(memory) = self.areas.get(vm, area) else {
            let event = AreaEvent::FindOrphans { area };
            return self.send_area_event_to_others(vm, area, None, &event, None);
        };
        let ledgers = Ledgers::new(memory, entry);
        let mut budget = SCAN_READS / entry.present().count().max(1);
        let mut scanned = Vec::new();
        // A block may have its number from one extent of a member and lie in another. So either all
        // extents of a member are free, or none.
        let mut free = Vec::new();
        let mut goes_on = false;
        for (allocator, extents) in dead {
            let from = memory.scanned.get(&allocator).copied().unwrap_or(0);
            let (outcome, at) = scan(&ledgers, allocator, &extents, from, &mut budget);
            scanned.push((allocator, at));
            goes_on |= outcome == Scan::Unfinished;
            if outcome == Scan::Unused {
                free.extend(extents);
            }
        }
        goes_on |= free.len() > FREES_MAX;
        free.truncate(FREES_MAX);
        if let Some(memory) = self.areas.get_mut(vm, area) {
            memory.scanned.extend(scanned);
        }
        self.free_extents(vm, area, &free, None);
        if goes_on {
            self.reclaim_later(vm, area, RECLAIM_PAUSE_NS);
        }
    }

    /// Whether a member has not got all events, or is without a daemon just now.
    fn may_miss_deaths(&self, vm: i32, area: u32) -> bool {
        let Ok(entry) = self.node.area(vm, area) else { return false };
        entry.present().any(|(_, member)| {
            let token = self.connection_of(MemberId::new(vm, member.address));
            token
                .and_then(|token| self.connections.get(&token))
                .is_none_or(Connection::has_unsent_frames)
        })
    }

    fn reclaim_later(&mut self, vm: i32, area: u32, pause_ns: u64) {
        let timer = Timer::Reclaim(vm, area);
        if !self.timers.is_set(timer) {
            self.set_timer(pause_ns, timer);
        }
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
        self.node.free_extents(vm, area, extents.iter().map(|extent| extent.offset).collect());
        self.record();
        for extent in extents {
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

/// The result of a scan for blocks of a dead allocator member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// No living member has or expects one.
    Unused,
    /// A living member has or expects one.
    InUse,
    /// The budget did not suffice.
    Unfinished,
}

/// Scans the numbers of a dead member's extents from `from` on. Returns the number at which the
/// next scan begins.
fn scan(
    ledgers: &Ledgers<'_>,
    allocator: u16,
    extents: &[Extent],
    from: u32,
    budget: &mut usize,
) -> (Scan, u32) {
    let mut ranges: Vec<_> =
        extents.iter().map(|it| (it.first_number, it.first_number + it.numbers)).collect();
    ranges.sort_unstable();
    for (first, end) in ranges {
        for number in first.max(from)..end {
            if *budget == 0 {
                return (Scan::Unfinished, number);
            }
            *budget -= 1;
            if m3ipc_area::is_in_use(ledgers, allocator, number..number + 1) {
                return (Scan::InUse, number);
            }
        }
    }
    (Scan::Unused, u32::MAX)
}
