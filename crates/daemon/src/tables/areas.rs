//! The operations on areas: create, join, extents, leave.
//!
//! An area has an address range that no other area of its VM has while it lives. Every process
//! therefore maps it at the same address. The area ends with its last member.

use m3ipc_abi::{Address, Extent};
use m3ipc_wire::{AreaAudience, AreaParams};

use crate::quota::Share;

use super::area::{
    AREA_LIMIT_MAX_BYTES, AREA_MEMBERS_MAX, Area, AreaMemberState, AreaMembership, RANGE_BYTES,
    span,
};
use super::area_error::AreaError;
use super::identity::MemberId;
use super::node::Node;
use super::record::Record;
use super::vm::Vm;

/// The number of areas that one VM may have.
const AREAS_MAX: usize = 4096;
/// Block numbers are given in multiples of this.
const NUMBERS_STEP: u32 = 64;

impl Vm {
    /// The use of the VM's areas and of their addresses, by this user and by all.
    fn area_shares(&self, uid: u32) -> [Share; 2] {
        let of_user = || self.areas.values().filter(|area| area.owner_uid == uid);
        let bytes = |area: &Area| span(area.params.limit_bytes);
        let areas = Share {
            total: AREAS_MAX as u64,
            used: self.areas.len() as u64,
            used_by_user: of_user().count() as u64,
        };
        let addresses = Share {
            total: RANGE_BYTES,
            used: self.areas.values().map(bytes).sum(),
            used_by_user: of_user().map(bytes).sum(),
        };
        [areas, addresses]
    }
}

/// How much more room of an area a user may have.
struct RoomQuota {
    uid: u32,
    /// Bytes and block numbers; nothing for a user without a quota.
    shares: Option<[Share; 2]>,
}

impl RoomQuota {
    fn check_bytes(&self, bytes: u64) -> Result<(), AreaError> {
        self.check(0, bytes, "area room")
    }

    fn check_numbers(&self, numbers: u32) -> Result<(), AreaError> {
        self.check(1, u64::from(numbers), "block numbers")
    }

    fn check(&self, share: usize, wanted: u64, name: &'static str) -> Result<(), AreaError> {
        let is_over = self.shares.is_some_and(|shares| !shares[share].admits(wanted, false));
        if is_over { Err(AreaError::Quota { uid: self.uid, name }) } else { Ok(()) }
    }
}

impl Node {
    /// For each share of a VM, the highest one that a user has in any VM of others.
    #[must_use]
    pub fn highest_shares(&self, uid: u32) -> [(&'static str, Share); 3] {
        let mut highest = [("slots", None), ("areas", None), ("area addresses", None)];
        for vm in self.vms().filter(|vm| vm.spec.owner_uid != uid) {
            let [areas, addresses] = vm.area_shares(uid);
            for ((_, most), share) in highest.iter_mut().zip([vm.slot_share(uid), areas, addresses])
            {
                if most.is_none_or(|most: Share| most.used_by_user < share.used_by_user) {
                    *most = Some(share);
                }
            }
        }
        let none = Share { total: 0, used: 0, used_by_user: 0 };
        highest.map(|(name, share)| (name, share.unwrap_or(none)))
    }

    /// The area with this number.
    ///
    /// # Errors
    /// The VM's state; -316 for an unknown number.
    pub fn area(&self, vm: i32, area: u32) -> Result<&Area, AreaError> {
        self.vm(vm)?.areas.get(&area).ok_or(AreaError::Unknown(area))
    }

    /// All areas of a VM.
    pub fn areas(&self, vm: i32) -> impl Iterator<Item = &Area> {
        self.state.vms.get(&vm).into_iter().flat_map(|vm| vm.areas.values())
    }

    /// Creates an area with `owner` as its first member, and returns its number.
    ///
    /// # Errors
    /// An invalid limit or audience, too many areas, no addresses left.
    pub fn create_area(
        &mut self,
        owner: MemberId,
        params: AreaParams,
        numbers: u32,
    ) -> Result<u32, AreaError> {
        let vm = self.running(owner.vm)?;
        vm.endpoint(None, owner.address)?;
        let limit = params.limit_bytes;
        let in_range = (1..=AREA_LIMIT_MAX_BYTES).contains(&limit);
        if !in_range || !limit.is_multiple_of(Area::step_bytes(&params, self.page_bytes)) {
            return Err(AreaError::Limit(limit));
        }
        match &params.audience {
            AreaAudience::Pair(other) => {
                vm.check_destination(Some(owner.address), Address(*other))?;
            }
            AreaAudience::Set(list) if list.len() >= AREA_MEMBERS_MAX => {
                return Err(AreaError::TooManyMembers);
            }
            AreaAudience::Set(_) | AreaAudience::Vm => {}
        }
        if vm.areas.len() >= AREAS_MAX {
            return Err(AreaError::TooMany);
        }
        let owner_uid = self.endpoint(owner).map_or(0, |endpoint| endpoint.uid);
        self.check_area_shares(vm, owner_uid, limit)?;
        let others: Vec<&Area> = vm.areas.values().collect();
        let base = vm.latest_area.free_base(owner.vm, &others, limit, params.low);
        let base = base.ok_or(AreaError::NoAddresses(limit))?;
        let id = vm.latest_area.id.checked_add(1).ok_or(AreaError::TooMany)?;
        let state = AreaMemberState::Joining;
        let first = AreaMembership { address: owner.address, state, uid: owner_uid };
        let area = Area {
            id,
            base,
            params,
            numbers,
            owner: owner.address,
            owner_uid,
            members: vec![first],
            extents: Vec::new(),
            grants: 0,
            closed: false,
        };
        self.commit(Record::Area { vm: owner.vm, area });
        Ok(id)
    }

    /// Checks whether a user may create one more area of this limit. The owner of the VM and root
    /// may use all of it.
    fn check_area_shares(&self, vm: &Vm, uid: u32, limit_bytes: u64) -> Result<(), AreaError> {
        let is_privileged = self.is_privileged(uid) || vm.spec.owner_uid == uid;
        let [areas, addresses] = vm.area_shares(uid);
        if !areas.admits(1, is_privileged) {
            return Err(AreaError::Quota { uid, name: "areas" });
        }
        // The limit of the whole range has an error of its own.
        if !is_privileged && !addresses.admits(span(limit_bytes), false) {
            return Err(AreaError::Quota { uid, name: "area addresses" });
        }
        Ok(())
    }

    /// The index of a present or future member, so that other members can give blocks to it. The
    /// membership counts against `payer` until the member joins.
    ///
    /// # Errors
    /// The endpoint is not in the audience, or does not live; the area has too many members, or the
    /// payer is at its quota.
    pub fn area_index(&mut self, id: MemberId, area: u32, payer: u32) -> Result<u16, AreaError> {
        let entry = self.area(id.vm, area)?;
        if let Some(index) = entry.index_of(id.address) {
            return Ok(index);
        }
        if entry.closed || !entry.admits(id.address) {
            return Err(AreaError::NotInAudience(id.address));
        }
        self.vm(id.vm)?.endpoint(None, id.address)?;
        let owners = [entry.owner_uid, self.vm(id.vm)?.spec.owner_uid];
        let is_privileged = self.is_privileged(payer) || owners.contains(&payer);
        let shares = [
            ("area members", entry.member_share(payer)),
            ("area indexes", entry.index_share(payer)),
        ];
        for (name, share) in shares {
            if !share.admits(1, true) {
                return Err(AreaError::TooManyMembers);
            }
            if !share.admits(1, is_privileged) {
                return Err(AreaError::Quota { uid: payer, name });
            }
        }
        let index = u16::try_from(entry.members.len()).map_err(|_| AreaError::TooManyMembers)?;
        let state = AreaMemberState::Expected;
        let member = AreaMembership { address: id.address, state, uid: payer };
        self.commit(Record::AreaMember { vm: id.vm, area, index, member });
        Ok(index)
    }

    /// Sets the state of a member, and returns its index. The area ends with the last member that
    /// has its memory: an expected member can no longer get a block.
    ///
    /// # Errors
    /// The area does not exist, or the endpoint is not a member.
    pub fn set_area_member_state(
        &mut self,
        id: MemberId,
        area: u32,
        state: AreaMemberState,
    ) -> Result<u16, AreaError> {
        let entry = self.area(id.vm, area)?;
        let index = entry.index_of(id.address).ok_or(AreaError::NotInAudience(id.address))?;
        let before = entry.members[usize::from(index)];
        let mut member = AreaMembership { state, ..before };
        if let (AreaMemberState::Joining, Some(endpoint)) = (state, self.endpoint(id)) {
            member.uid = endpoint.uid;
        }
        let others_have_memory = entry.present().any(|(other, _)| other != index);
        if !member.has_memory() && !others_have_memory {
            self.commit(Record::AreaEnd { vm: id.vm, area });
        } else if member != before {
            self.commit(Record::AreaMember { vm: id.vm, area, index, member });
        }
        Ok(index)
    }

    /// Closes an area to new members.
    ///
    /// # Errors
    /// The area does not exist, or the caller is not its owner.
    pub fn close_area(&mut self, id: MemberId, area: u32) -> Result<(), AreaError> {
        let entry = self.area(id.vm, area)?;
        if entry.owner != id.address {
            return Err(AreaError::NotOwner(id.address));
        }
        if !entry.closed {
            self.commit(Record::AreaClosed { vm: id.vm, area });
        }
        Ok(())
    }

    /// Gives a member an extent: of `wanted` bytes if a gap has that size, else of `needed` bytes.
    ///
    /// # Errors
    /// No gap is large enough, the member may not allocate, or its user is at a quota.
    pub fn give_extent(
        &mut self,
        id: MemberId,
        area: u32,
        needed: u64,
        wanted: u64,
        from_back: bool,
    ) -> Result<Extent, AreaError> {
        let entry = self.area(id.vm, area)?;
        let allocator = entry.index_of(id.address).ok_or(AreaError::NotInAudience(id.address))?;
        if entry.params.owner_writes && entry.owner != id.address {
            return Err(AreaError::NotOwner(id.address));
        }
        let limit = entry.params.limit_bytes;
        let step = Area::step_bytes(&entry.params, self.page_bytes);
        let full = AreaError::Full { bytes: needed, limit };
        if needed > limit || needed == 0 {
            return Err(full);
        }
        let sizes = [wanted.min(limit), needed].map(|bytes| bytes.next_multiple_of(step));
        let room = self.room_of(id, entry)?;
        room.check_bytes(sizes[1])?;
        room.check_numbers(NUMBERS_STEP)?;
        let found = sizes
            .into_iter()
            .filter(|bytes| room.check_bytes(*bytes).is_ok())
            .find_map(|bytes| Some((entry.gap(bytes, from_back)?, bytes)));
        let (offset, bytes) = found.ok_or(full.clone())?;
        let share = u64::from(entry.numbers) * bytes / limit;
        let count =
            u32::try_from(share).unwrap_or(entry.numbers).clamp(NUMBERS_STEP, entry.numbers);
        let numbers = [count, NUMBERS_STEP]
            .into_iter()
            .filter(|count| room.check_numbers(*count).is_ok())
            .find_map(|count| Some((entry.numbers_gap(count)?, count)));
        let (first_number, numbers) = numbers.ok_or(full)?;
        let generation = entry.grants.wrapping_add(1) << 12 & 0xff_ffff;
        let extent = Extent { allocator, offset, bytes, first_number, numbers, generation };
        self.commit(Record::Extent { vm: id.vm, area, extent });
        Ok(extent)
    }

    /// The quotas of a member for the room of an area. An area for its whole VM has members that
    /// its owner did not choose.
    fn room_of(&self, id: MemberId, area: &Area) -> Result<RoomQuota, AreaError> {
        let uid = self.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        let owners = [area.owner_uid, self.vm(id.vm)?.spec.owner_uid];
        let is_free = area.params.audience != AreaAudience::Vm
            || self.is_privileged(uid)
            || owners.contains(&uid);
        Ok(RoomQuota { uid, shares: (!is_free).then(|| area.room_shares(uid)) })
    }

    /// Frees extents, by their offsets.
    pub fn free_extents(&mut self, vm: i32, area: u32, mut offsets: Vec<u64>) {
        if self.area(vm, area).is_ok() && !offsets.is_empty() {
            offsets.sort_unstable();
            self.commit(Record::ExtentsGone { vm, area, offsets });
        }
    }

    /// The areas of which an endpoint is a present or expected member.
    #[must_use]
    pub fn areas_of(&self, id: MemberId) -> Vec<u32> {
        let has = |area: &&Area| area.index_of(id.address).is_some();
        self.areas(id.vm).filter(has).map(|area| area.id).collect()
    }
}
