//! Binding and unbinding: who gets which endpoint, and the memory that goes with it.
//!
//! The owner maps its pages first and says so; then the status page is sealed
//! against any other writer; only then may anybody see it. So a bind counts
//! from `Mapped` on, and whoever wants a link before that waits.

use crate::connection::{Deferred, Pages};
use crate::server::{Alarm, HELLO_LIMIT_NS, Server};
use m3ipc_abi::{Address, Code};
use m3ipc_link::{CONTROL_PAGE_BYTES, ControlPageView, READY_BITMAP_BYTES, STATUS_BYTES};
use m3ipc_model::tables::{Credentials, Member, MemberId, MemberKind};
use m3ipc_sys::Errno;
use m3ipc_wire::{BindKind, Reply};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

fn make_pages() -> Result<(Pages, Rc<OwnedFd>), Errno> {
    let desk = m3ipc_sys::create_memory("m3-desk", CONTROL_PAGE_BYTES as u64)?;
    let status = m3ipc_sys::create_memory("m3-status", STATUS_BYTES as u64)?;
    let hints = m3ipc_sys::create_memory("m3-hints", READY_BITMAP_BYTES as u64)?;
    let view = Arc::new(ControlPageView::map(&desk)?);
    let (status, hints) = (Rc::new(status), Rc::new(hints));
    let pages =
        Pages { desk: view, status, hints, is_return: false, sealed: false, told: Vec::new() };
    Ok((pages, Rc::new(desk)))
}

impl Server {
    pub(super) fn bind(
        &mut self,
        token: u64,
        cred: &Credentials,
        vm: i32,
        slot: Option<i32>,
        kind: BindKind,
    ) {
        let Some(connection) = self.connections.get(&token) else { return };
        if connection.place.is_some() {
            return self.refuse(token, Code::SlotUsed, "this connection has an endpoint already");
        }
        let (kind, tid) = match kind {
            BindKind::Process => (MemberKind::Process, None),
            BindKind::Thread(tid) if is_thread_of(cred.pid, tid) => (MemberKind::Thread, Some(tid)),
            BindKind::Thread(tid) => {
                let why = format!("{tid} is no thread of process {}", cred.pid);
                return self.refuse(token, Code::BadProc, why);
            }
        };
        let member = Member { pid: cred.pid, tid, token: connection.started };
        let watched = m3ipc_sys::peer_pidfd(&connection.socket)
            .and_then(|fd| self.watch_process(cred.pid, fd));
        if let Err(errno) = watched {
            return self.refuse(
                token,
                Code::NoMem,
                format_args!("the process cannot be watched: {errno}"),
            );
        }
        if let Some(place) = self.bound_before(token, vm, slot, tid) {
            return self.give_pages(token, place, Vec::new(), false);
        }
        let bound = match slot {
            Some(slot) => self.node.bind(vm, slot, member, cred, kind),
            None => self.node.bind_free(vm, member, cred, kind),
        };
        match bound {
            Ok(bound) => {
                self.record();
                m3ipc_sys::pause_point("daemon.bind_recorded");
                if let Some(Err(errno)) = tid.map(|tid| self.watch_thread(cred.pid, tid)) {
                    self.force_unbind(MemberId::new(vm, bound.address));
                    return self.refuse(
                        token,
                        Code::NoMem,
                        format_args!("the thread cannot be watched: {errno}"),
                    );
                }
                self.give_pages(token, MemberId::new(vm, bound.address), bound.told, false);
            }
            Err(error) => {
                // Watched for nothing: whoever is refused again and again must not cost a descriptor.
                self.forget_process(cred.pid);
                self.refuse(token, error.code(), error);
            }
        }
    }

    /// The endpoint that a predecessor gave to this very process or thread and
    /// did not live to tell of: its binder asks again.
    fn bound_before(
        &self,
        token: u64,
        vm: i32,
        slot: Option<i32>,
        tid: Option<i32>,
    ) -> Option<MemberId> {
        let pid = self.connections.get(&token)?.cred.pid;
        let place = match tid {
            Some(tid) => self.node.place_of_thread(pid, tid),
            None => self.node.place_of(pid),
        }?;
        let asked = place.vm == vm && slot.is_none_or(|slot| slot == place.address.slot());
        (asked && self.takeovers > 0 && self.is_unattached_of(token, place)).then_some(place)
    }

    /// Whether this endpoint is of the caller's process, and no connection is for it.
    fn is_unattached_of(&self, token: u64, place: MemberId) -> bool {
        let Some(connection) = self.connections.get(&token) else { return false };
        !self.present.contains_key(&place)
            && self.node.endpoint(place).is_some_and(|endpoint| {
                endpoint.member.pid == connection.cred.pid
                    && endpoint.member.token == connection.started
            })
    }

    /// Makes the pages of an endpoint and gives them to its owner.
    fn give_pages(&mut self, token: u64, place: MemberId, told: Vec<u64>, is_return: bool) {
        let (mut pages, desk) = match make_pages() {
            Ok(made) => made,
            Err(errno) => {
                if !is_return && let Ok(deaths) = self.node.unbind(place) {
                    self.bury(&deaths);
                }
                return self.refuse(
                    token,
                    Code::NoMem,
                    format_args!("no memory for an endpoint: {errno}"),
                );
            }
        };
        (pages.told, pages.is_return) = (told, is_return);
        let fds = vec![desk, Rc::clone(&pages.status), Rc::clone(&pages.hints)];
        let (vm_name, copy_granted) = self
            .node
            .vm_info(place.vm, &Credentials::new(0, 0, 0))
            .map(|info| (info.spec.name, info.spec.copy_granted))
            .unwrap_or_default();
        let traps = self.node.get_priv(place).map_or(0, |privileges| privileges.traps.0);
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.place = Some(place);
            connection.pages = Some(pages);
            self.present.insert(place, token);
        }
        self.set_alarm(HELLO_LIMIT_NS, Alarm::Mapped(token, place));
        let address = place.address.0;
        self.reply(
            token,
            Reply::Bound { vm: place.vm, vm_name, address, traps, copy_granted },
            fds,
        );
        m3ipc_sys::pause_point("daemon.pages_given");
    }

    pub(super) fn mapped(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let (Some(place), Some(pages)) = (connection.place, connection.pages.as_mut()) else {
            return self.refuse(token, Code::NotBind, "there is nothing to map");
        };
        let newly = !pages.sealed;
        if newly {
            if let Err(errno) = m3ipc_sys::seal_against_new_writers(&pages.status) {
                tracing::error!(%errno, "a status page cannot be sealed");
                return self.close(token);
            }
            pages.sealed = true;
            m3ipc_sys::pause_point("daemon.sealed");
        }
        let told = std::mem::take(&mut pages.told);
        if newly && let Some(member) = self.node.endpoint(place).map(|endpoint| endpoint.member) {
            self.ward.watch(token, member.pid, member.tid, &pages.desk);
        }
        self.tell_tickets(&told, place.address.0);
        self.done(token);
        self.tell_notes(place);
        if newly {
            self.trace_newcomer(place);
        }
        for waiting in self.waiting_for(Deferred::Contact(place)) {
            self.contact(waiting, place.address);
        }
    }

    pub(super) fn bind_other(
        &mut self,
        token: u64,
        cred: &Credentials,
        vm: i32,
        pid: i32,
        slot: i32,
    ) {
        let Ok(fd) = m3ipc_sys::open_process(pid) else {
            return self.refuse(token, Code::BadProc, format_args!("there is no process {pid}"));
        };
        let (Ok(started), Some((uid, gid))) =
            (m3ipc_sys::process_start_ticks(pid), process_owner(pid))
        else {
            return self.refuse(token, Code::BadProc, format_args!("there is no process {pid}"));
        };
        let member = Member { pid, tid: None, token: started };
        match self.node.bind(vm, slot, member, cred, MemberKind::Foreign { uid, gid }) {
            Ok(bound) => {
                self.record();
                if self.watch_process(pid, fd).is_err() {
                    self.process_died(pid);
                    return self.refuse(token, Code::NoMem, "the process cannot be watched");
                }
                self.tell_tickets(&bound.told, bound.address.0);
                self.reply_number(token, bound.address.0);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn claim(&mut self, token: u64, cred: &Credentials) {
        let Some(place) = self.node.place_of(cred.pid) else {
            return self.refuse(token, Code::NotBind, "nobody has bound this process");
        };
        self.attach(token, cred, place, None);
    }

    pub(super) fn reattach(
        &mut self,
        token: u64,
        cred: &Credentials,
        vm: i32,
        address: i32,
        tid: Option<i32>,
    ) {
        self.attach(token, cred, MemberId::new(vm, Address(address)), tid);
    }

    /// Gives new pages to the living owner of an endpoint that has none here.
    fn attach(&mut self, token: u64, cred: &Credentials, place: MemberId, tid: Option<i32>) {
        let Some(connection) = self.connections.get(&token) else { return };
        let started = connection.started;
        // The process of the journal is known by number and start: no other can take its place.
        let is_owner = self.node.endpoint(place).is_some_and(|endpoint| {
            endpoint.member.pid == cred.pid
                && endpoint.member.tid == tid
                && endpoint.member.token == started
        });
        if !is_owner {
            return self.refuse(
                token,
                Code::NotBind,
                "this endpoint is not the caller's (any more)",
            );
        }
        if connection.place.is_some() || self.present.contains_key(&place) {
            return self.refuse(token, Code::SlotUsed, "this endpoint is attached already");
        }
        self.give_pages(token, place, Vec::new(), true);
    }

    pub(super) fn unbind(&mut self, token: u64, cred: &Credentials, vm: i32, address: i32) {
        let place = MemberId::new(vm, Address(address));
        let own = self.connections.get(&token).and_then(|connection| connection.place)
            == Some(place)
            || self.is_unattached_of(token, place);
        if let Err(error) = self.node.may_unbind(place, cred) {
            return self.refuse(token, error.code(), error);
        }
        if own {
            if let Ok(deaths) = self.node.unbind(place) {
                self.bury(&deaths);
            }
            return self.done(token);
        }
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.waits_for = Some(Deferred::Unbind(place));
        }
        self.ask_to_leave(place);
    }

    pub(super) fn leave(&mut self, token: u64) {
        if let Some(place) = self.connections.get(&token).and_then(|connection| connection.place)
            && let Ok(deaths) = self.node.unbind(place)
        {
            self.bury(&deaths);
        }
    }
}

fn is_thread_of(pid: i32, tid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

/// The effective user and group of a process. Not the owner of its files in
/// /proc: that is root for a process that cannot be dumped.
fn process_owner(pid: i32) -> Option<(u32, u32)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let effective = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((effective("Uid:")?, effective("Gid:")?))
}
