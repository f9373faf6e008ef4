//! Waits for events of the tables, names, and look-ups of processes.

use crate::quota::Resource;
use crate::server::Server;
use crate::tables::{
    Credentials, Member, MemberId, MemberKind, NameError, TicketId, Wait, WaitError,
};
use crate::token::Token;
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{AwaitedEvent, BackedSlot, Reply};

/// The number of tickets that one connection may have open.
const TICKETS_MAX: usize = 1024;

impl Server {
    pub(super) fn wait_for(&mut self, token: Token, cred: &Credentials, event: &AwaitedEvent) {
        let Some(connection) = self.connections.get(token) else { return };
        if connection.tickets.len() >= TICKETS_MAX {
            let why = format!(
                "this connection has {TICKETS_MAX} open waits, its quota; end one of them first"
            );
            return self.refuse(token, Code::NoMem, why);
        }
        let member = Member { pid: cred.pid, tid: None, started: connection.started };
        let charges = match self.accounts.charge(cred.uid, &[(Resource::Tickets, 1)]) {
            Ok(charges) => charges,
            Err(exceeded) => return self.refuse(token, Code::NoMem, exceeded),
        };
        let ticket = TicketId(self.sources.new_number());
        let own = self.endpoint_of(token);
        // The daemon watches an endpoint as soon as it has mapped its pages. The look may end the
        // endpoint, so it comes before the ticket.
        if let (AwaitedEvent::Unbind(address), Some(own)) = (event, own) {
            self.look_for_mapping_of(MemberId::new(own.vm, Address(*address)));
        }
        let Some(mut wait) = self.register_wait(own, (member, cred), event, ticket) else {
            self.require_endpoint(token);
            return;
        };
        if let (Ok(Wait::Already(address)), Some(own)) = (&wait, own) {
            let id = MemberId::new(own.vm, *address);
            self.look_for_mapping_of(id);
            if self.node.endpoint(id).is_none() {
                // The look has ended it: the wait is for a later one, if there can be one.
                let Some(again) = self.register_wait(Some(own), (member, cred), event, ticket)
                else {
                    return;
                };
                wait = again;
            }
        }
        match wait {
            Ok(Wait::Already(address)) if self.is_usable(own, event, address) => {
                self.reply_number(token, address.0);
            }
            Ok(wait) => {
                // The endpoint is bound, but its pages are not mapped: the ticket waits for them.
                if let (Wait::Already(address), Some(own)) = (wait, own) {
                    let id = MemberId::new(own.vm, address);
                    self.connections.await_pages(id, ticket, TICKETS_MAX);
                }
                self.connections.add_ticket(token, (ticket, event.clone()), charges);
                self.reply(token, Reply::Wait(ticket.0), Vec::new());
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Waits for an endpoint that has ended, perhaps before its bind took effect, go on or end with
    /// the code that a new request would get.
    pub(crate) fn renew_waits(&mut self, tickets: &[TicketId]) {
        for ticket in tickets {
            let Some(event) = self.connections.awaited(*ticket).cloned() else { continue };
            let owner = self.connections.owner_of(*ticket);
            let Some(waiter) = owner.and_then(|owner| self.connections.get(owner)) else {
                continue;
            };
            let (own, cred) = (waiter.id, waiter.cred.clone());
            let member = Member { pid: cred.pid, tid: None, started: waiter.started };
            let number = match self.register_wait(own, (member, &cred), &event, *ticket) {
                Some(Ok(Wait::Registered)) => continue,
                Some(Ok(Wait::Already(address))) if self.is_usable(own, &event, address) => {
                    address.0
                }
                Some(Ok(Wait::Already(address))) => {
                    if let Some(own) = own {
                        let id = MemberId::new(own.vm, address);
                        self.connections.await_pages(id, *ticket, TICKETS_MAX);
                    }
                    continue;
                }
                Some(Err(error)) => error.code().number(),
                // The waiter has no endpoint any more.
                None => Code::Endpoint.number(),
            };
            self.complete_tickets(&[*ticket], number);
        }
    }

    /// Registers a ticket; `None` if the event needs an endpoint and the caller has none.
    fn register_wait(
        &mut self,
        own: Option<MemberId>,
        (member, cred): (Member, &Credentials),
        event: &AwaitedEvent,
        ticket: TicketId,
    ) -> Option<Result<Wait, WaitError>> {
        Some(match event {
            AwaitedEvent::OwnBind => Ok(self.node.wait_bind(cred.pid, ticket)),
            AwaitedEvent::Bind(address) => {
                let id = MemberId::new(own?.vm, Address(*address));
                self.node.wait_bind_ep(Some(own?.address), id, ticket)
            }
            AwaitedEvent::Unbind(address) => {
                let id = MemberId::new(own?.vm, Address(*address));
                self.node.wait_unbind(Some(own?.address), id, ticket)
            }
            AwaitedEvent::Name(name) => self.node.wait_name(own?.vm, name, ticket),
            AwaitedEvent::Place { slot: BackedSlot { vm, slot }, is_additional } => {
                let has_proxy = self.nodes.proxy.is_some();
                let kind = match is_additional {
                    true => MemberKind::Additional,
                    false => MemberKind::Process,
                };
                self.node.wait_place((*vm, *slot), (member, cred, kind), has_proxy, ticket)
            }
        })
    }

    /// Whether peers can already contact the endpoint of a completed wait.
    fn is_usable(&self, own: Option<MemberId>, event: &AwaitedEvent, address: Address) -> bool {
        match (own, event) {
            (Some(own), AwaitedEvent::Bind(_) | AwaitedEvent::Name(_)) => {
                let pages = self.connections.pages_of(MemberId::new(own.vm, address));
                pages.is_none_or(|pages| pages.sealed)
            }
            _ => true,
        }
    }

    pub(super) fn cancel_ticket(&mut self, token: Token, ticket: TicketId) {
        if self.connections.owner_of(ticket) == Some(token) {
            self.connections.remove_ticket(ticket);
            self.node.cancel_wait(ticket);
        }
        self.reply(token, Reply::Done, Vec::new());
    }

    pub(super) fn name_reserve(
        &mut self,
        token: Token,
        cred: &Credentials,
        name: &str,
        key: Option<u64>,
    ) {
        let Some(id) = self.require_endpoint(token) else { return };
        match self.node.name_reserve(id, name, key, cred) {
            Ok(()) => {
                self.record();
                self.reply_done(token);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn name_attach(&mut self, token: Token, name: &str, key: Option<u64>) {
        let Some(id) = self.require_endpoint(token) else { return };
        match self.node.name_attach(id, name, key) {
            Ok(tickets) => {
                self.record();
                self.complete_tickets(&tickets, id.address.0);
                self.tell_proxy_named(id, name);
                self.reply_done(token);
            }
            // The predecessor may have died between the record and the answer.
            Err(NameError::Taken { holder, .. })
                if holder == id.address && self.lifecycle.has_taken_over() =>
            {
                self.reply_done(token);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn name_locate(&mut self, token: Token, name: &str) {
        let Some(id) = self.require_endpoint(token) else { return };
        match self.node.name_locate(id.vm, name) {
            Ok(address) => self.reply_number(token, address.0),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// `getep`: the endpoint of a process or thread in the caller's VM.
    pub(super) fn get_endpoint(&mut self, token: Token, cred: &Credentials, pid: i32) {
        let pid = if pid == 0 { cred.pid } else { pid };
        let vm = self.endpoint_of(token).map(|own| own.vm);
        let process = m3ipc_sys::process_of_thread(pid);
        let id = self.node.endpoint_of_process(pid).or_else(|| {
            let process = process.as_ref().ok()?;
            self.node.endpoint_of_thread(*process, pid)
        });
        if let (None, Err(errno)) = (id, process) {
            return self.refuse_process(token, pid, errno);
        }
        match id {
            // The caller does not see endpoints of other VMs.
            Some(id) if pid == cred.pid || vm == Some(id.vm) => {
                self.reply_number(token, id.address.0);
            }
            _ => {
                let why = format!("process {pid} is not bound in this VM; bind it first");
                self.refuse(token, Code::NotBind, why);
            }
        }
    }
}
