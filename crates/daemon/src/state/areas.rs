//! The memory of areas that this daemon made, and their members' ledgers.

use super::member_fd::MemberFd;
use crate::quota::Charge;
use crate::tables::{Area, AreaMemberState};
use m3ipc_abi::Extent;
use m3ipc_area::ledger_bytes;
use m3ipc_shm::Observed;
use m3ipc_sys::Errno;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// The number of ledger records that a turn of the event loop may read. Each further member of an
/// area makes the scan of a number longer.
pub(crate) const SCAN_READS: usize = 1 << 17;
/// The number of extents that a turn may announce or free.
const CHANGES_MAX: usize = 512;
/// Pages start and end at multiples of this many bytes, or of a multiple of it.
const PAGE_BYTES: u64 = 4096;

/// The memory of one area.
#[derive(Debug)]
pub(crate) struct AreaMemory {
    pub(crate) memory: Rc<MemberFd>,
    pub(crate) ledgers: BTreeMap<u16, Ledger>,
    /// By dead allocator member: how far the search for its blocks has come.
    pub(crate) searches: BTreeMap<u16, OrphanSearch>,
}

/// The search for blocks of a dead allocator member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrphanSearch {
    pub(crate) step: SearchStep,
    /// The block number with which this scan goes on.
    pub(crate) number: u32,
    /// Extents that this step has announced.
    pub(crate) announced: usize,
}

/// The steps of a search, in their order. Each step may take several turns of the event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// Scans for blocks in use.
    #[default]
    Look,
    /// Tells the members that the extents are gone: they accept no further block in them.
    Announce,
    /// Scans again: a hostile member may have hidden a block from the first scan.
    Check,
    /// A block is in use. Tells the members that the extents are there. The search begins again.
    Restore,
    /// No block is in use. Frees the extents.
    Free,
}

impl AreaMemory {
    /// Whether the members were told that the extents of this dead allocator member are gone.
    pub(crate) fn is_announced_gone(&self, allocator: u16) -> bool {
        use SearchStep::{Announce, Check, Free};
        let search = self.searches.get(&allocator);
        search.is_some_and(|search| matches!(search.step, Announce | Check | Free))
    }
}

impl OrphanSearch {
    /// The beginning of a step.
    pub(crate) fn at_step(step: SearchStep) -> Self {
        Self { step, ..Self::default() }
    }
}

/// The ledger of one member. The member alone writes it; the daemon reads it.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) fd: Rc<MemberFd>,
    view: Observed,
}

impl Ledger {
    /// A new ledger for an area with so many block numbers.
    pub(crate) fn create(numbers: u32, charges: Vec<Charge>) -> Result<Self, Errno> {
        let bytes = ledger_bytes(numbers);
        let fd = m3ipc_sys::create_sparse("m3-ledger", bytes as u64, false)?;
        let view = Observed::map_sparse(&fd, bytes)?;
        Ok(Self { fd: Rc::new(MemberFd::charged(fd, charges)), view })
    }
}

/// The work that one turn of the event loop may do for all scans of areas together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanBudget {
    /// Records of ledgers that it may read.
    reads: usize,
    /// Extents that it may announce or free.
    extents: usize,
}

impl Default for ScanBudget {
    fn default() -> Self {
        Self { reads: SCAN_READS, extents: CHANGES_MAX }
    }
}

impl ScanBudget {
    const SPENT: Self = Self { reads: 0, extents: 0 };

    fn is_spent(self) -> bool {
        self.reads == 0 || self.extents == 0
    }

    pub(crate) fn has_no_reads(self) -> bool {
        self.reads == 0
    }

    pub(crate) fn spend_reads(&mut self, count: usize) {
        self.reads = self.reads.saturating_sub(count);
    }

    /// As many of these extents as the budget has room for.
    pub(crate) fn take<'a>(&mut self, extents: &'a [Extent]) -> &'a [Extent] {
        let count = extents.len().min(self.extents);
        self.extents -= count;
        &extents[..count]
    }
}

/// All areas of this daemon, by VM and number.
#[derive(Debug, Default)]
pub(crate) struct AreaRegistry {
    memory: BTreeMap<(i32, u32), AreaMemory>,
    /// For areas of a predecessor, by VM, number and dead member: the members that found no block
    /// of the dead member in use.
    orphan_reports: BTreeMap<(i32, u32, u16), BTreeSet<u16>>,
    /// Areas that a member has left, in which extents may be free.
    marked: BTreeSet<(i32, u32)>,
    /// The marked area that was taken last.
    latest_taken: Option<(i32, u32)>,
    /// What is left of this turn's budget.
    budget: ScanBudget,
    /// Whether a timer will end the pause after a spent budget.
    is_paused: bool,
}

impl AreaRegistry {
    pub(crate) fn add(&mut self, vm: i32, area: u32, memory: Rc<MemberFd>) {
        let (ledgers, searches) = (BTreeMap::new(), BTreeMap::new());
        self.memory.insert((vm, area), AreaMemory { memory, ledgers, searches });
    }

    /// Marks an area in which extents may be free.
    pub(crate) fn mark(&mut self, vm: i32, area: u32) {
        self.marked.insert((vm, area));
    }

    /// Removes and returns the next marked area in turn, while the budget lasts.
    pub(crate) fn take_marked(&mut self) -> Option<(i32, u32)> {
        if self.budget.is_spent() {
            return None;
        }
        let after = self.latest_taken.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.marked.range((after, Bound::Unbounded));
        let next = behind.next().or_else(|| self.marked.first()).copied()?;
        self.marked.remove(&next);
        self.latest_taken = Some(next);
        Some(next)
    }

    /// Begins a turn of the event loop with a whole budget, unless a pause lasts.
    pub(crate) fn begin_turn(&mut self) {
        if !self.is_paused {
            self.budget = ScanBudget::default();
        }
    }

    /// Begins a pause if areas are marked; `false` if there are none, or if a pause lasts.
    pub(crate) fn begin_pause(&mut self) -> bool {
        !self.marked.is_empty() && !std::mem::replace(&mut self.is_paused, true)
    }

    /// Ends a pause, with a whole budget.
    pub(crate) fn end_pause(&mut self) {
        self.is_paused = false;
        self.begin_turn();
    }

    /// Takes what is left of the budget, for one area.
    pub(crate) fn take_budget(&mut self) -> ScanBudget {
        std::mem::replace(&mut self.budget, ScanBudget::SPENT)
    }

    /// Returns what one area has left of the budget.
    pub(crate) fn return_budget(&mut self, budget: ScanBudget) {
        self.budget = budget;
    }

    /// The memory of an area; `None` for an area of a predecessor.
    pub(crate) fn get(&self, vm: i32, area: u32) -> Option<&AreaMemory> {
        self.memory.get(&(vm, area))
    }

    pub(crate) fn get_mut(&mut self, vm: i32, area: u32) -> Option<&mut AreaMemory> {
        self.memory.get_mut(&(vm, area))
    }

    pub(crate) fn ledger_fd(&self, vm: i32, area: u32, index: u16) -> Option<Rc<MemberFd>> {
        Some(Rc::clone(&self.get(vm, area)?.ledgers.get(&index)?.fd))
    }

    pub(crate) fn remove(&mut self, vm: i32, area: u32) {
        self.memory.remove(&(vm, area));
        self.orphan_reports.retain(|(of, id, _), _| (*of, *id) != (vm, area));
    }

    pub(crate) fn remove_vm(&mut self, vm: i32) {
        self.memory.retain(|(of, _), _| *of != vm);
        self.orphan_reports.retain(|(of, ..), _| *of != vm);
    }

    /// Adds a member's report that no block of a dead member is in use. Returns whether all present
    /// members have reported it.
    ///
    /// A member with such a block does not report. A block that is out of use stays out of use, so
    /// earlier reports remain true.
    pub(crate) fn add_orphan_report(
        &mut self,
        vm: i32,
        area: &Area,
        dead: u16,
        reporter: u16,
    ) -> bool {
        let key = (vm, area.id, dead);
        let reporters = self.orphan_reports.entry(key).or_default();
        reporters.insert(reporter);
        let complete = area.present().all(|(member, _)| reporters.contains(&member));
        if complete {
            self.orphan_reports.remove(&key);
        }
        complete
    }
}

/// The ledgers of one area, for one orphan scan.
///
/// Most of a ledger has no page, and a read through the mapping would take one. So a scan asks the
/// kernel where the pages are, and takes all other words for 0. An answer holds for this scan: a
/// member that claims a block later has seen all deaths that the scan counts.
pub(crate) struct Ledgers<'a> {
    memory: &'a AreaMemory,
    area: &'a Area,
    /// By member: the latest answer of the kernel.
    parts: Vec<Cell<LedgerPart>>,
}

/// A part of a ledger of which all bytes have pages, or none.
#[derive(Clone, Copy, Debug, Default)]
struct LedgerPart {
    start: u64,
    end: u64,
    has_pages: bool,
}

impl<'a> Ledgers<'a> {
    pub(crate) fn new(memory: &'a AreaMemory, area: &'a Area) -> Self {
        let parts = area.members.iter().map(|_| Cell::default()).collect();
        Self { memory, area, parts }
    }
}

impl LedgerPart {
    /// The part around this byte.
    fn find(ledger: &Ledger, byte: u64) -> Self {
        let start = byte - byte % PAGE_BYTES;
        match m3ipc_sys::next_page(&*ledger.fd, start) {
            Ok(Some(at)) if at > start => Self { start, end: at, has_pages: false },
            Ok(None) => Self { start, end: u64::MAX, has_pages: false },
            // Where the kernel does not say, a read finds out.
            Ok(Some(_)) | Err(_) => Self { start, end: start + PAGE_BYTES, has_pages: true },
        }
    }
}

impl m3ipc_area::LedgerSet for Ledgers<'_> {
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64> {
        let at = number as usize * m3ipc_area::RECORD_WORDS + word;
        let ledger = self.memory.ledgers.get(&member)?;
        let part = self.parts.get(usize::from(member))?;
        let byte = 8 * at as u64;
        if !(part.get().start..part.get().end).contains(&byte) {
            part.set(LedgerPart::find(ledger, byte));
        }
        if !part.get().has_pages {
            return Some(0);
        }
        Some(m3ipc_area::LedgerWords::load(&ledger.view, at))
    }

    fn lives(&self, member: u16) -> bool {
        let member = self.area.members.get(usize::from(member));
        member.is_some_and(|member| member.state != AreaMemberState::Gone)
    }

    fn living(&self) -> impl Iterator<Item = u16> {
        self.area.present().map(|(index, _)| index)
    }

    fn count(&self) -> usize {
        self.area.members.len()
    }
}

#[cfg(test)]
mod tests;
