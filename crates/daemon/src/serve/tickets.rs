//! Waits for events of the tables, names, and look-ups of processes.

use crate::quota::Resource;
use crate::server::Server;
use crate::tables::{Credentials, MemberId, Wait, WaitError};
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{AwaitedEvent, Reply};

/// The number of tickets that one connection may have open.
const TICKETS_MAX: usize = 1024;

impl Server {
    pub(super) fn wait_for(&mut self, token: u64, cred: &Credentials, event: &AwaitedEvent) {
        let Some(connection) = self.connections.get(&token) else { return };
        if connection.tickets.len() >= TICKETS_MAX {
            let why = format!(
                "this connection has {TICKETS_MAX} open waits, its quota; end one of them first"
            );
            return self.refuse(token, Code::NoMem, why);
        }
        let charges = match self.accounts.charge(cred.uid, &[(Resource::Tickets, 1)]) {
            Ok(charges) => charges,
            Err(exceeded) => return self.refuse(token, Code::NoMem, exceeded),
        };
        let ticket = self.new_token();
        let own = self.endpoint_of(token);
        let Some(wait) = self.register_wait(own, cred.pid, event, ticket) else {
            self.require_endpoint(token);
            return;
        };
        match wait {
            Ok(Wait::Already(address)) if self.is_usable(own, event, address) => {
                self.reply_number(token, address.0);
            }
            Ok(wait) => {
                // The endpoint is bound, but its pages are not mapped: the ticket waits for them.
                if let (Wait::Already(address), Some(own)) = (wait, own) {
                    self.complete_when_mapped(MemberId::new(own.vm, address), ticket);
                }
                self.tickets.insert(ticket, (token, charges));
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.tickets.push(ticket);
                }
                self.reply(token, Reply::Wait(ticket), Vec::new());
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Registers a ticket; `None` if the event needs an endpoint and the caller has none.
    fn register_wait(
        &mut self,
        own: Option<MemberId>,
        pid: i32,
        event: &AwaitedEvent,
        ticket: u64,
    ) -> Option<Result<Wait, WaitError>> {
        Some(match event {
            AwaitedEvent::OwnBind => Ok(self.node.wait_bind(pid, ticket)),
            AwaitedEvent::Bind(address) => {
                let id = MemberId::new(own?.vm, Address(*address));
                self.node.wait_bind_ep(Some(own?.address), id, ticket)
            }
            AwaitedEvent::Unbind(address) => {
                let id = MemberId::new(own?.vm, Address(*address));
                self.node.wait_unbind(Some(own?.address), id, ticket)
            }
            AwaitedEvent::Name(name) => self.node.wait_name(own?.vm, name, ticket),
        })
    }

    /// Whether peers can already contact the endpoint of a completed wait.
    fn is_usable(&self, own: Option<MemberId>, event: &AwaitedEvent, address: Address) -> bool {
        match (own, event) {
            (Some(own), AwaitedEvent::Bind(_) | AwaitedEvent::Name(_)) => {
                let pages = self.pages_of(MemberId::new(own.vm, address));
                pages.is_none_or(|pages| pages.sealed)
            }
            _ => true,
        }
    }

    fn complete_when_mapped(&mut self, id: MemberId, ticket: u64) {
        let connection = self.connection_of(id).and_then(|token| self.connections.get_mut(&token));
        let pages = connection.and_then(|connection| connection.pages.as_mut());
        if let Some(pages) = pages.filter(|pages| !pages.sealed) {
            // Cancelled tickets must not accumulate.
            if pages.tickets.len() >= TICKETS_MAX {
                pages.tickets.retain(|open| self.tickets.contains_key(open));
            }
            pages.tickets.push(ticket);
        }
    }

    pub(super) fn cancel_ticket(&mut self, token: u64, ticket: u64) {
        if self.tickets.get(&ticket).is_some_and(|(owner, _)| *owner == token) {
            self.tickets.remove(&ticket);
            self.node.cancel_wait(ticket);
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.tickets.retain(|open| *open != ticket);
            }
        }
        self.reply(token, Reply::Done, Vec::new());
    }

    pub(super) fn name_attach(&mut self, token: u64, name: &str) {
        let Some(id) = self.require_endpoint(token) else { return };
        match self.node.name_attach(id, name) {
            Ok(tickets) => {
                self.record();
                self.complete_tickets(&tickets, id.address.0);
                self.reply_done(token);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn name_locate(&mut self, token: u64, name: &str) {
        let Some(id) = self.require_endpoint(token) else { return };
        match self.node.name_locate(id.vm, name) {
            Ok(address) => self.reply_number(token, address.0),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// `getep`: the endpoint of a process or thread in the caller's VM.
    pub(super) fn get_endpoint(&mut self, token: u64, cred: &Credentials, pid: i32) {
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
