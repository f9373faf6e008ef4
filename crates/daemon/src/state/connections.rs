//! All control connections: by token, by endpoint, and with the waits that their members have open.

use super::connection::{Connection, Deferred, EndpointPages};
use crate::quota::Charge;
use crate::tables::{MemberId, TicketId};
use crate::token::Token;
use m3ipc_wire::AwaitedEvent;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The wait of a member for an event.
#[derive(Debug)]
struct OpenTicket {
    owner: Token,
    event: AwaitedEvent,
    _charges: Vec<Charge>,
}

/// All control connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_token: HashMap<Token, Connection>,
    /// The connection of each endpoint that has one.
    attached: BTreeMap<MemberId, Token>,
    tickets: HashMap<TicketId, OpenTicket>,
    /// The connections that took no frame, and are not closed yet.
    broken: BTreeSet<Token>,
    /// The connections that got pages since the last look for their mapping.
    unsealed: Vec<Token>,
}

impl Connections {
    /// Adds a newcomer.
    pub(crate) fn add(&mut self, token: Token, connection: Connection) {
        self.by_token.insert(token, connection);
    }

    /// Removes a connection, and the tickets that it has open.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Connection> {
        let connection = self.by_token.remove(&token)?;
        for ticket in &connection.tickets {
            self.tickets.remove(ticket);
        }
        Some(connection)
    }

    /// Marks a connection whose member is gone. A close sends to other members, so it must not come
    /// from a send: a chain of closes would be as deep as the number of dead members.
    pub(crate) fn mark_broken(&mut self, token: Token) {
        self.broken.insert(token);
    }

    /// Whether a connection is marked.
    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// A marked connection, without its mark.
    pub(crate) fn take_broken(&mut self) -> Option<Token> {
        self.broken.pop_first()
    }

    /// The connection of this token.
    pub(crate) fn get(&self, token: Token) -> Option<&Connection> {
        self.by_token.get(&token)
    }

    /// The connection of this token.
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.by_token.get_mut(&token)
    }

    /// Whether there is no connection.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    /// The connections of a process.
    pub(crate) fn of_process(&self, pid: i32) -> Vec<Token> {
        let of_process = self.by_token.iter().filter(|(_, other)| other.cred.pid == pid);
        of_process.map(|(token, _)| *token).collect()
    }

    /// The connections of a user.
    pub(crate) fn of_user_mut(&mut self, uid: u32) -> impl Iterator<Item = &mut Connection> {
        self.by_token.values_mut().filter(move |other| other.cred.uid == uid)
    }

    /// The connections that wait for the wakeup of an endpoint of another node.
    pub(crate) fn waking(&self) -> Vec<Token> {
        let wakes = |other: &Connection| matches!(other.deferred, Some(Deferred::Wakeup(_)));
        let waiting = self.by_token.iter().filter(|(_, other)| wakes(other));
        waiting.map(|(token, _)| *token).collect()
    }

    /// The connections whose endpoints wait for their move to another node.
    pub(crate) fn moving(&self) -> Vec<Token> {
        let moves = |other: &Connection| matches!(other.deferred, Some(Deferred::Move(_)));
        let waiting = self.by_token.iter().filter(|(_, other)| moves(other));
        waiting.map(|(token, _)| *token).collect()
    }

    /// The connections whose answer waits for this event.
    pub(crate) fn deferred_until(&self, event: Deferred) -> Vec<Token> {
        let waiting = self.by_token.iter().filter(|(_, other)| other.deferred == Some(event));
        waiting.map(|(token, _)| *token).collect()
    }

    /// Gives an endpoint and its pages to a connection, if it is still there.
    pub(crate) fn attach(&mut self, token: Token, id: MemberId, pages: EndpointPages) {
        if let Some(connection) = self.by_token.get_mut(&token) {
            connection.id = Some(id);
            connection.pages = Some(pages);
            self.attached.insert(id, token);
        }
    }

    /// Notes that a connection got pages. `true` if it is the first since the last look.
    pub(crate) fn add_unsealed(&mut self, token: Token) -> bool {
        self.unsealed.push(token);
        self.unsealed.len() == 1
    }

    /// The connections that got pages since the last look.
    pub(crate) fn take_unsealed(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.unsealed)
    }

    /// Takes an endpoint from its connection, whose token it returns.
    pub(crate) fn detach(&mut self, id: MemberId) -> Option<Token> {
        self.attached.remove(&id)
    }

    /// The connection of an endpoint.
    pub(crate) fn of_endpoint(&self, id: MemberId) -> Option<Token> {
        self.attached.get(&id).copied()
    }

    /// The endpoints of a VM that have connections.
    pub(crate) fn attached_in(&self, vm: i32) -> Vec<(MemberId, Token)> {
        let of_vm = self.attached.iter().filter(|(id, _)| id.vm == vm);
        of_vm.map(|(id, member)| (*id, *member)).collect()
    }

    /// The number of endpoints that have connections.
    pub(crate) fn attached_count(&self) -> usize {
        self.attached.len()
    }

    /// The pages of an endpoint.
    pub(crate) fn pages_of(&self, id: MemberId) -> Option<&EndpointPages> {
        self.get(self.of_endpoint(id)?)?.pages.as_ref()
    }

    /// Whether an endpoint has mapped its pages of this daemon.
    pub(crate) fn is_attached(&self, id: MemberId) -> bool {
        let connection = self.of_endpoint(id).and_then(|token| self.get(token));
        connection.is_some_and(Connection::is_attached)
    }

    /// Adds a ticket of a connection.
    pub(crate) fn add_ticket(
        &mut self,
        token: Token,
        (ticket, event): (TicketId, AwaitedEvent),
        charges: Vec<Charge>,
    ) {
        self.tickets.insert(ticket, OpenTicket { owner: token, event, _charges: charges });
        if let Some(connection) = self.by_token.get_mut(&token) {
            connection.tickets.push(ticket);
        }
    }

    /// The connection that has this ticket open.
    pub(crate) fn owner_of(&self, ticket: TicketId) -> Option<Token> {
        self.tickets.get(&ticket).map(|open| open.owner)
    }

    /// The event that a ticket waits for.
    pub(crate) fn awaited(&self, ticket: TicketId) -> Option<&AwaitedEvent> {
        self.tickets.get(&ticket).map(|open| &open.event)
    }

    /// Removes a ticket, and returns the connection that had it open.
    pub(crate) fn remove_ticket(&mut self, ticket: TicketId) -> Option<Token> {
        let OpenTicket { owner, .. } = self.tickets.remove(&ticket)?;
        if let Some(connection) = self.by_token.get_mut(&owner) {
            connection.tickets.retain(|open| *open != ticket);
        }
        Some(owner)
    }

    /// Adds a ticket to the pages of an endpoint, unless they are mapped. It is complete as soon as
    /// they are. At this number of tickets, cancelled ones are removed.
    pub(crate) fn await_pages(&mut self, id: MemberId, ticket: TicketId, many: usize) {
        let connection = self.of_endpoint(id).and_then(|token| self.by_token.get_mut(&token));
        let pages = connection.and_then(|connection| connection.pages.as_mut());
        if let Some(pages) = pages.filter(|pages| !pages.sealed) {
            if pages.tickets.len() >= many {
                pages.tickets.retain(|open| self.tickets.contains_key(open));
            }
            pages.tickets.push(ticket);
        }
    }
}
