//! Areas: made, joined, cut into extents, and cleaned up behind the dead.
//!
//! The daemon makes the memory and each member's ledger, and knows by its journal who is
//! in which area and who has which extent. It writes into neither. A ledger is sealed when its owner
//! has mapped it, and only then shown to the others, who hear of a member before he can act.
//!
//! After a takeover members go on as before; the memory of older areas is theirs alone, so nobody new can join
//! those, and the daemon asks them what of a dead member's extents is used.

use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{ledger_bytes, numbers_of};
use m3ipc_model::tables::{
    Area, AreaExtent, AreaMemberState, AreaSpec, Audience, Credentials, MemberId,
};
use m3ipc_shm::Observed;
use m3ipc_sys::Errno;
use m3ipc_wire::{
    AreaAudience, AreaEvent, AreaInfo, AreaParams, AreaReply, AreaRequest, DaemonEvent, Reply,
};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Areas told of in one frame.
const PAGE: usize = 16;

/// The memory of an area that this daemon made.
#[derive(Debug)]
pub(crate) struct AreaMemory {
    memory: Rc<OwnedFd>,
    ledgers: BTreeMap<u16, (Rc<OwnedFd>, Observed)>,
}

impl Server {
    pub(super) fn serve_area(&mut self, token: u64, cred: &Credentials, request: AreaRequest) {
        if let AreaRequest::List { vm, after } = request {
            return self.list_areas(token, cred, vm, after);
        }
        let Some(place) = self.own_place(token) else { return };
        match request {
            AreaRequest::Create(params) => self.create_area(token, place, params),
            AreaRequest::Attach(id) => self.attach_area(token, place, id),
            AreaRequest::Mapped(id) => self.area_mapped(token, place, id),
            AreaRequest::Index { area, address } => {
                self.area_index(token, place, area, Address(address))
            }
            AreaRequest::Extent { area, needed, wanted, from_back } => {
                self.area_extent(token, place, area, (needed, wanted), from_back);
            }
            AreaRequest::Detach(id) => {
                self.leave_area(place, id);
                self.done(token);
            }
            AreaRequest::Recall(id) => self.recall_area(token, place, id),
            AreaRequest::Orphaned { area, index } => self.area_deserted(place, area, index),
            AreaRequest::Close(id) => match self.node.close_area(place, id) {
                Ok(()) => self.done(token),
                Err(error) => self.refuse(token, error.code(), error),
            },
            AreaRequest::List { .. } => {}
        }
    }

    fn create_area(&mut self, token: u64, place: MemberId, params: AreaParams) {
        let audience = match params.audience {
            AreaAudience::Pair(other) => Audience::Pair(Address(other)),
            AreaAudience::Set(list) => Audience::Set(list),
            AreaAudience::Vm => Audience::Vm,
        };
        let (limit_bytes, huge) = (params.limit_bytes, params.huge);
        let may_seal = matches!(audience, Audience::Pair(_)) && !params.owner_writes;
        let spec = AreaSpec { limit_bytes, audience, owner_writes: params.owner_writes, huge };
        let id = match self.node.begin_area(place, spec, numbers_of(limit_bytes)) {
            Ok(id) => id,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        let made = m3ipc_sys::create_sparse("m3ipc-area", limit_bytes, huge).and_then(|memory| {
            // Of a pair either may demand that nobody can write any more; of others nobody may.
            if !may_seal && !params.owner_writes {
                m3ipc_sys::seal_seals(&memory)?;
            }
            Ok(memory)
        });
        match made {
            Ok(memory) => {
                let memory = AreaMemory { memory: Rc::new(memory), ledgers: BTreeMap::new() };
                self.areas.insert((place.vm, id), memory);
                self.join_area(token, place, id);
            }
            Err(errno) => {
                let _ = self.node.set_area_standing(place, id, AreaMemberState::Gone);
                self.refuse(
                    token,
                    Code::NoMem,
                    format_args!("no memory for an area of {limit_bytes} bytes: {errno}"),
                );
            }
        }
    }

    fn attach_area(&mut self, token: u64, place: MemberId, id: u32) {
        let index = match self.node.area_index(place, id) {
            Ok(index) => index,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        let Ok(area) = self.node.area(place.vm, id) else { return };
        if area.members[usize::from(index)].standing != AreaMemberState::Expected {
            return self.refuse(
                token,
                Code::RscBusy,
                format_args!("area {id} is attached already"),
            );
        }
        if !self.areas.contains_key(&(place.vm, id)) {
            let why = "the area is of before a takeover of the daemon: who is in it goes on, nobody new can join";
            return self.refuse(token, Code::NotReady, why);
        }
        let owner_maps = area.spec.owner_writes
            && area.members.first().is_some_and(|owner| owner.standing == AreaMemberState::Joining);
        if owner_maps {
            return self.refuse(
                token,
                Code::Again,
                format_args!("the owner of area {id} is just mapping it"),
            );
        }
        if self.node.set_area_standing(place, id, AreaMemberState::Joining).is_ok() {
            self.join_area(token, place, id);
        }
    }

    /// Gives a member memory and ledger, and tells it of extents and the others.
    fn join_area(&mut self, token: u64, place: MemberId, id: u32) {
        let Ok(area) = self.node.area(place.vm, id).cloned() else { return };
        let Some(index) = area.index_of(place.address) else { return };
        let ledger = match make_ledger(area.numbers) {
            Ok(ledger) => ledger,
            Err(errno) => {
                self.leave_area(place, id);
                return self.refuse(
                    token,
                    Code::NoMem,
                    format_args!("no memory for a ledger: {errno}"),
                );
            }
        };
        self.record();
        let Some(memory) = self.areas.get_mut(&(place.vm, id)) else { return };
        let fds = vec![Rc::clone(&memory.memory), Rc::clone(&ledger.0)];
        memory.ledgers.insert(index, ledger);
        let info = shown_area(&area);
        self.reply(token, Reply::Area(AreaReply::Joined { info, index }), fds);
        for extent in &area.extents {
            self.tell(
                token,
                DaemonEvent::Area(AreaEvent::Extent { area: id, extent: shown_extent(extent) }),
                Vec::new(),
            );
        }
        for (other, member) in (0..).zip(&area.members) {
            let address = member.address.0;
            match (member.standing, self.ledger_of(place.vm, id, other)) {
                _ if other == index => {}
                (AreaMemberState::In, Some(fd)) => {
                    self.tell(
                        token,
                        DaemonEvent::Area(AreaEvent::Member { area: id, index: other, address }),
                        vec![fd],
                    );
                }
                // A dead one's claims are links of chains still.
                (AreaMemberState::Gone, Some(fd)) => {
                    self.tell(
                        token,
                        DaemonEvent::Area(AreaEvent::Member { area: id, index: other, address }),
                        vec![fd],
                    );
                    self.tell(
                        token,
                        DaemonEvent::Area(AreaEvent::Left { area: id, index: other }),
                        Vec::new(),
                    );
                }
                _ => {
                    let news = AreaEvent::Expected { area: id, index: other, address };
                    self.tell(token, DaemonEvent::Area(news), Vec::new());
                }
            }
        }
    }

    fn area_mapped(&mut self, token: u64, place: MemberId, id: u32) {
        let Ok(area) = self.node.area(place.vm, id) else {
            return self.refuse(token, Code::NoNode, format_args!("there is no area {id}"));
        };
        let index = area.index_of(place.address);
        let (owner_writes, is_owner) = (area.spec.owner_writes, area.owner == place.address);
        let memory = self.areas.get(&(place.vm, id));
        let (Some(index), Some(memory)) = (index, memory) else {
            // Joined under a predecessor, who was killed before the others knew: it is not in it.
            self.leave_area(place, id);
            return self.refuse(token, Code::NotReady, "there is nothing to map");
        };
        let Some((ledger, _)) = memory.ledgers.get(&index) else { return };
        let mut sealed = m3ipc_sys::seal_against_new_writers(ledger);
        if owner_writes && is_owner {
            sealed = sealed.and_then(|()| m3ipc_sys::seal_against_new_writers(&memory.memory));
        }
        let ledger = Rc::clone(ledger);
        if let Err(errno) = sealed {
            tracing::error!(%errno, "an area or ledger cannot be sealed");
            return self.close(token);
        }
        if let Err(error) = self.node.set_area_standing(place, id, AreaMemberState::In) {
            return self.refuse(token, error.code(), error);
        }
        let address = place.address.0;
        self.record();
        // The others first: whoever acts is known before.
        self.tell_area(
            place.vm,
            id,
            Some(index),
            &AreaEvent::Member { area: id, index, address },
            Some(&ledger),
        );
        m3ipc_sys::pause_point("daemon.area_told");
        self.done(token);
    }

    fn area_index(&mut self, token: u64, place: MemberId, id: u32, address: Address) {
        if self.node.area(place.vm, id).is_ok_and(|area| area.index_of(place.address).is_none()) {
            return self.refuse(
                token,
                Code::Privileges,
                format_args!("the caller is not in area {id}"),
            );
        }
        match self.node.area_index(MemberId::new(place.vm, address), id) {
            Ok(index) => {
                self.record();
                let news = AreaEvent::Expected { area: id, index, address: address.0 };
                self.tell_area(place.vm, id, None, &news, None);
                self.reply_number(token, i32::from(index));
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    fn area_extent(
        &mut self,
        token: u64,
        place: MemberId,
        id: u32,
        bytes: (u64, u64),
        from_back: bool,
    ) {
        let mut given = self.node.give_extent(place, id, bytes.0, bytes.1, from_back);
        if given.as_ref().is_err_and(|error| error.code() == Code::AllocMem) {
            self.reclaim(place.vm, id);
            given = self.node.give_extent(place, id, bytes.0, bytes.1, from_back);
        }
        match given {
            Ok(extent) => {
                self.record();
                let extent = shown_extent(&extent);
                self.tell_area(
                    place.vm,
                    id,
                    Some(extent.allocator),
                    &AreaEvent::Extent { area: id, extent },
                    None,
                );
                self.reply(token, Reply::Area(AreaReply::Extent(extent)), Vec::new());
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Tells once more what a predecessor may have died over.
    fn recall_area(&mut self, token: u64, place: MemberId, id: u32) {
        if let Ok(area) = self.node.area(place.vm, id).cloned() {
            for extent in &area.extents {
                let extent = shown_extent(extent);
                self.tell(
                    token,
                    DaemonEvent::Area(AreaEvent::Extent { area: id, extent }),
                    Vec::new(),
                );
            }
            for (index, _) in (0..)
                .zip(&area.members)
                .filter(|(_, member)| member.standing == AreaMemberState::Gone)
            {
                self.tell(
                    token,
                    DaemonEvent::Area(AreaEvent::Left { area: id, index }),
                    Vec::new(),
                );
            }
            self.reclaim(place.vm, id);
        }
        self.done(token);
    }

    /// An endpoint has left an area: its blocks are their homes' again, its extents the daemon's.
    pub(crate) fn leave_area(&mut self, place: MemberId, id: u32) {
        let Ok(index) = self.node.set_area_standing(place, id, AreaMemberState::Gone) else {
            return;
        };
        self.record();
        if self.node.area(place.vm, id).is_err() {
            self.areas.remove(&(place.vm, id));
            return;
        }
        self.tell_area(place.vm, id, Some(index), &AreaEvent::Left { area: id, index }, None);
        self.reclaim(place.vm, id);
    }

    /// An endpoint is gone, and with it its part in all areas.
    pub(crate) fn leave_areas(&mut self, place: MemberId) {
        for id in self.node.areas_of(place) {
            self.leave_area(place, id);
        }
    }

    /// After a takeover: who died while no daemon lived has left its areas, too.
    pub(crate) fn leave_areas_of_the_dead(&mut self, vm: i32) {
        let present = |area: &Area| -> Vec<(MemberId, u32)> {
            let members =
                area.members.iter().filter(|member| member.standing != AreaMemberState::Gone);
            members.map(|member| (MemberId::new(vm, member.address), area.id)).collect()
        };
        let all: Vec<_> = self.node.areas(vm).flat_map(present).collect();
        for (place, id) in all {
            if self.node.endpoint(place).is_none() {
                self.leave_area(place, id);
            }
        }
    }

    /// Takes back the extents of dead members in which nobody living has or awaits a block.
    fn reclaim(&mut self, vm: i32, id: u32) {
        let Ok(area) = self.node.area(vm, id).cloned() else { return };
        let dead = |extent: &&AreaExtent| {
            area.members[usize::from(extent.home)].standing == AreaMemberState::Gone
        };
        // After the members were told of the death: who accepts a block of the dead sees that news, or is seen here.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // A block may have its number from one extent of its home and lie in another: all of a home's, or none.
        let Some(memory) = self.areas.get(&(vm, id)) else {
            // Made by a predecessor: only its members can look.
            if area.extents.iter().any(|extent| dead(&extent)) {
                self.tell_area(vm, id, None, &AreaEvent::FindOrphans { area: id }, None);
            }
            return;
        };
        let ledgers = Ledgers { memory, area: &area };
        let in_use = |extent: &&AreaExtent| {
            let numbers = extent.first_number..extent.first_number + extent.numbers;
            m3ipc_area::is_in_use(&ledgers, extent.home, numbers)
        };
        let used: BTreeSet<u16> =
            area.extents.iter().filter(dead).filter(in_use).map(|extent| extent.home).collect();
        let over = area.extents.iter().filter(dead).filter(|extent| !used.contains(&extent.home));
        let over: Vec<AreaExtent> = over.copied().collect();
        self.free_extents(vm, id, &over);
    }

    fn free_extents(&mut self, vm: i32, id: u32, over: &[AreaExtent]) {
        for extent in over {
            self.node.free_extent(vm, id, extent.offset);
            self.record();
            if let Some(memory) = self.areas.get(&(vm, id)) {
                // What is not used any more need not be kept; where it is sealed it stays.
                let _ = m3ipc_sys::release_memory(&memory.memory, extent.offset, extent.bytes);
            }
            self.tell_area(
                vm,
                id,
                None,
                &AreaEvent::ExtentGone { area: id, offset: extent.offset },
                None,
            );
        }
    }

    /// A member says that nobody uses what a dead one allocated. That is so when all say it: whoever has a
    /// block of it does not, and what is deserted once stays so.
    fn area_deserted(&mut self, place: MemberId, id: u32, index: u16) {
        let Ok(area) = self.node.area(place.vm, id).cloned() else { return };
        let is_dead = area
            .members
            .get(usize::from(index))
            .is_some_and(|home| home.standing == AreaMemberState::Gone);
        let Some(by) = area.index_of(place.address) else { return };
        if !is_dead || self.areas.contains_key(&(place.vm, id)) {
            return;
        }
        let said = self.deserted.entry((place.vm, id, index)).or_default();
        said.insert(by);
        if area.present().all(|(member, _)| said.contains(&member)) {
            self.deserted.remove(&(place.vm, id, index));
            let over = area.extents.iter().filter(|extent| extent.home == index).copied();
            self.free_extents(place.vm, id, &over.collect::<Vec<_>>());
        }
    }

    fn ledger_of(&self, vm: i32, id: u32, index: u16) -> Option<Rc<OwnedFd>> {
        let (ledger, _) = self.areas.get(&(vm, id))?.ledgers.get(&index)?;
        Some(Rc::clone(ledger))
    }

    fn tell_area(
        &mut self,
        vm: i32,
        id: u32,
        but: Option<u16>,
        news: &AreaEvent,
        fd: Option<&Rc<OwnedFd>>,
    ) {
        let Ok(area) = self.node.area(vm, id) else { return };
        let tokens: Vec<u64> = area
            .present()
            .filter(|(index, _)| Some(*index) != but)
            .filter_map(|(_, member)| self.present.get(&MemberId::new(vm, member.address)).copied())
            .collect();
        for token in tokens {
            self.tell(token, DaemonEvent::Area(news.clone()), fd.into_iter().cloned().collect());
        }
    }

    fn list_areas(&mut self, token: u64, cred: &Credentials, vm: i32, after: u32) {
        if let Err(error) = self.node.check_see(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let list: Vec<AreaInfo> =
            self.node.areas(vm).filter(|area| area.id > after).take(PAGE).map(shown_area).collect();
        let next = list.last().filter(|_| list.len() == PAGE).map(|area| area.area);
        self.reply(token, Reply::Area(AreaReply::Areas { list, next }), Vec::new());
    }
}

/// The ledgers of an area that this daemon made.
struct Ledgers<'a> {
    memory: &'a AreaMemory,
    area: &'a Area,
}

impl m3ipc_area::LedgerSet for Ledgers<'_> {
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64> {
        let (_, ledger) = self.memory.ledgers.get(&member)?;
        Some(m3ipc_area::LedgerWords::load(
            ledger,
            number as usize * m3ipc_area::RECORD_WORDS + word,
        ))
    }

    fn lives(&self, member: u16) -> bool {
        self.area
            .members
            .get(usize::from(member))
            .is_some_and(|member| member.standing != AreaMemberState::Gone)
    }

    fn living(&self) -> impl Iterator<Item = u16> {
        self.area.present().map(|(index, _)| index)
    }

    fn count(&self) -> usize {
        self.area.members.len()
    }
}

fn make_ledger(numbers: u32) -> Result<(Rc<OwnedFd>, Observed), Errno> {
    let bytes = ledger_bytes(numbers);
    let ledger = m3ipc_sys::create_sparse("m3-ledger", bytes as u64, false)?;
    let view = Observed::map_sparse(&ledger, bytes)?;
    Ok((Rc::new(ledger), view))
}

fn shown_extent(extent: &AreaExtent) -> m3ipc_abi::Extent {
    let AreaExtent { home, offset, bytes, first_number, numbers, generation } = *extent;
    m3ipc_abi::Extent { allocator: home, offset, bytes, first_number, numbers, generation }
}

fn shown_area(area: &Area) -> AreaInfo {
    AreaInfo {
        area: area.id,
        base: area.base,
        limit_bytes: area.spec.limit_bytes,
        extent_bytes: area.extents.iter().map(|extent| extent.bytes).sum(),
        owner: area.owner.0,
        audience: match &area.spec.audience {
            Audience::Pair(other) => AreaAudience::Pair(other.0),
            Audience::Set(list) => AreaAudience::Set(list.clone()),
            Audience::Vm => AreaAudience::Vm,
        },
        owner_writes: area.spec.owner_writes,
        huge: area.spec.huge,
        closed: area.closed,
        numbers: area.numbers,
        members: area.present().map(|(_, member)| member.address.0).collect(),
    }
}
