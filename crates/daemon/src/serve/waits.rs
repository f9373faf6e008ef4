//! Waiting for what the tables will say, names, and look-ups.

use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_model::tables::{Credentials, MemberId, Wait};
use m3ipc_wire::{AwaitedEvent, Reply};

/// Tickets that one connection may have open.
const TICKETS_MAX: usize = 1024;

impl Server {
    pub(super) fn wait_for(&mut self, token: u64, cred: &Credentials, what: &AwaitedEvent) {
        let Some(connection) = self.connections.get(&token) else { return };
        if connection.tickets.len() >= TICKETS_MAX {
            return self.refuse(token, Code::NoMem, "too many waits are open on this connection");
        }
        let own = connection.place;
        let ticket = self.new_token();
        let wait = match what {
            AwaitedEvent::OwnBind => Ok(self.node.wait_bind(cred.pid, ticket)),
            AwaitedEvent::Bind(address) => match self.own_place(token) {
                Some(place) => self
                    .node
                    .wait_bind_ep(
                        own.map(|own| own.address),
                        MemberId::new(place.vm, Address(*address)),
                        ticket,
                    )
                    .map_err(|error| (error.code(), error.to_string())),
                None => return,
            },
            AwaitedEvent::Unbind(address) => match self.own_place(token) {
                Some(place) => self
                    .node
                    .wait_unbind(
                        own.map(|own| own.address),
                        MemberId::new(place.vm, Address(*address)),
                        ticket,
                    )
                    .map_err(|error| (error.code(), error.to_string())),
                None => return,
            },
            AwaitedEvent::Name(name) => match self.own_place(token) {
                Some(place) => self
                    .node
                    .wait_name(place.vm, name, ticket)
                    .map_err(|error| (error.code(), error.to_string())),
                None => return,
            },
        };
        match wait {
            Ok(Wait::Already(address)) if self.is_visible(own, what, address) => {
                self.reply_number(token, address.0);
            }
            Ok(_) => {
                // Bound, but its pages are not mapped yet: told with the others then.
                if let Ok(Wait::Already(address)) = wait {
                    self.tell_when_mapped(own, address, ticket);
                }
                self.tickets.insert(ticket, token);
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.tickets.push(ticket);
                }
                self.reply(token, Reply::Wait(ticket), Vec::new());
            }
            Err((code, why)) => self.refuse(token, code, why),
        }
    }

    /// Whether an endpoint that somebody waited for can be talked to.
    fn is_visible(&self, own: Option<MemberId>, what: &AwaitedEvent, address: Address) -> bool {
        let (Some(own), AwaitedEvent::Bind(_) | AwaitedEvent::Name(_)) = (own, what) else {
            return true;
        };
        self.pages_to_come(MemberId::new(own.vm, address)).is_none()
    }

    fn pages_to_come(&self, place: MemberId) -> Option<u64> {
        let token = *self.present.get(&place)?;
        let pages = self.connections.get(&token)?.pages.as_ref()?;
        (!pages.sealed).then_some(token)
    }

    fn tell_when_mapped(&mut self, own: Option<MemberId>, address: Address, ticket: u64) {
        let Some(own) = own else { return };
        if let Some(other) = self.pages_to_come(MemberId::new(own.vm, address))
            && let Some(pages) =
                self.connections.get_mut(&other).and_then(|connection| connection.pages.as_mut())
        {
            // Of waits that were given up nothing stays.
            if pages.told.len() >= TICKETS_MAX {
                pages.told.retain(|open| self.tickets.contains_key(open));
            }
            pages.told.push(ticket);
        }
    }

    pub(super) fn forget(&mut self, token: u64, ticket: u64) {
        if self.tickets.get(&ticket) == Some(&token) {
            self.tickets.remove(&ticket);
            self.node.cancel_wait(ticket);
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.tickets.retain(|open| *open != ticket);
            }
        }
        self.reply(token, Reply::Done, Vec::new());
    }

    pub(super) fn name_attach(&mut self, token: u64, name: &str) {
        let Some(place) = self.own_place(token) else { return };
        match self.node.name_attach(place, name) {
            Ok(told) => {
                self.record();
                self.tell_tickets(&told, place.address.0);
                self.done(token);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn name_locate(&mut self, token: u64, name: &str) {
        let Some(place) = self.own_place(token) else { return };
        match self.node.name_locate(place.vm, name) {
            Ok(address) => self.reply_number(token, address.0),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn get_endpoint(&mut self, token: u64, cred: &Credentials, pid: i32) {
        let pid = if pid == 0 { cred.pid } else { pid };
        let vm = self
            .connections
            .get(&token)
            .and_then(|connection| connection.place)
            .map(|place| place.vm);
        let place = self.node.place_of(pid).or_else(|| {
            let process = m3ipc_sys::process_of_thread(pid).ok()?;
            self.node.place_of_thread(process, pid)
        });
        if place.is_none() && m3ipc_sys::process_of_thread(pid).is_err() {
            return self.refuse(token, Code::BadProc, format_args!("there is no process {pid}"));
        }
        match place {
            // An endpoint of another VM is simply not there.
            Some(place) if pid == cred.pid || vm == Some(place.vm) => {
                self.reply_number(token, place.address.0);
            }
            _ => self.refuse(
                token,
                Code::NotBind,
                format_args!("process {pid} is not bound in this VM"),
            ),
        }
    }
}
