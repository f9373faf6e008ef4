//! One area: its members, its extents, and the gaps between them.

use m3ipc_abi::{Address, Extent};
use m3ipc_wire::{AreaAudience, AreaParams};
use serde::{Deserialize, Serialize};

use crate::quota::Share;

use super::serde_abi;

/// The start of the address ranges of all VMs: above the programs and below the libraries.
const RANGES_START: u64 = 0x2000_0000_0000;
/// Size of the address range of one VM, in bytes.
pub(super) const RANGE_BYTES: u64 = 1 << 39;
/// The same for low areas. ThreadSanitizer, MemorySanitizer and valgrind leave these addresses to
/// programs: above static programs and their heaps, and below 512 GiB.
const LOW_RANGES_START: u64 = 64 << 30;
const LOW_RANGE_BYTES: u64 = 7 << 30;
/// The number of address ranges. A process is in one VM only, so further VMs share a range.
const RANGES: u64 = 64;
/// An area starts and ends at multiples of this many bytes: a huge page.
pub const AREA_ALIGN_BYTES: u64 = 2 << 20;
/// The largest limit of an area in bytes: the reach of 32 bits in units of 64 bytes.
pub const AREA_LIMIT_MAX_BYTES: u64 = 256 << 30;
/// The number of members that an area may have at a time.
pub const AREA_MEMBERS_MAX: usize = 256;
/// The number of members that an area may have in its life.
const AREA_INDEXES_MAX: usize = 4096;

/// The state of a member of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaMemberState {
    /// Other members can give blocks to it; it has not joined.
    Expected,
    /// The daemon has given it the memory.
    Joining,
    /// It has mapped the memory.
    In,
    /// It has left, or died.
    Gone,
}

/// One member. Its index is its position in [`Area::members`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaMembership {
    /// The endpoint.
    #[serde(with = "serde_abi::address")]
    pub address: Address,
    /// The state.
    pub state: AreaMemberState,
    /// The user whose quota the membership counts against: of the member that expects it, then of
    /// the member itself.
    pub uid: u32,
}

impl AreaMembership {
    /// Whether the daemon has given it the memory, and it has not left.
    #[must_use]
    pub const fn has_memory(&self) -> bool {
        matches!(self.state, AreaMemberState::Joining | AreaMemberState::In)
    }
}

/// An area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its number in the VM.
    pub id: u32,
    /// Its address, the same in every process.
    pub base: u64,
    /// The request that created it.
    pub params: AreaParams,
    /// The number of block numbers.
    pub numbers: u32,
    /// The endpoint that created it.
    #[serde(with = "serde_abi::address")]
    pub owner: Address,
    /// The user of that endpoint.
    pub owner_uid: u32,
    /// Members, by index.
    pub members: Vec<AreaMembership>,
    /// Extents, by offset.
    pub extents: Vec<Extent>,
    /// The number of extents given so far. Wraps.
    pub grants: u32,
    /// Whether the area takes no new members.
    pub closed: bool,
}

impl Area {
    /// The index of a member that has not left.
    #[must_use]
    pub fn index_of(&self, address: Address) -> Option<u16> {
        let at = self.members.iter().position(|member| {
            member.address == address && member.state != AreaMemberState::Gone
        })?;
        u16::try_from(at).ok()
    }

    /// Members that have the memory, by index.
    pub fn present(&self) -> impl Iterator<Item = (u16, AreaMembership)> {
        let all = (0_u16..).zip(self.members.iter().copied());
        all.filter(|(_, member)| member.has_memory())
    }

    /// Whether the member with this index has left or died.
    #[must_use]
    pub fn is_gone(&self, index: u16) -> bool {
        let member = self.members.get(usize::from(index));
        member.is_some_and(|member| member.state == AreaMemberState::Gone)
    }

    /// Whether this endpoint may join.
    #[must_use]
    pub fn admits(&self, address: Address) -> bool {
        address == self.owner
            || match &self.params.audience {
                AreaAudience::Pair(other) => *other == address.0,
                AreaAudience::Set(list) => list.contains(&address.0),
                AreaAudience::Vm => true,
            }
    }

    /// The use of the places for members, by this user and by all.
    pub(super) fn member_share(&self, uid: u32) -> Share {
        let of_user = self
            .members
            .iter()
            .filter(|member| member.uid == uid && member.state != AreaMemberState::Gone);
        Share {
            total: AREA_MEMBERS_MAX as u64,
            used: self.member_count() as u64,
            used_by_user: of_user.count() as u64,
        }
    }

    /// The use of the indexes, by this user and by all. An index is never given again: ledgers name
    /// members by their indexes, and a block for a dead member must not reach its successor.
    pub(super) fn index_share(&self, uid: u32) -> Share {
        let of_user = self.members.iter().filter(|member| member.uid == uid);
        Share {
            total: AREA_INDEXES_MAX as u64,
            used: self.members.len() as u64,
            used_by_user: of_user.count() as u64,
        }
    }

    /// The use of the bytes and of the block numbers, by this user and by all. An extent counts
    /// against the user of the member that asked for it, also after its blocks have changed hands.
    pub(super) fn room_shares(&self, uid: u32) -> [Share; 2] {
        let is_of_user = |extent: &&Extent| {
            let allocator = self.members.get(usize::from(extent.allocator));
            allocator.is_some_and(|member| member.uid == uid)
        };
        let share = |total: u64, measure: fn(&Extent) -> u64| Share {
            total,
            used: self.extents.iter().map(measure).sum(),
            used_by_user: self.extents.iter().filter(is_of_user).map(measure).sum(),
        };
        [
            share(self.params.limit_bytes, |extent| extent.bytes),
            share(u64::from(self.numbers), |extent| u64::from(extent.numbers)),
        ]
    }

    /// The number of members that have not left.
    pub(super) fn member_count(&self) -> usize {
        self.members.iter().filter(|member| member.state != AreaMemberState::Gone).count()
    }

    /// The step of sizes and offsets of extents, in bytes: one page.
    pub(super) const fn step_bytes(params: &AreaParams, page_bytes: u64) -> u64 {
        if params.huge { AREA_ALIGN_BYTES } else { page_bytes }
    }

    /// The offset of a gap for an extent: the lowest, or (`from_back`) the highest.
    pub(super) fn gap(&self, bytes: u64, from_back: bool) -> Option<u64> {
        let limit = self.params.limit_bytes;
        let starts = std::iter::once(0)
            .chain(self.extents.iter().map(|extent| extent.offset + extent.bytes));
        let ends = self.extents.iter().map(|extent| extent.offset).chain([limit]);
        let mut fits = starts.zip(ends).filter(|(start, end)| end - start >= bytes);
        if from_back {
            fits.last().map(|(_, end)| end - bytes)
        } else {
            fits.next().map(|(start, _)| start)
        }
    }

    /// The first of `count` consecutive free block numbers.
    pub(super) fn numbers_gap(&self, count: u32) -> Option<u32> {
        let mut taken: Vec<_> = self
            .extents
            .iter()
            .map(|extent| (extent.first_number, extent.first_number + extent.numbers))
            .collect();
        taken.sort_unstable();
        let mut start = 0;
        for (first, end) in taken {
            if first - start >= count {
                return Some(start);
            }
            start = end;
        }
        (self.numbers - start >= count).then_some(start)
    }
}

/// The latest area of a VM. Later areas get higher numbers, and addresses behind it: a member may
/// still map an area that has ended, or know it by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestArea {
    /// Its number.
    pub id: u32,
    /// The end of its addresses.
    pub end: u64,
    /// The end of the addresses of the latest low area.
    pub low_end: u64,
}

/// Size of the address range of an area with its gap, which no overrun of the area leaves.
pub(super) fn span(limit_bytes: u64) -> u64 {
    limit_bytes.next_multiple_of(AREA_ALIGN_BYTES) + AREA_ALIGN_BYTES
}

impl LatestArea {
    /// The later one of this area and another.
    pub(super) fn or(self, area: &Area) -> Self {
        if area.id <= self.id {
            return self;
        }
        let end = area.base + span(area.params.limit_bytes);
        let latest = Self { id: area.id, ..self };
        if area.base < RANGES_START {
            Self { low_end: end, ..latest }
        } else {
            Self { end, ..latest }
        }
    }

    /// An address for a new area of `limit` bytes: in the first gap behind the latest area, else in
    /// the first gap. A low area without room lies in the other range.
    pub(super) fn free_base(self, vm: i32, areas: &[&Area], limit: u64, low: bool) -> Option<u64> {
        let range = u64::try_from(vm).ok()? % RANGES;
        let found = || {
            let start = LOW_RANGES_START + range * LOW_RANGE_BYTES;
            free_gap((start, start + LOW_RANGE_BYTES), self.low_end, areas, limit)
        };
        low.then(found).flatten().or_else(|| {
            let start = RANGES_START + range * RANGE_BYTES;
            free_gap((start, start + RANGE_BYTES), self.end, areas, limit)
        })
    }
}

/// The first gap of a range behind `latest` with room for an area of `limit` bytes, else the first
/// gap.
fn free_gap((start, end): (u64, u64), latest: u64, areas: &[&Area], limit: u64) -> Option<u64> {
    let spans = areas.iter().map(|area| (area.base, area.base + span(area.params.limit_bytes)));
    let mut taken: Vec<(u64, u64)> =
        spans.filter(|(begin, _)| (start..end).contains(begin)).collect();
    taken.sort_unstable();
    let begins = taken.iter().map(|(begin, _)| *begin).chain([end]);
    let ends = std::iter::once(start).chain(taken.iter().map(|(_, end)| *end));
    let gaps: Vec<(u64, u64)> = ends.zip(begins).collect();
    let fitting = |from: u64| {
        let mut behind = gaps.iter().map(|(begin, end)| ((*begin).max(from), *end));
        behind.find(|(begin, end)| end.saturating_sub(*begin) >= span(limit))
    };
    fitting(latest).or_else(|| fitting(start)).map(|(begin, _)| begin)
}
