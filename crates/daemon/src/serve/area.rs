//! Areas: create, join, extents, list.
//!
//! The daemon makes the memory of an area and the ledger of each member, and writes into neither.
//! The journal names the members and the extents of each area. The daemon seals a ledger once its
//! owner has mapped it, and only then shows it to other members. They learn of a member before it
//! can act.
//!
//! Areas of a killed predecessor go on with their members. The daemon does not have their memory,
//! so no new member can join them.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::areas::Ledger;
use crate::state::member_fd::MemberFd;
use crate::tables::{Area, AreaError, AreaMemberState, Credentials, MemberId};
use crate::token::Token;
use m3ipc_abi::{Address, Code, Extent};
use m3ipc_area::numbers_of;
use m3ipc_wire::{
    AreaAudience, AreaEvent, AreaInfo, AreaParams, AreaReply, AreaRequest, DaemonEvent, Reply,
};
use std::rc::Rc;

/// The number of areas in one frame.
const FRAME_AREAS: usize = 16;

impl Server {
    pub(super) fn serve_area(&mut self, token: Token, cred: &Credentials, request: AreaRequest) {
        if let AreaRequest::List { vm, after } = request {
            return self.list_areas(token, cred, vm, after);
        }
        let Some(id) = self.require_endpoint(token) else { return };
        match request {
            AreaRequest::Create(params) => self.create_area(token, id, params),
            AreaRequest::Attach(area) => self.attach_area(token, id, area),
            AreaRequest::Mapped(area) => self.area_mapped(token, id, area),
            AreaRequest::Index { area, address } => {
                self.area_index(token, id, area, Address(address));
            }
            AreaRequest::Extent { area, needed, wanted, from_back } => {
                self.area_extent(token, id, area, (needed, wanted), from_back);
            }
            AreaRequest::Release { area, offset } => {
                self.release_extent(id, area, offset);
                self.reply_done(token);
            }
            AreaRequest::Detach(area) => {
                self.leave_area(id, area);
                self.reply_done(token);
            }
            AreaRequest::Recall(area) => self.repeat_area_events(token, id, area),
            AreaRequest::Orphaned { area, index } => self.area_orphaned(id, area, index),
            AreaRequest::Close(area) => match self.node.close_area(id, area) {
                Ok(()) => self.reply_done(token),
                Err(error) => self.refuse(token, error.code(), error),
            },
            AreaRequest::List { .. } => {}
        }
    }

    fn create_area(&mut self, token: Token, id: MemberId, params: AreaParams) {
        let (limit_bytes, huge) = (params.limit_bytes, params.huge);
        // Both members of a pair may seal the area against all writers. In other areas no member
        // may.
        let may_seal = matches!(params.audience, AreaAudience::Pair(_)) || params.owner_writes;
        let area = match self.node.create_area(id, params, numbers_of(limit_bytes)) {
            Ok(area) => area,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        match self.create_area_memory(id, limit_bytes, huge, may_seal) {
            Ok(memory) => {
                self.areas.add(id.vm, area, Rc::new(memory));
                self.join_area(token, id, area);
            }
            Err(why) => {
                // The area has no other member, so this ends it.
                let _ = self.node.set_area_member_state(id, area, AreaMemberState::Gone);
                self.refuse(token, Code::NoMem, why);
            }
        }
    }

    /// The memory of an area. Its descriptor counts against the user of the area's creator.
    fn create_area_memory(
        &mut self,
        id: MemberId,
        bytes: u64,
        huge: bool,
        may_seal: bool,
    ) -> Result<MemberFd, String> {
        let uid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        let charges = self.accounts.charge(uid, &[(Resource::Descriptors, 1)]);
        let charges = charges.map_err(|exceeded| exceeded.to_string())?;
        let made = m3ipc_sys::create_sparse("m3-area", bytes, huge).and_then(|memory| {
            if !may_seal {
                m3ipc_sys::seal_seals(&memory)?;
            }
            Ok(MemberFd::charged(memory, charges))
        });
        made.map_err(|errno| {
            format!("no memory for an area of {bytes} bytes: {errno}; ask for fewer bytes")
        })
    }

    fn attach_area(&mut self, token: Token, id: MemberId, area: u32) {
        let uid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        let index = match self.node.area_index(id, area, uid) {
            Ok(index) => index,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        let Ok(entry) = self.node.area(id.vm, area) else { return };
        if self.areas.get(id.vm, area).is_none() {
            let why = "the area is older than this daemon: its members go on, but no new member \
                       can join; create another area";
            return self.refuse(token, Code::Orphaned, why);
        }
        if entry.members[usize::from(index)].state != AreaMemberState::Expected {
            let why = format!("area {area} is attached already; use it");
            return self.refuse(token, Code::RscBusy, why);
        }
        let owner = entry.members.first();
        let owner_maps = entry.params.owner_writes
            && owner.is_some_and(|owner| owner.state == AreaMemberState::Joining);
        if owner_maps {
            let why = format!("the owner of area {area} has not mapped it yet; try again");
            return self.refuse(token, Code::Again, why);
        }
        if self.node.set_area_member_state(id, area, AreaMemberState::Joining).is_ok() {
            self.join_area(token, id, area);
        }
    }

    /// Gives a member the memory and a ledger, and reports the extents and the other members.
    fn join_area(&mut self, token: Token, id: MemberId, area: u32) {
        let Ok(entry) = self.node.area(id.vm, area).cloned() else { return };
        let Some(index) = entry.index_of(id.address) else { return };
        let ledger = match self.create_ledger(id, entry.numbers) {
            Ok(ledger) => ledger,
            Err(why) => {
                self.leave_area(id, area);
                return self.refuse(token, Code::NoMem, why);
            }
        };
        self.record();
        let Some(memory) = self.areas.get_mut(id.vm, area) else { return };
        let fds = vec![Rc::clone(&memory.memory), Rc::clone(&ledger.fd)];
        memory.ledgers.insert(index, ledger);
        // Where a search ends with a block in use, all members get its extents again.
        let there = |extent: &&Extent| !memory.is_announced_gone(extent.allocator);
        let extents: Vec<Extent> = entry.extents.iter().filter(there).copied().collect();
        let info = area_info(&entry);
        self.reply(token, Reply::Area(AreaReply::Joined { info, index }), fds);
        for extent in &extents {
            self.send_area_event(token, AreaEvent::Extent { area, extent: *extent }, None);
        }
        for (other, member) in (0..).zip(&entry.members).filter(|(other, _)| *other != index) {
            let address = member.address.0;
            let joined = AreaEvent::Member { area, index: other, address };
            match (member.state, self.areas.ledger_fd(id.vm, area, other)) {
                // Ownership traces still lead through the claims of a dead member.
                (AreaMemberState::In | AreaMemberState::Gone, Some(ledger)) => {
                    self.send_area_event(token, joined, Some(ledger));
                }
                _ => {
                    let expected = AreaEvent::Expected { area, index: other, address };
                    self.send_area_event(token, expected, None);
                }
            }
            if member.state == AreaMemberState::Gone {
                let died = self.node.endpoint(MemberId::new(id.vm, member.address)).is_none();
                self.send_area_event(token, AreaEvent::Left { area, index: other, died }, None);
            }
        }
    }

    /// A ledger that counts against the user of its member.
    fn create_ledger(&mut self, id: MemberId, numbers: u32) -> Result<Ledger, String> {
        let uid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        let ledger_bytes = m3ipc_area::ledger_bytes(numbers) as u64;
        let ledger_memory = m3ipc_sys::whole_pages(ledger_bytes, m3ipc_sys::page_bytes());
        let amounts = [
            (Resource::Descriptors, 1),
            (Resource::Mappings, 1),
            (Resource::Memory, ledger_memory),
        ];
        let charges = self.accounts.charge(uid, &amounts);
        let charges = charges.map_err(|exceeded| exceeded.to_string())?;
        Ledger::create(numbers, charges)
            .map_err(|errno| format!("no memory for a ledger: {errno}; ask for a smaller area"))
    }

    fn area_mapped(&mut self, token: Token, id: MemberId, area: u32) {
        let entry = match self.node.area(id.vm, area) {
            Ok(entry) => entry,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        let index = entry.index_of(id.address);
        let writes_alone = entry.params.owner_writes && entry.owner == id.address;
        let (Some(index), Some(memory)) = (index, self.areas.get(id.vm, area)) else {
            // A predecessor was killed before other members knew of this one: it is no member.
            self.leave_area(id, area);
            let why = "the caller has nothing to map in this area; attach it first";
            return self.refuse(token, Code::Orphaned, why);
        };
        let Some(ledger) = memory.ledgers.get(&index) else { return };
        let mut sealed = m3ipc_sys::seal_against_new_writers(&ledger.fd);
        if writes_alone {
            sealed = sealed.and_then(|()| m3ipc_sys::seal_against_new_writers(&memory.memory));
        }
        let ledger = Rc::clone(&ledger.fd);
        if let Err(errno) = sealed {
            if crate::log::admits(self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid)) {
                tracing::error!(
                    %errno, "an area or a ledger cannot be sealed; its member is cut off"
                );
            }
            return self.close(token);
        }
        if let Err(error) = self.node.set_area_member_state(id, area, AreaMemberState::In) {
            return self.refuse(token, error.code(), error);
        }
        self.record();
        // The other members first: they know a member before it can act.
        let event = AreaEvent::Member { area, index, address: id.address.0 };
        self.send_area_event_to_others(id.vm, area, Some(index), &event, Some(&ledger));
        m3ipc_sys::pause_point("daemon.area_notified");
        self.reply_done(token);
    }

    fn area_index(&mut self, token: Token, id: MemberId, area: u32, address: Address) {
        if self.node.area(id.vm, area).is_ok_and(|entry| entry.index_of(id.address).is_none()) {
            let why = format!("the caller is not a member of area {area}; attach it first");
            return self.refuse(token, Code::Privileges, why);
        }
        let expected = MemberId::new(id.vm, address);
        let known = self.node.area(id.vm, area).ok().and_then(|entry| entry.index_of(address));
        let payer = self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        match self.node.area_index(expected, area, payer) {
            Ok(index) => {
                self.record();
                // A predecessor may have recorded the member without an event.
                if known.is_none() || self.lifecycle.has_taken_over() {
                    let event = AreaEvent::Expected { area, index, address: address.0 };
                    self.send_area_event_to_others(id.vm, area, None, &event, None);
                }
                self.reply_number(token, i32::from(index));
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    fn area_extent(
        &mut self,
        token: Token,
        id: MemberId,
        area: u32,
        (needed, wanted): (u64, u64),
        from_back: bool,
    ) {
        let mut given = self.node.give_extent(id, area, needed, wanted, from_back);
        if given.as_ref().is_err_and(AreaError::lacks_room) {
            self.reclaim_extents(id.vm, area);
            given = self.node.give_extent(id, area, needed, wanted, from_back);
        }
        match given {
            Ok(extent) => {
                self.record();
                let event = AreaEvent::Extent { area, extent };
                self.send_area_event_to_others(id.vm, area, Some(extent.allocator), &event, None);
                self.reply(token, Reply::Area(AreaReply::Extent(extent)), Vec::new());
            }
            Err(error) => {
                // A user at its quota does not trouble others.
                if error.code() == Code::AllocMem {
                    self.ask_for_room(id, area);
                }
                self.refuse(token, error.code(), error);
            }
        }
    }

    /// After a takeover: repeats events that the predecessor may not have sent.
    fn repeat_area_events(&mut self, token: Token, id: MemberId, area: u32) {
        if let Ok(entry) = self.node.area(id.vm, area).cloned() {
            for extent in &entry.extents {
                self.send_area_event(token, AreaEvent::Extent { area, extent: *extent }, None);
            }
            for (index, member) in (0..).zip(&entry.members) {
                if entry.is_gone(index) {
                    let died = self.node.endpoint(MemberId::new(id.vm, member.address)).is_none();
                    self.send_area_event(token, AreaEvent::Left { area, index, died }, None);
                }
            }
            self.reclaim_extents(id.vm, area);
        }
        self.reply_done(token);
    }

    fn send_area_event(&mut self, token: Token, event: AreaEvent, fd: Option<Rc<MemberFd>>) {
        self.send_own_event(token, DaemonEvent::Area(event), fd.into_iter().collect());
    }

    /// Sends an event to the members of an area, except one.
    pub(super) fn send_area_event_to_others(
        &mut self,
        vm: i32,
        area: u32,
        except: Option<u16>,
        event: &AreaEvent,
        fd: Option<&Rc<MemberFd>>,
    ) {
        let Ok(entry) = self.node.area(vm, area) else { return };
        let others = entry.present().filter(|(index, _)| Some(*index) != except);
        let tokens: Vec<Token> = others
            .filter_map(|(_, member)| {
                self.connections.of_endpoint(MemberId::new(vm, member.address))
            })
            .collect();
        for token in tokens {
            let event = DaemonEvent::Area(event.clone());
            self.send_event(token, event, fd.cloned().into_iter().collect());
        }
    }

    fn list_areas(&mut self, token: Token, cred: &Credentials, vm: i32, after: u32) {
        if let Err(error) = self.node.visible_vm(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let further = self.node.areas(vm).filter(|area| area.id > after);
        let list: Vec<AreaInfo> = further.take(FRAME_AREAS).map(area_info).collect();
        let next = list.last().filter(|_| list.len() == FRAME_AREAS).map(|area| area.area);
        self.reply(token, Reply::Area(AreaReply::Areas { list, next }), Vec::new());
    }
}

fn area_info(area: &Area) -> AreaInfo {
    AreaInfo {
        area: area.id,
        base: area.base,
        limit_bytes: area.params.limit_bytes,
        extent_bytes: area.extents.iter().map(|extent| extent.bytes).sum(),
        owner: area.owner.0,
        audience: area.params.audience.clone(),
        owner_writes: area.params.owner_writes,
        huge: area.params.huge,
        closed: area.closed,
        numbers: area.numbers,
        members: area.present().map(|(_, member)| member.address.0).collect(),
    }
}
