//! Areas: where they lie, who may join, who has which extent.
//!
//! An area has a range of addresses that no other area of its VM has while it lives, so it is
//! mapped at the same place in every process. It ends with its last member.

use super::error::AreaError;
use super::foreign;
use super::identity::MemberId;
use super::journal::Record;
use super::node::Node;
use m3ipc_abi::Address;
use serde::{Deserialize, Serialize};

/// Where the windows of all VMs begin: above where programs, and below where libraries are mapped.
const WINDOWS_START: u64 = 0x2000_0000_0000;
/// Addresses of one VM's areas, in bytes.
const WINDOW_BYTES: u64 = 1 << 39;
/// So many VMs have windows of their own; a process is in one VM only, so more may share.
const WINDOWS: u64 = 64;
/// Areas begin and end at multiples of this, in bytes: a huge page.
pub const AREA_ALIGN_BYTES: u64 = 2 << 20;
/// The most that an area may be made for, in bytes: what 32 bits of 64-byte units reach.
pub const AREA_LIMIT_MAX_BYTES: u64 = 256 << 30;
/// Members that an area may have at a time.
pub const AREA_MEMBERS_MAX: usize = 256;
/// Members that an area may have had.
const INDEXES_MAX: usize = 4096;
/// Areas that one VM may have.
const AREAS_MAX: usize = 4096;
/// Extents are cut at multiples of this, in bytes.
const EXTENT_STEP_BYTES: u64 = 4096;
/// Block numbers are given in packs of this many.
const NUMBERS_STEP: u32 = 64;

/// Who may join an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audience {
    /// Its owner and one other.
    Pair(#[serde(with = "foreign::address")] Address),
    /// Its owner and these.
    Set(Vec<i32>),
    /// Every member of the VM.
    Vm,
}

/// What an area is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaSpec {
    /// Its size at most, in bytes.
    pub limit_bytes: u64,
    /// Who may join.
    pub audience: Audience,
    /// Only its owner writes; else whoever holds a block.
    pub owner_writes: bool,
    /// Made of huge pages.
    pub huge: bool,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaMemberState {
    /// Blocks can be given to it; it has not joined.
    Expected,
    /// It has been given the memory.
    Joining,
    /// It takes part.
    In,
    /// It has left, or died.
    Gone,
}

/// One member; its index is its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaMembership {
    /// Who.
    #[serde(with = "foreign::address")]
    pub address: Address,
    /// How far it has come.
    pub standing: AreaMemberState,
}

/// A piece of an area in which one member allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaExtent {
    /// The member that allocates in it.
    pub home: u16,
    /// Where it begins, in bytes from the area's beginning.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The first of its block numbers.
    pub first_number: u32,
    /// How many block numbers it has.
    pub numbers: u32,
    /// The generation that its numbers begin with.
    pub generation: u32,
}

/// An area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Its number in the VM.
    pub id: u32,
    /// Where it is mapped, in every process.
    pub base: u64,
    /// What it was asked to be.
    pub spec: AreaSpec,
    /// Block numbers that it has.
    pub numbers: u32,
    /// Who made it.
    #[serde(with = "foreign::address")]
    pub owner: Address,
    /// Members, by index.
    pub members: Vec<AreaMembership>,
    /// Extents, by offset.
    pub extents: Vec<AreaExtent>,
    /// Extents ever given.
    pub grants: u32,
    /// Nobody new may join.
    pub closed: bool,
}

impl Area {
    /// The index of a member that has not left.
    #[must_use]
    pub fn index_of(&self, address: Address) -> Option<u16> {
        let at = self.members.iter().position(|member| {
            member.address == address && member.standing != AreaMemberState::Gone
        })?;
        u16::try_from(at).ok()
    }

    /// Members that take part or are about to, by index.
    pub fn present(&self) -> impl Iterator<Item = (u16, AreaMembership)> {
        let all = (0_u16..).zip(self.members.iter().copied());
        all.filter(|(_, member)| {
            matches!(member.standing, AreaMemberState::Joining | AreaMemberState::In)
        })
    }

    /// Whether this endpoint may join.
    #[must_use]
    pub fn admits(&self, address: Address) -> bool {
        address == self.owner
            || match &self.spec.audience {
                Audience::Pair(other) => *other == address,
                Audience::Set(list) => list.contains(&address.0),
                Audience::Vm => true,
            }
    }

    fn living(&self) -> usize {
        self.members.iter().filter(|member| member.standing != AreaMemberState::Gone).count()
    }

    /// A gap for an extent; the lowest, or (`from_back`) the highest.
    fn gap(&self, bytes: u64, from_back: bool) -> Option<u64> {
        let starts = std::iter::once(0)
            .chain(self.extents.iter().map(|extent| extent.offset + extent.bytes));
        let ends = self.extents.iter().map(|extent| extent.offset).chain([self.spec.limit_bytes]);
        let mut fits = starts.zip(ends).filter(|(start, end)| end - start >= bytes);
        if from_back {
            fits.last().map(|(_, end)| end - bytes)
        } else {
            fits.next().map(|(start, _)| start)
        }
    }

    fn numbers_gap(&self, count: u32) -> Option<u32> {
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

impl Node {
    /// The area of this number.
    ///
    /// # Errors
    /// Where the VM has none.
    pub fn area(&self, vm: i32, id: u32) -> Result<&Area, AreaError> {
        let areas = &self.vm(vm)?.areas;
        areas.get(&id).ok_or(AreaError::Unknown(id))
    }

    /// All areas of a VM.
    pub fn areas(&self, vm: i32) -> impl Iterator<Item = &Area> {
        self.tables.vms.get(&vm).into_iter().flat_map(|vm| vm.areas.values())
    }

    /// Begins an area; its maker is its first member.
    ///
    /// # Errors
    /// Bad limits or audience, too many areas, no addresses left.
    pub fn begin_area(
        &mut self,
        maker: MemberId,
        spec: AreaSpec,
        numbers: u32,
    ) -> Result<u32, AreaError> {
        let vm = self.running(maker.vm)?;
        vm.endpoint(None, maker.address)?;
        let limit = spec.limit_bytes;
        let step = if spec.huge { AREA_ALIGN_BYTES } else { EXTENT_STEP_BYTES };
        if !(1..=AREA_LIMIT_MAX_BYTES).contains(&limit) || !limit.is_multiple_of(step) {
            return Err(AreaError::Limit(limit));
        }
        if let Audience::Pair(other) = spec.audience {
            vm.judge(Some(maker.address), other)?;
        }
        if matches!(&spec.audience, Audience::Set(list) if list.len() >= AREA_MEMBERS_MAX) {
            return Err(AreaError::Crowded);
        }
        if vm.areas.len() >= AREAS_MAX {
            return Err(AreaError::TooMany);
        }
        let base =
            base_for(maker.vm, vm.areas.values(), limit).ok_or(AreaError::NoAddresses(limit))?;
        let id = vm.areas.keys().next_back().map_or(1, |last| last + 1);
        let maker_in =
            AreaMembership { address: maker.address, standing: AreaMemberState::Joining };
        let area = Area {
            id,
            base,
            spec,
            numbers,
            owner: maker.address,
            members: vec![maker_in],
            extents: Vec::new(),
            grants: 0,
            closed: false,
        };
        self.commit(Record::Area { vm: maker.vm, area });
        Ok(id)
    }

    /// The index of a member or one to be, so that blocks can be given to it.
    ///
    /// # Errors
    /// Where it is not in the audience, or does not live.
    pub fn area_index(&mut self, place: MemberId, id: u32) -> Result<u16, AreaError> {
        let area = self.area(place.vm, id)?;
        if let Some(index) = area.index_of(place.address) {
            return Ok(index);
        }
        if area.closed || !area.admits(place.address) {
            return Err(AreaError::NotInAudience(place.address));
        }
        self.vm(place.vm)?.endpoint(None, place.address)?;
        if area.living() >= AREA_MEMBERS_MAX || area.members.len() >= INDEXES_MAX {
            return Err(AreaError::Crowded);
        }
        let index = u16::try_from(area.members.len()).map_err(|_| AreaError::Crowded)?;
        let mut area = area.clone();
        area.members
            .push(AreaMembership { address: place.address, standing: AreaMemberState::Expected });
        self.commit(Record::Area { vm: place.vm, area });
        Ok(index)
    }

    /// A member comes a step further, or goes.
    ///
    /// # Errors
    /// Where it is not one.
    pub fn set_area_standing(
        &mut self,
        place: MemberId,
        id: u32,
        standing: AreaMemberState,
    ) -> Result<u16, AreaError> {
        let mut area = self.area(place.vm, id)?.clone();
        let index = area.index_of(place.address).ok_or(AreaError::NotInAudience(place.address))?;
        area.members[usize::from(index)].standing = standing;
        self.commit(if area.living() == 0 {
            Record::AreaEnd { vm: place.vm, id }
        } else {
            Record::Area { vm: place.vm, area }
        });
        Ok(index)
    }

    /// Lets nobody new join an area.
    ///
    /// # Errors
    /// Where the caller did not make it.
    pub fn close_area(&mut self, place: MemberId, id: u32) -> Result<(), AreaError> {
        let mut area = self.area(place.vm, id)?.clone();
        if area.owner != place.address {
            return Err(AreaError::NotOwner(place.address));
        }
        area.closed = true;
        self.commit(Record::Area { vm: place.vm, area });
        Ok(())
    }

    /// Gives a member an extent: of `wanted` bytes where there is such a gap, else of `needed`.
    ///
    /// # Errors
    /// Where there is no gap, or the member may not allocate.
    pub fn give_extent(
        &mut self,
        place: MemberId,
        id: u32,
        needed: u64,
        wanted: u64,
        from_back: bool,
    ) -> Result<AreaExtent, AreaError> {
        let area = self.area(place.vm, id)?;
        let home = area.index_of(place.address).ok_or(AreaError::NotInAudience(place.address))?;
        if area.spec.owner_writes && area.owner != place.address {
            return Err(AreaError::NotOwner(place.address));
        }
        let step = if area.spec.huge { AREA_ALIGN_BYTES } else { EXTENT_STEP_BYTES };
        let full = AreaError::Full { bytes: needed, limit: area.spec.limit_bytes };
        if needed > area.spec.limit_bytes || needed == 0 {
            return Err(full);
        }
        let sizes =
            [wanted.min(area.spec.limit_bytes), needed].map(|bytes| bytes.next_multiple_of(step));
        let found = sizes.into_iter().find_map(|bytes| Some((area.gap(bytes, from_back)?, bytes)));
        let (offset, bytes) = found.ok_or(full.clone())?;
        let share = u64::from(area.numbers) * bytes / area.spec.limit_bytes;
        let count = u32::try_from(share).unwrap_or(area.numbers).clamp(NUMBERS_STEP, area.numbers);
        let numbers = [count, NUMBERS_STEP]
            .into_iter()
            .find_map(|count| Some((area.numbers_gap(count)?, count)));
        let (first_number, numbers) = numbers.ok_or(full)?;
        let mut area = area.clone();
        area.grants = area.grants.wrapping_add(1);
        let generation = area.grants << 12 & 0xff_ffff;
        let extent = AreaExtent { home, offset, bytes, first_number, numbers, generation };
        let at = area.extents.partition_point(|other| other.offset < offset);
        area.extents.insert(at, extent);
        self.commit(Record::Area { vm: place.vm, area });
        Ok(extent)
    }

    /// The extent of a dead member is free again.
    pub fn free_extent(&mut self, vm: i32, id: u32, offset: u64) {
        if let Ok(area) = self.area(vm, id) {
            let mut area = area.clone();
            area.extents.retain(|extent| extent.offset != offset);
            self.commit(Record::Area { vm, area });
        }
    }

    /// The areas in which an endpoint is, or is expected.
    #[must_use]
    pub fn areas_of(&self, place: MemberId) -> Vec<u32> {
        let has = |area: &&Area| area.index_of(place.address).is_some();
        self.areas(place.vm).filter(has).map(|area| area.id).collect()
    }
}

/// Addresses for an area: behind the highest one, else the first gap.
fn base_for<'a>(vm: i32, areas: impl Iterator<Item = &'a Area>, limit: u64) -> Option<u64> {
    let start = WINDOWS_START + (u64::try_from(vm).ok()? % WINDOWS) * WINDOW_BYTES;
    // A gap behind each, so that nothing that runs over its end meets the next.
    let span = |bytes: u64| bytes.next_multiple_of(AREA_ALIGN_BYTES) + AREA_ALIGN_BYTES;
    let mut taken: Vec<(u64, u64)> =
        areas.map(|area| (area.base, area.base + span(area.spec.limit_bytes))).collect();
    taken.sort_unstable();
    let last = taken.last().map_or(start, |(_, end)| *end);
    if last + span(limit) <= start + WINDOW_BYTES {
        return Some(last);
    }
    let ends = std::iter::once(start).chain(taken.iter().map(|(_, end)| *end));
    let gaps = ends.zip(taken.iter().map(|(begin, _)| *begin));
    gaps.into_iter().find(|(begin, end)| end - begin >= span(limit)).map(|(begin, _)| begin)
}

#[cfg(test)]
mod tests;
