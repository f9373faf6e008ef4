//! Members that leave areas, and the extents that they leave behind.
//!
//! The extents of a dead member are free once no living member has or expects one of its blocks.
//! For its own areas the daemon reads the ledgers. For areas of a predecessor it asks the members.

use crate::server::Server;
use crate::state::areas::{Ledgers, OrphanSearch, ScanBudget, SearchStep};
use crate::state::timers::Timer;
use crate::tables::{Area, AreaMemberState, MemberId};
use m3ipc_abi::Extent;
use m3ipc_area::LedgerSet as _;
use m3ipc_wire::{AreaEvent, DaemonEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{Ordering, fence};

/// The pause before the next part of a scan, in which other members are served.
const RECLAIM_PAUSE_NS: u64 = 1_000_000;

impl Server {
    /// Removes a member from an area. Its blocks and extents become free as far as possible.
    pub(super) fn leave_area(&mut self, id: MemberId, area: u32) {
        self.leave_these_areas(id, vec![area]);
    }

    /// Removes a member from areas. One write of the journal records all of it.
    fn leave_these_areas(&mut self, id: MemberId, areas: Vec<u32>) {
        let left = areas.into_iter().filter_map(|area| {
            let gone = self.node.set_area_member_state(id, area, AreaMemberState::Gone);
            Some((area, gone.ok()?))
        });
        let left: Vec<(u32, u16)> = left.collect();
        self.record();
        for (area, index) in left {
            if self.node.area(id.vm, area).is_err() {
                self.areas.remove(id.vm, area);
                continue;
            }
            let died = self.node.endpoint(id).is_none();
            let event = AreaEvent::Left { area, index, died };
            self.send_area_event_to_others(id.vm, area, Some(index), &event, None);
            // Not here: this call may be within the report of another death, which some members
            // have not got yet.
            self.areas.mark(id.vm, area);
        }
    }

    /// Frees extents of the areas that members have left. All areas share the budget of a turn, and
    /// a timer goes on with the rest.
    pub(crate) fn reclaim_marked_areas(&mut self) {
        while let Some((vm, area)) = self.areas.take_marked() {
            self.reclaim_extents(vm, area);
        }
        if self.areas.begin_pause() {
            self.sources.set_timer(RECLAIM_PAUSE_NS, Timer::Reclaim);
        }
    }

    /// Removes an endpoint that ended from all areas.
    pub(crate) fn leave_areas(&mut self, id: MemberId) {
        let areas = self.node.areas_of(id);
        self.leave_these_areas(id, areas);
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
    /// A turn reads a bounded part of the ledgers, and changes a bounded number of extents. If that
    /// does not suffice, the area is marked for a later turn.
    pub(crate) fn reclaim_extents(&mut self, vm: i32, area: u32) {
        let Ok(entry) = self.node.area(vm, area) else { return };
        let mut dead: BTreeMap<u16, Vec<Extent>> = BTreeMap::new();
        for extent in entry.extents.iter().filter(|extent| entry.is_gone(extent.allocator)) {
            dead.entry(extent.allocator).or_default().push(*extent);
        }
        if dead.is_empty() {
            return;
        }
        let Some(memory) = self.areas.get(vm, area) else {
            let event = AreaEvent::FindOrphans { area };
            return self.send_area_event_to_others(vm, area, None, &event, None);
        };
        let mut searches = memory.searches.clone();
        searches.retain(|allocator, _| dead.contains_key(allocator));
        let mut budget = self.areas.take_budget();
        budget.spend_reads(entry.extents.len());
        let mut goes_on = false;
        for (allocator, extents) in dead {
            let search = searches.entry(allocator).or_default();
            goes_on |= !self.search((vm, area), (allocator, &extents), search, &mut budget);
        }
        self.areas.return_budget(budget);
        if let Some(memory) = self.areas.get_mut(vm, area) {
            memory.searches = searches;
        }
        if goes_on {
            self.areas.mark(vm, area);
        }
    }

    /// Goes on with the search for blocks of a dead allocator member. `false` if the budget did not
    /// suffice.
    ///
    /// A block may have its number from one extent of a member and lie in another. So either all
    /// extents of a member are free, or none.
    fn search(
        &mut self,
        area: (i32, u32),
        (allocator, extents): (u16, &[Extent]),
        search: &mut OrphanSearch,
        budget: &mut ScanBudget,
    ) -> bool {
        loop {
            let next = match search.step {
                SearchStep::Look | SearchStep::Check => {
                    match (self.scan(area, (allocator, extents), search, budget), search.step) {
                        (Scan::Unfinished, _) => return false,
                        (Scan::InUse, SearchStep::Look) => return true,
                        (Scan::InUse, _) => SearchStep::Restore,
                        (Scan::Unused, SearchStep::Look) => SearchStep::Announce,
                        (Scan::Unused, _) => SearchStep::Free,
                    }
                }
                SearchStep::Announce | SearchStep::Restore => {
                    let done = search.announced;
                    let part = budget.take(&extents[done.min(extents.len())..]);
                    search.announced += part.len();
                    if search.step == SearchStep::Restore {
                        self.announce_extents(area, part, Presence::There);
                    } else {
                        self.announce_extents(area, part, Presence::Gone);
                    }
                    match search.step {
                        _ if done + part.len() < extents.len() => return false,
                        SearchStep::Announce => SearchStep::Check,
                        _ => {
                            *search = OrphanSearch::default();
                            return true;
                        }
                    }
                }
                SearchStep::Free => {
                    let part = budget.take(extents);
                    self.free_extents(area, part);
                    return part.len() == extents.len();
                }
            };
            *search = OrphanSearch::at_step(next);
        }
    }

    /// Goes on with a scan of the numbers in a dead member's extents.
    fn scan(
        &self,
        (vm, area): (i32, u32),
        (allocator, extents): (u16, &[Extent]),
        search: &mut OrphanSearch,
        budget: &mut ScanBudget,
    ) -> Scan {
        let (Ok(entry), Some(memory)) = (self.node.area(vm, area), self.areas.get(vm, area)) else {
            return Scan::InUse;
        };
        // The members have got the deaths before this fence, or see that they have not got all
        // events. A member that accepts a block or takes one back asks for that after its claim. So
        // either it does not keep the block, or we see its claim below.
        fence(Ordering::SeqCst);
        let ledgers = Ledgers::new(memory, entry);
        let (outcome, at) = scan(&ledgers, allocator, extents, search.number, budget);
        search.number = at;
        outcome
    }

    /// Tells the members that extents of a dead member are gone, or that they are still there.
    fn announce_extents(&mut self, (vm, area): (i32, u32), extents: &[Extent], presence: Presence) {
        for extent in extents {
            let event = match presence {
                Presence::Gone => AreaEvent::ExtentGone { area, offset: extent.offset },
                Presence::There => AreaEvent::Extent { area, extent: *extent },
            };
            self.send_area_event_to_others(vm, area, None, &event, None);
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
        self.free_extents((id.vm, area), &[extent]);
        let event = AreaEvent::ExtentGone { area, offset };
        self.send_area_event_to_others(id.vm, area, Some(index), &event, None);
    }

    /// Frees extents. The members have learned of it, or will.
    fn free_extents(&mut self, (vm, area): (i32, u32), extents: &[Extent]) {
        self.node.free_extents(vm, area, extents.iter().map(|extent| extent.offset).collect());
        self.record();
        for extent in extents {
            if let Some(memory) = self.areas.get(vm, area) {
                // The memory of a sealed area stays.
                let _ = m3ipc_sys::release_memory(&memory.memory, extent.offset, extent.bytes);
            }
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
            let extents: Vec<Extent> = extents.collect();
            self.free_extents((id.vm, area), &extents);
            self.announce_extents((id.vm, area), &extents, Presence::Gone);
        }
    }
}

/// What members learn of the extents of a dead member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// They are free.
    Gone,
    /// They are not free.
    There,
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
    budget: &mut ScanBudget,
) -> (Scan, u32) {
    let mut ranges: Vec<_> =
        extents.iter().map(|it| (it.first_number, it.first_number + it.numbers)).collect();
    ranges.sort_unstable();
    let members = ledgers.living().count();
    for (first, end) in ranges {
        for number in first.max(from)..end {
            if budget.has_no_reads() {
                return (Scan::Unfinished, number);
            }
            budget.spend_reads(members);
            if m3ipc_area::is_in_use(ledgers, allocator, number..number + 1) {
                return (Scan::InUse, number);
            }
        }
    }
    (Scan::Unused, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::areas::{Ledger, SCAN_READS};
    use crate::state::member_fd::MemberFd;
    use crate::tables::{Credentials, Member, MemberKind, VmSpec};
    use crate::test_server::TestServer;
    use m3ipc_abi::VmLimits;
    use m3ipc_wire::{AreaAudience, AreaParams};
    use std::rc::Rc;

    const NUMBERS: u32 = 262_144;
    const BYTES: u64 = 256 << 20;

    /// An area of which one member died that had all numbers, and one lives.
    fn add_area(server: &mut Server, dead: MemberId, living: MemberId) -> u32 {
        let audience = AreaAudience::Vm;
        let params = AreaParams {
            limit_bytes: BYTES,
            audience,
            owner_writes: false,
            huge: false,
            low: false,
        };
        let area = server.node.create_area(dead, params, NUMBERS).unwrap();
        server.node.give_extent(dead, area, BYTES, BYTES, false).unwrap();
        server.node.area_index(living, area, 0).unwrap();
        server.node.set_area_member_state(living, area, AreaMemberState::In).unwrap();
        let memory = m3ipc_sys::create_sparse("m3-test", 4096, false).unwrap();
        server.areas.add(dead.vm, area, Rc::new(MemberFd::from(memory)));
        let ledgers = &mut server.areas.get_mut(dead.vm, area).unwrap().ledgers;
        ledgers.extend([0, 1].map(|at| (at, Ledger::create(NUMBERS, Vec::new()).unwrap())));
        area
    }

    #[test]
    fn all_areas_share_the_budget_of_a_turn() {
        let mut test = TestServer::new("reclaim");
        let server = &mut test.server;
        let cred = |pid| Credentials::new(0, 0, pid);
        let spec = VmSpec::new("a", VmLimits { procs: 40, tasks: 4 }, &cred(1));
        let vm = server.node.vm_init(spec, &cred(1)).unwrap();
        let [dead, living] = [1, 2].map(|pid| {
            let member = Member { pid, tid: None, started: 0 };
            let bound = server.node.bind_free(vm, member, &cred(pid), MemberKind::Process, None);
            MemberId::new(vm, bound.unwrap().address)
        });
        let areas = [(); 3].map(|()| add_area(server, dead, living));
        server.leave_areas(dead);
        // A scan of an area takes two turns, and a bit more for its extent.
        let numbers = |server: &Server| {
            areas.map(|area| {
                server.areas.get(vm, area).unwrap().searches.get(&0).map(|it| it.number)
            })
        };
        let first = u32::try_from(SCAN_READS - 1).unwrap();
        for expected in [[Some(first), None, None], [Some(first), Some(first), None]] {
            for _ in 0..2 {
                // Further events of a turn, and turns within the pause, have no other budget.
                server.reclaim_marked_areas();
                server.areas.begin_turn();
                assert_eq!(numbers(server), expected);
            }
            assert!(server.sources.is_timer_set(Timer::Reclaim));
            server.areas.end_pause();
        }
        let has_extents =
            |server: &Server| server.node.areas(vm).any(|area| !area.extents.is_empty());
        let mut turns = 2;
        while has_extents(server) {
            server.reclaim_marked_areas();
            server.areas.end_pause();
            turns += 1;
        }
        assert!((12..18).contains(&turns), "{turns}");
    }
}
