//! Bind, attach and unbind: endpoints and their pages.
//!
//! The owner maps its pages first and says so (`Mapped`). The daemon then seals the status page
//! against any other writer. Only then may peers see it. A bind therefore takes effect at `Mapped`,
//! and earlier requests for links wait for it.
//!
//! The owner of a new endpoint does not wait for the seal. It says in its control page that the
//! pages are mapped. The daemon looks there
//!
//! - at the next request of the owner,
//! - at a request of a peer for this endpoint,
//! - and soon after the bind ([`LOOK_NS`]).
//!
//! A look that finds no mapping makes the owner send a notice (`MappedNoReply`).

use crate::quota::{Charge, Exceeded, Resource};
use crate::server::Server;
use crate::state::connection::{Deferred, EndpointPages};
use crate::state::timers::Timer;
use crate::tables::{Credentials, Member, MemberId, MemberKind, TicketId};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_link::{CONTROL_PAGE_BYTES, ControlPageView, READY_BITMAP_BYTES, STATUS_BYTES};
use m3ipc_sys::Errno;
use m3ipc_wire::{BindKind, Reply};
use std::rc::Rc;
use std::sync::Arc;

/// The time that the owner of an endpoint has to map its pages.
const MAPPING_LIMIT_NS: u64 = 5_000_000_000;

/// The time after a bind until the daemon looks for the mapping of its pages, if nobody needs the
/// endpoint sooner. One look is for all binds of that time.
const LOOK_NS: u64 = 10_000_000;

/// The descriptors of an endpoint in the daemon: status page, ready bitmap, pidfd.
const DESCRIPTORS_OF_ENDPOINT: u64 = 3;
/// The mappings of a control page in the daemon: its own, and the one of its end mark.
const MAPPINGS_OF_ENDPOINT: u64 = 2;
/// What an endpoint has memory for, in bytes: each in pages of its own.
const PARTS_OF_ENDPOINT: [usize; 3] = [CONTROL_PAGE_BYTES, STATUS_BYTES, READY_BITMAP_BYTES];

/// The memory of an endpoint in bytes, on a system with pages of this size.
fn bytes_of_endpoint(page_bytes: u64) -> u64 {
    PARTS_OF_ENDPOINT.map(|bytes| m3ipc_sys::whole_pages(bytes as u64, page_bytes)).iter().sum()
}

/// The connection is closed.
struct Closed;

/// New pages of an endpoint.
fn create_pages(is_return: bool, charges: Vec<Charge>) -> Result<EndpointPages, Errno> {
    let control_page = m3ipc_sys::create_memory("m3-control", CONTROL_PAGE_BYTES as u64)?;
    let status_page = m3ipc_sys::create_sealable_memory("m3-status", STATUS_BYTES as u64)?;
    let ready_bitmap = m3ipc_sys::create_memory("m3-ready", READY_BITMAP_BYTES as u64)?;
    let pages = EndpointPages {
        control_page: Arc::new(ControlPageView::map(&control_page)?),
        status_page: Rc::new(status_page.into()),
        ready_bitmap: Rc::new(ready_bitmap.into()),
        is_return,
        sealed: false,
        tickets: Vec::new(),
        unmarked: Some(Rc::new(control_page.into())),
        end_mark: None,
        _charges: charges,
    };
    Ok(pages)
}

impl Server {
    pub(super) fn bind(
        &mut self,
        token: Token,
        cred: &Credentials,
        (vm, asked): (i32, Option<i32>),
        kind: BindKind,
        nonce: u64,
    ) {
        let is_anchor = kind == BindKind::Anchor;
        let slot = asked.filter(|_| !is_anchor);
        let Some(connection) = self.connections.get(token) else { return };
        if connection.id.is_some() {
            let why = "this connection has an endpoint already; use another connection";
            return self.refuse(token, Code::SlotUsed, why);
        }
        let (kind, tid) = match kind {
            BindKind::Process | BindKind::Anchor => (MemberKind::Process, None),
            BindKind::Additional => (MemberKind::Additional, None),
            BindKind::Thread(tid) if is_thread_of(cred.pid, tid) => (MemberKind::Thread, Some(tid)),
            BindKind::Thread(tid) => {
                let why = format!("{tid} is not a thread of process {}", cred.pid);
                return self.refuse(token, Code::BadProc, why);
            }
        };
        let member = Member { pid: cred.pid, tid, started: connection.started };
        let watched = m3ipc_sys::peer_pidfd(&connection.socket)
            .and_then(|fd| self.watch_process(cred.pid, fd));
        if let Err(errno) = watched {
            let why = format!("the process cannot be watched: {errno}; free descriptors");
            return self.refuse(token, Code::NoMem, why);
        }
        if let Some(id) = self.bound_by_predecessor(token, (vm, slot), kind, nonce) {
            return self.give_pages(token, id, Vec::new(), false);
        }
        let bound = match slot {
            Some(slot) => self.node.bind(vm, slot, member, cred, kind, Some(nonce)),
            None if is_anchor => self.node.bind_last(vm, asked, member, cred, Some(nonce)),
            None => self.node.bind_free(vm, member, cred, kind, Some(nonce)),
        };
        match bound {
            Ok(bound) => {
                let id = MemberId::new(vm, bound.address);
                self.record();
                m3ipc_sys::pause_point("daemon.bind_recorded");
                if let Some(Err(errno)) = tid.map(|tid| self.watch_thread(cred.pid, tid)) {
                    self.unbind_endpoint(id);
                    self.renew_waits(&bound.tickets);
                    let why = format!("the thread cannot be watched: {errno}; free descriptors");
                    return self.refuse(token, Code::NoMem, why);
                }
                self.give_pages(token, id, bound.tickets, false);
            }
            Err(error) => {
                // Repeated refusals must not cost descriptors.
                self.unwatch_unneeded(cred.pid);
                self.refuse(token, error.code(), error);
            }
        }
    }

    /// The endpoint that a predecessor bound for this request without answering it. Another
    /// endpoint of the process without a connection has another nonce: its owner will return.
    fn bound_by_predecessor(
        &self,
        token: Token,
        (vm, slot): (i32, Option<i32>),
        kind: MemberKind,
        nonce: u64,
    ) -> Option<MemberId> {
        if !self.lifecycle.has_taken_over() {
            return None;
        }
        let of_request = self.node.endpoints(vm).filter(|endpoint| {
            endpoint.nonce == Some(nonce)
                && endpoint.kind == kind
                && slot.is_none_or(|slot| slot == endpoint.address.slot())
        });
        let mut ids = of_request.map(|endpoint| MemberId::new(vm, endpoint.address));
        ids.find(|id| self.is_own_unattached(token, *id))
    }

    /// Whether an endpoint belongs to the caller's process, and has no connection.
    fn is_own_unattached(&self, token: Token, id: MemberId) -> bool {
        let Some(connection) = self.connections.get(token) else { return false };
        let member = self.node.endpoint(id).map(|endpoint| endpoint.member);
        self.connections.of_endpoint(id).is_none()
            && member.is_some_and(|member| {
                member.pid == connection.cred.pid && member.started == connection.started
            })
    }

    /// Makes the pages of an endpoint, and gives them to its owner.
    pub(super) fn give_pages(
        &mut self,
        token: Token,
        id: MemberId,
        tickets: Vec<TicketId>,
        is_return: bool,
    ) {
        let created = self.charge_pages(id).map_err(|exceeded| exceeded.to_string());
        let created = created.and_then(|charges| {
            create_pages(is_return, charges).map_err(|errno| {
                format!("no memory for an endpoint: {errno}; free memory or descriptors")
            })
        });
        let mut pages = match created {
            Ok(created) => created,
            Err(why) => {
                if !is_return {
                    self.unbind_endpoint(id);
                }
                self.renew_waits(&tickets);
                return self.refuse(token, Code::NoMem, why);
            }
        };
        if !tickets.is_empty() {
            // The owner has no descriptor of the page yet, so the answer is always no.
            let _ = pages.control_page.await_mapped();
        }
        pages.tickets = tickets;
        let own = [&pages.status_page, &pages.ready_bitmap];
        let fds = pages.unmarked.iter().chain(own).map(Rc::clone).collect();
        let spec = self.node.vm(id.vm).map(|vm| (vm.spec().name.clone(), vm.spec().copy_granted));
        let (vm_name, copy_granted) = spec.unwrap_or_default();
        let traps = self.node.get_priv(id).map_or(0, |privileges| privileges.traps);
        self.connections.attach(token, id, pages);
        self.sources.set_timer(MAPPING_LIMIT_NS, Timer::Mapping(token, id));
        if self.connections.add_unsealed(token) {
            self.sources.set_timer(LOOK_NS, Timer::Look);
        }
        let bound = Reply::Bound {
            vm: id.vm,
            vm_name,
            address: id.address.0,
            traps,
            copy_granted,
            max_copy_bytes: self.node.terms().max_copy_bytes,
        };
        self.reply(token, bound, fds);
        if is_return {
            self.ask_again_to_leave(id);
        }
        m3ipc_sys::pause_point("daemon.pages_given");
    }

    /// Gives the control page of an endpoint its end mark. The owner needs it only in a long sleep.
    pub(super) fn add_end_mark(&mut self, token: Token) {
        let connection = self.connections.get_mut(token);
        let pages = connection.and_then(|connection| connection.pages.as_mut());
        if let Some(pages) = pages
            && let Some(control_page) = pages.unmarked.take()
        {
            pages.end_mark = self.end_marks.add(&control_page);
        }
    }

    /// Charges the pages of an endpoint, and the descriptor that watches its process.
    fn charge_pages(&mut self, id: MemberId) -> Result<Vec<Charge>, Exceeded> {
        let uid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid);
        let amounts = [
            (Resource::Descriptors, DESCRIPTORS_OF_ENDPOINT),
            (Resource::Mappings, MAPPINGS_OF_ENDPOINT),
            (Resource::Memory, bytes_of_endpoint(m3ipc_sys::page_bytes())),
        ];
        self.accounts.charge(uid, &amounts)
    }

    /// The owner has mapped its pages: the bind takes effect.
    pub(super) fn mapped(&mut self, token: Token) {
        let Some(id) = self.owner_of_pages(token) else {
            let why = "the caller has no pages to map; bind it first";
            return self.refuse(token, Code::NotBind, why);
        };
        let Ok(is_first) = self.seal_pages(token) else { return };
        // Ahead of the reply: the member then has all of them before its next receive looks.
        self.send_pending_notifications(id);
        self.reply_done(token);
        self.begin_contacts(token, id, is_first);
    }

    /// The same for an owner that does not wait.
    pub(super) fn mapped_no_reply(&mut self, token: Token) {
        let Some(id) = self.owner_of_pages(token) else { return };
        let Ok(is_first) = self.seal_pages(token) else { return };
        self.send_pending_notifications(id);
        self.record();
        self.begin_contacts(token, id, is_first);
    }

    /// Seals the pages of an endpoint whose owner has mapped them, if that is new. If the owner has
    /// not, it sends a notice when it has.
    pub(crate) fn look_for_mapping(&mut self, token: Token) {
        if let Some(id) = self.seal_if_mapped(token) {
            self.begin_contacts(token, id, true);
        }
    }

    /// The same without the end: the caller begins the contacts of the endpoint that this returns.
    pub(super) fn seal_if_mapped(&mut self, token: Token) -> Option<MemberId> {
        let connection = self.connections.get(token)?;
        let (id, pages) = (connection.id?, connection.pages.as_ref()?);
        if pages.sealed || !pages.control_page.await_mapped() {
            return None;
        }
        self.seal_pages(token).ok()?;
        self.send_pending_notifications(id);
        self.record();
        Some(id)
    }

    /// Looks for the mapping of all pages that were given since the last look, and gives them their
    /// end marks.
    pub(crate) fn look_for_mappings(&mut self) {
        for token in self.connections.take_unsealed() {
            self.look_for_mapping(token);
            self.add_end_mark(token);
        }
    }

    /// The same for one endpoint, for a request about it.
    pub(super) fn look_for_mapping_of(&mut self, id: MemberId) {
        if let Some(token) = self.connections.of_endpoint(id) {
            self.look_for_mapping(token);
        }
    }

    /// The endpoint of a connection, if the daemon has given its pages.
    fn owner_of_pages(&self, token: Token) -> Option<MemberId> {
        let connection = self.connections.get(token)?;
        connection.id.filter(|_| connection.pages.is_some())
    }

    /// Seals the status page, and completes the waits for the endpoint. Returns whether the page
    /// was not sealed before; an error means that the connection is closed.
    fn seal_pages(&mut self, token: Token) -> Result<bool, Closed> {
        let connection = self.connections.get_mut(token).ok_or(Closed)?;
        let (Some(id), Some(pages)) = (connection.id, connection.pages.as_mut()) else {
            return Err(Closed);
        };
        let is_first = !pages.sealed;
        if is_first {
            if let Err(errno) = m3ipc_sys::seal_against_new_writers(&pages.status_page) {
                if crate::log::admits(connection.cred.uid) {
                    tracing::error!(
                        %errno, "a status page cannot be sealed; its connection is closed"
                    );
                }
                self.close(token);
                return Err(Closed);
            }
            pages.sealed = true;
            m3ipc_sys::pause_point("daemon.sealed");
        }
        let tickets = std::mem::take(&mut pages.tickets);
        if is_first {
            // Ahead of the owner's request: a proxy knows the endpoint before its names and links.
            self.tell_proxy_bound(id);
        }
        self.complete_tickets(&tickets, id.address.0);
        Ok(is_first)
    }

    /// Watches a new endpoint, and answers those that wait for it. This comes after the reply: it
    /// wakes the watcher thread. A death before it is found by pidfd.
    pub(super) fn begin_contacts(&mut self, token: Token, id: MemberId, is_first: bool) {
        if is_first {
            self.watch_lock_of(token, id);
            self.trace_new_member(id);
        }
        for waiting in self.connections.deferred_until(Deferred::Contact(id)) {
            self.contact(waiting, id.address);
        }
    }

    fn watch_lock_of(&mut self, token: Token, id: MemberId) {
        if let (Some(endpoint), Some(pages)) =
            (self.node.endpoint(id), self.connections.pages_of(id))
        {
            let Member { pid, tid, .. } = endpoint.member;
            self.deaths.watch_lock(token, (pid, tid), &pages.control_page);
        }
    }

    pub(super) fn claim(&mut self, token: Token, cred: &Credentials) {
        match self.node.endpoint_of_process(cred.pid) {
            Some(id) => self.attach(token, cred, id, None),
            None => {
                let why = "no process has bound the caller; wait for the bind, or bind it here";
                self.refuse(token, Code::NotBind, why);
            }
        }
    }

    /// Gives new pages to the living owner of an endpoint without a connection.
    pub(super) fn attach(
        &mut self,
        token: Token,
        cred: &Credentials,
        id: MemberId,
        tid: Option<i32>,
    ) {
        let Some(connection) = self.connections.get(token) else { return };
        // Process id and start time identify the process: no other process can take its endpoint.
        let own = Member { pid: cred.pid, tid, started: connection.started };
        if self.node.endpoint(id).is_none_or(|endpoint| endpoint.member != own) {
            let why = "this endpoint does not belong to the caller, or it ended; bind again";
            return self.refuse(token, Code::NotBind, why);
        }
        if connection.id.is_some() || self.connections.of_endpoint(id).is_some() {
            let why = "this endpoint is attached already; use its connection";
            return self.refuse(token, Code::SlotUsed, why);
        }
        self.give_pages(token, id, Vec::new(), true);
    }

    pub(super) fn unbind(&mut self, token: Token, cred: &Credentials, id: MemberId) {
        // An owner that has not heard of the end yet does not mean the next life of the slot.
        let connection = self.connections.get(token);
        if connection.is_some_and(|it| it.id.is_none() && it.former == Some(id)) {
            return self.refuse(token, Code::NotBind, "this endpoint has ended already");
        }
        if let Err(error) = self.node.may_unbind(id, cred) {
            return self.refuse(token, error.code(), error);
        }
        if self.endpoint_of(token) == Some(id) || self.is_own_unattached(token, id) {
            self.unbind_endpoint(id);
            return self.reply_done(token);
        }
        // An administrator may take a stand-in of this node away: it comes back. To anybody else
        // that would look like the end of the endpoint.
        let is_administrator = || self.endpoint_of(token).is_none() && cred.may_end();
        if self.node.is_stand_in(id) && !is_administrator() {
            let node = self.node.node_of(id.vm, id.address).unwrap_or("another node").to_owned();
            let why = format!("endpoint {} is on the node {node}; unbind it there", id.address);
            return self.refuse(token, Code::RmtProc, why);
        }
        self.defer(token, Deferred::Unbind(id));
        self.ask_to_leave(id);
    }

    /// The endpoint of this connection left after a request to do so.
    pub(super) fn left(&mut self, token: Token) {
        if let Some(id) = self.endpoint_of(token) {
            self.unbind_endpoint(id);
        }
    }
}

fn is_thread_of(pid: i32, tid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_an_endpoint_counts_in_whole_pages() {
        assert_eq!([4096, 16384].map(bytes_of_endpoint), [3 * 4096, 3 * 16384]);
    }
}
