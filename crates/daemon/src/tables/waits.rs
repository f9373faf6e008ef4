//! `wait4bind`, `wait4bindep`, `wait4unbind`, `wait4name`, and the wait of a backup: waits under
//! opaque tickets.
//!
//! The event that ends a wait removes its ticket. The daemon cancels the ticket of a waiter that
//! gives up. The daemon also bounds the number of tickets per connection.

use m3ipc_abi::{Address, SYSTEM_SLOTS, Slot};

use super::error::{LookupError, NameError, WaitError};
use super::identity::{Credentials, Member, MemberId, MemberKind};
use super::lookup::{Holder, slot_in_range};
use super::names::check_name;
use super::node::Node;
use super::tickets::{Event, TicketId};

/// The result of a wait's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The event has happened, to this endpoint. The ticket was not kept.
    Already(Address),
    /// The ticket is registered.
    Registered,
}

impl Node {
    /// `wait4bind`: waits until the process is bound.
    pub fn wait_bind(&mut self, pid: i32, ticket: TicketId) -> Wait {
        match self.endpoint_of_process(pid) {
            Some(id) => Wait::Already(id.address),
            None => self.register(Event::ProcessBound(pid), ticket),
        }
    }

    /// The tickets of `wait4bind` for this process number.
    pub fn waits_for_bind(&self, pid: i32) -> Vec<TicketId> {
        self.tickets.of(&Event::ProcessBound(pid))
    }

    /// `wait4bindep`: waits until the endpoint lives. The plain number of a user slot (generation
    /// 0, which never lives) waits for the next bind of the slot. One that moves between two nodes
    /// is to live again.
    ///
    /// # Errors
    /// VM id -302; VM not running -303; range -34; own address -306; past generation -306, also
    /// later if it [is not bound after all](Self::take_missed).
    pub fn wait_bind_ep(
        &mut self,
        caller: Option<Address>,
        id: MemberId,
        ticket: TicketId,
    ) -> Result<Wait, WaitError> {
        let vm = self.running(id.vm)?;
        let address = id.address;
        let any_generation = address.slot() >= SYSTEM_SLOTS && address.generation() == 0;
        match vm.check_destination(caller, address) {
            Ok(()) => return Ok(Wait::Already(address)),
            Err(LookupError::Dead(_) | LookupError::Generation(_)) if self.is_arriving(id) => {}
            Err(LookupError::Generation(_)) => match vm.holder(address.slot()) {
                Holder::Living(living) if any_generation => return Ok(Wait::Already(living)),
                Holder::Living(latest) | Holder::Last(latest)
                    if !any_generation && !is_later(address, latest) =>
                {
                    return Err(LookupError::Generation(address).into());
                }
                Holder::Never if address.generation() < 0 => {
                    return Err(LookupError::Generation(address).into());
                }
                _ => {}
            },
            Err(LookupError::Dead(_)) if address.slot() >= SYSTEM_SLOTS => {
                return Err(LookupError::Generation(address).into());
            }
            Err(LookupError::Dead(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.register(Event::Bound(id), ticket))
    }

    /// The tickets of `wait4bindep` for endpoints that have moved and were not bound again.
    pub fn take_missed(&mut self) -> Vec<TicketId> {
        let missed = self.foreign.take_missed().into_iter();
        let missed: Vec<MemberId> = missed.filter(|id| !self.is_arriving(*id)).collect();
        missed.into_iter().flat_map(|id| self.tickets.on_miss(id)).collect()
    }

    /// `wait4unbind`: waits until the endpoint has ended.
    ///
    /// # Errors
    /// VM id -302; no such VM -303; range -34; own address -306; an endpoint that never lived
    /// -306.
    pub fn wait_unbind(
        &mut self,
        caller: Option<Address>,
        id: MemberId,
        ticket: TicketId,
    ) -> Result<Wait, WaitError> {
        let vm = self.vm(id.vm)?;
        let address = id.address;
        match vm.check_destination(caller, address) {
            Ok(()) => Ok(self.register(Event::Unbound(id), ticket)),
            Err(LookupError::Dead(_)) => Ok(Wait::Already(address)),
            Err(LookupError::Generation(_)) => match vm.holder(address.slot()) {
                Holder::Living(latest) | Holder::Last(latest)
                    if address.generation() > 0 && !is_later(address, latest) =>
                {
                    Ok(Wait::Already(address))
                }
                _ => Err(LookupError::Generation(address).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// `wait4name`: waits until an endpoint has the name.
    ///
    /// # Errors
    /// VM id -302; VM not running -303; name too long -343; empty name -339.
    pub fn wait_name(&mut self, vm: i32, name: &str, ticket: TicketId) -> Result<Wait, WaitError> {
        self.running(vm)?;
        check_name(name)?;
        match self.name_locate(vm, name) {
            Ok(address) => Ok(Wait::Already(address)),
            Err(NameError::Unknown(_)) => {
                Ok(self.register(Event::Named(vm, name.to_owned()), ticket))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The wait of a backup for its slot. Without a proxy nobody knows where the slot is.
    ///
    /// # Errors
    /// VM id -302; VM not running -303; range -34; another node has the slot, and its backup is
    /// not at this one -308; the member may not bind it, as for [`Node::bind`].
    pub fn wait_place(
        &mut self,
        (vm, slot): (i32, Slot),
        (member, cred, kind): (Member, &Credentials, MemberKind),
        has_proxy: bool,
        ticket: TicketId,
    ) -> Result<Wait, WaitError> {
        let table = self.running(vm)?;
        if !slot_in_range(&table.spec.limits, slot) {
            return Err(LookupError::Range(slot).into());
        }
        let place = MemberId::new(vm, Address(slot));
        let range = self.foreign.find(vm, slot);
        if let Some(range) = range.filter(|_| !self.foreign.is_backed(vm, slot)) {
            return Err(WaitError::NoBackup { slot, node: range.node.clone() });
        }
        let is_here = range.is_none();
        self.check_right(vm, slot, member, cred, kind)?;
        match is_here && has_proxy {
            true => Ok(Wait::Already(place.address)),
            false => Ok(self.register(Event::Placed(place), ticket)),
        }
    }

    /// A proxy has registered: the tickets of the waits that need not go on.
    pub fn places_are_known(&mut self) -> Vec<(MemberId, Vec<TicketId>)> {
        let waits_on = |id: &MemberId| {
            let slot = id.address.slot();
            self.foreign.find(id.vm, slot).is_some() && self.foreign.is_backed(id.vm, slot)
        };
        let places: Vec<MemberId> = self.tickets.places();
        let over: Vec<MemberId> = places.into_iter().filter(|id| !waits_on(id)).collect();
        over.into_iter().map(|id| (id, self.tickets.on_place(id))).collect()
    }

    /// Cancels the ticket of a waiter that gave up or died.
    pub fn cancel_wait(&mut self, ticket: TicketId) {
        self.tickets.cancel(ticket);
    }

    fn register(&mut self, event: Event, ticket: TicketId) -> Wait {
        self.tickets.register(event, ticket);
        Wait::Registered
    }
}

/// Whether `address` is of a later generation than `latest`.
const fn is_later(address: Address, latest: Address) -> bool {
    address.generation() > latest.generation()
}
