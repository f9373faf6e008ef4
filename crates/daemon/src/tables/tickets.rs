//! The tickets of waiting requests, by the event that each one waits for.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::Address;

use super::identity::{Member, MemberId, MemberKind};

/// The number of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub u64);

/// The event that ends a wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The process with this id is bound.
    ProcessBound(i32),
    /// This endpoint is bound.
    Bound(MemberId),
    /// This endpoint ended.
    Unbound(MemberId),
    /// An endpoint of this VM has this name.
    Named(i32, String),
    /// This slot, with generation 0, is at this node.
    Placed(MemberId),
}

impl Event {
    fn vm(&self) -> Option<i32> {
        match self {
            Self::ProcessBound(_) => None,
            Self::Bound(id) | Self::Unbound(id) | Self::Placed(id) => Some(id.vm),
            Self::Named(vm, _) => Some(*vm),
        }
    }
}

/// All open tickets.
#[derive(Clone, Debug, Default)]
pub(super) struct Tickets {
    by_event: BTreeMap<Event, BTreeSet<TicketId>>,
    /// The event of each ticket, so that a cancellation needs no search.
    events: BTreeMap<TicketId, Event>,
}

impl Tickets {
    pub(super) fn register(&mut self, event: Event, ticket: TicketId) {
        self.events.insert(ticket, event.clone());
        self.by_event.entry(event).or_default().insert(ticket);
    }

    /// Removes and returns the tickets that this bind completes.
    pub(super) fn on_bind(
        &mut self,
        id: MemberId,
        member: Member,
        kind: MemberKind,
    ) -> Vec<TicketId> {
        let mut tickets = self.complete(&Event::Bound(id));
        if id.address.generation() != 0 {
            let plain_slot = MemberId::new(id.vm, Address(id.address.slot()));
            tickets.extend(self.complete(&Event::Bound(plain_slot)));
        }
        if kind.is_process() {
            tickets.extend(self.complete(&Event::ProcessBound(member.pid)));
        }
        tickets
    }

    /// No endpoint of this address is bound any more.
    pub(super) fn on_miss(&mut self, id: MemberId) -> Vec<TicketId> {
        self.complete(&Event::Bound(id))
    }

    pub(super) fn on_unbind(&mut self, id: MemberId) -> Vec<TicketId> {
        self.complete(&Event::Unbound(id))
    }

    pub(super) fn on_place(&mut self, slot: MemberId) -> Vec<TicketId> {
        self.complete(&Event::Placed(slot))
    }

    /// The slots for which backups wait.
    pub(super) fn places(&self) -> Vec<MemberId> {
        let placed = |event: &Event| match event {
            Event::Placed(slot) => Some(*slot),
            _ => None,
        };
        self.by_event.keys().filter_map(placed).collect()
    }

    pub(super) fn on_name(&mut self, vm: i32, name: &str) -> Vec<TicketId> {
        self.complete(&Event::Named(vm, name.to_owned()))
    }

    /// Removes and returns the tickets for events that an ending VM rules out. Tickets for the end
    /// of an endpoint stay.
    pub(super) fn end_vm(&mut self, vm: i32) -> Vec<TicketId> {
        let over = |event: &Event| event.vm() == Some(vm) && !matches!(event, Event::Unbound(_));
        let mut tickets = Vec::new();
        self.by_event.retain(|event, waiting| {
            let is_over = over(event);
            if is_over {
                tickets.extend(waiting.iter().copied());
            }
            !is_over
        });
        self.events.retain(|_, event| !over(event));
        tickets
    }

    /// The tickets that wait for an event.
    pub(super) fn of(&self, event: &Event) -> Vec<TicketId> {
        self.by_event.get(event).into_iter().flatten().copied().collect()
    }

    pub(super) fn cancel(&mut self, ticket: TicketId) {
        let Some(event) = self.events.remove(&ticket) else { return };
        if let Some(tickets) = self.by_event.get_mut(&event) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.by_event.remove(&event);
            }
        }
    }

    fn complete(&mut self, event: &Event) -> Vec<TicketId> {
        let tickets = self.by_event.remove(event).unwrap_or_default();
        tickets.into_iter().inspect(|ticket| drop(self.events.remove(ticket))).collect()
    }
}
