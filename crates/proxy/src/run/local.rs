//! The side of the own node: stand-ins for the endpoints of other nodes, and their messages.
//!
//! | here | machine |
//! |---|---|
//! | a message to a stand-in: held | `call` |
//! | the sender wants it back, or awaits no answer | `withdraw` |
//! | a message of a remote endpoint: posted by its stand-in | `Deliver`; then `taken`, `answer`, `refused` |
//! | a bind, an end | `bound`, `died` |

mod attention;
mod budget;
mod calls;
mod copies;
mod late_notifications;
mod moves;
mod nodes;
mod notifications;
mod places;
mod polling;
mod pulses;
mod wakeups;

use super::copy::Copies;
use super::ends::{Parcel, failure_of};
use super::kept::Kept;
use super::names::{self, Names};
use super::network::Clock;
use super::pulses::Pulses;
use super::wanted::{Turn, Wanted};
use crate::log::say;
pub use attention::Pass;
use attention::{Attention, Looks};
use budget::Budget;
use late_notifications::{LateNotifications, must_wait};
use m3ipc::nodes::{NodesEvent, Posted, PostedEnd, Proxy, StandIn, StandInEvent};
use m3ipc::{Address, Code, Message, NodeError};
use m3ipc_fabric::{
    Call, CallId, CallKind, CallRefusal, Content, DeliveryId, EndpointId, Failure, Machine, NodeId,
    Owners, VmId,
};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The most events of the daemon in one step.
const EVENTS_OF_STEP: usize = 1024;
/// More events than the daemon queues for this proxy: all that came before now are among them.
pub const EVENTS_QUEUED: usize = 1 << 17;

/// A message of a remote endpoint in the link of its stand-in.
struct Delivery {
    to: Address,
    posted: Posted,
    /// Whether the machine knows that the receiver has taken it.
    told: bool,
}

struct Entry {
    stand_in: StandIn,
    descriptor: OwnedFd,
    /// Whether the machine had no room for a message: the messages wait in their links.
    blocked: bool,
    attention: Attention,
    /// The calls of local senders.
    calls: BTreeMap<Address, CallId>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    /// Notifications that wait: see [`must_wait`].
    notified: BTreeMap<Address, u64>,
    /// The end of its wait for the backup of its endpoint.
    waits_until: Option<Instant>,
    /// The messages that are sent a second time, by sender: they have met a moved endpoint.
    again: BTreeMap<Address, u64>,
}

/// Stand-ins, and what goes through them.
pub struct Local {
    proxy: Proxy,
    owners: Owners,
    own: NodeId,
    wanted: Wanted,
    stand_ins: BTreeMap<EndpointId, Entry>,
    /// The stand-in and the sender of each call.
    calls: BTreeMap<CallId, (EndpointId, Address)>,
    /// The stand-in of each delivery.
    deliveries: BTreeMap<DeliveryId, EndpointId>,
    /// Messages whose stand-in is not bound yet, in order.
    late: VecDeque<Parcel>,
    late_notifications: LateNotifications,
    /// Messages that wait for room in the machine.
    kept: Kept,
    copies: Copies,
    budget: Budget,
    pulses: Pulses,
    /// Relays of local servers that the machine does not know yet.
    relayed: Vec<(DeliveryId, PostedEnd)>,
    /// The wakeups of local endpoints, with the daemon's numbers.
    wakeups: BTreeMap<CallId, u64>,
    names: Names,
    /// The addresses of endpoints whose place may come here: their home was lost, or they move.
    lost: BTreeMap<(VmId, i32), Address>,
    /// The names of the other nodes.
    node_names: BTreeMap<NodeId, String>,
    looks: Looks,
    /// Whether the last pass was silent.
    is_silent: bool,
}

impl Local {
    /// The side of the own node, whose proxy is registered, with at most so many stand-ins for each
    /// other node.
    pub fn new(
        proxy: Proxy,
        owners: Owners,
        own: NodeId,
        (most_of_node, bytes_of_node): (usize, u64),
    ) -> Self {
        Self {
            proxy,
            owners,
            own,
            wanted: Wanted::new(most_of_node),
            stand_ins: BTreeMap::new(),
            calls: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            late: VecDeque::new(),
            late_notifications: LateNotifications::default(),
            kept: Kept::default(),
            copies: Copies::default(),
            budget: Budget::of(bytes_of_node),
            pulses: Pulses::default(),
            relayed: Vec::new(),
            wakeups: BTreeMap::new(),
            names: Names::default(),
            lost: BTreeMap::new(),
            node_names: BTreeMap::new(),
            looks: Looks::default(),
            is_silent: false,
        }
    }

    /// The number of stand-ins.
    pub fn stand_ins(&self) -> usize {
        self.stand_ins.len()
    }

    /// When [`Local::step`] is due without an event.
    pub fn deadline(&self) -> Option<Instant> {
        if !self.relayed.is_empty()
            || self.proxy.has_queued_events()
            || self.stand_ins.values().any(Entry::has_rung)
        {
            return Some(Instant::now());
        }
        let all = self.wanted.deadline().into_iter().chain(self.looks.next());
        let all = all.chain(self.next_wait_end());
        all.chain(self.names.deadline()).min()
    }

    /// The binds and the ends of local endpoints. At most so many: others follow in the next step,
    /// as members can cause events faster than this reads them.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn read_events(
        &mut self,
        most: usize,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        for _ in 0..most {
            let Some(event) = self.proxy.next_event()? else { break };
            match event {
                NodesEvent::Bound { vm, address } => {
                    let Some(id) = endpoint(vm, address) else { continue };
                    machine.bound(clock.now_ns(), id);
                    self.send_kept_of(id, machine, clock);
                    self.note_adopted(id, machine);
                    self.wanted.vm_runs(id.vm);
                }
                NodesEvent::Named { vm, address, name } => {
                    let Some(id) = endpoint(vm, address) else { continue };
                    machine.named(clock.now_ns(), id, &name);
                }
                NodesEvent::Wakeup { number, vm, from, address } => {
                    self.begin_wakeup(number, (vm, from, address), machine, clock)?;
                }
                NodesEvent::Move { vm, address } => {
                    self.begin_move((vm, address), machine, clock)?
                }
                NodesEvent::Ended { vm, address } => {
                    let Some(id) = endpoint(vm, address) else { continue };
                    self.end_local(id, machine, clock);
                    machine.died(clock.now_ns(), id);
                    self.forget_sender(id);
                    self.end_copies_of(id, machine, clock);
                }
            }
        }
        Ok(())
    }

    /// A local endpoint has ended. First whatever it took or answered before.
    fn end_local(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        let posted = self.stand_ins.iter().filter(|(remote, entry)| {
            remote.vm == id.vm && entry.deliveries.values().any(|it| it.to == id.address)
        });
        let posted: Vec<EndpointId> = posted.map(|(remote, _)| *remote).collect();
        for remote in posted {
            self.poll_deliveries(remote, machine, clock);
        }
        for (remote, entry) in self.stand_ins.iter_mut().filter(|(it, _)| it.vm == id.vm) {
            let kept = entry.notified.remove(&id.address);
            let new = entry.stand_in.last_notified_by(id.address);
            if let Some(bits) = kept.into_iter().chain(new).reduce(|one, other| one | other) {
                machine.notify_before_answer(clock.now_ns(), id, remote.address, bits);
            }
        }
        self.report_relays(machine, clock);
        self.late.retain(|it| (it.from.vm, it.to) != (id.vm, id.address));
        self.pulses.forget_local(id);
    }

    fn forget_sender(&mut self, sender: EndpointId) {
        for (remote, entry) in &mut self.stand_ins {
            self.kept.remove(*remote, sender.address);
            if remote.vm == sender.vm
                && let Some(call) = entry.calls.remove(&sender.address)
            {
                self.calls.remove(&call);
            }
        }
    }

    /// Lets stand-ins attach the names that are due.
    fn attach_names(&mut self, now: Instant) {
        let Self { names, owners, stand_ins, .. } = self;
        names.step(
            now,
            |id| owners.owner(id),
            |id, name| Some(names::attach(&mut stand_ins.get_mut(&id)?.stand_in, name)),
        );
    }

    /// A remote endpoint has a name.
    pub fn remote_named(&mut self, id: EndpointId, name: String) {
        self.names.add(id, name, Instant::now());
    }

    /// A remote endpoint lives: a stand-in takes its place.
    pub fn remote_bound(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        if let Some(node) = self.owners.owner(id) {
            self.lost.remove(&(id.vm, id.address.slot()));
            if self.ends_wait(id, node, machine, clock) {
                return;
            }
            self.wanted.announce(id, node);
            self.turn(id);
        }
    }

    /// Binds the stand-in of an endpoint, if it is its turn. Whether there is one.
    fn turn(&mut self, id: EndpointId) -> Turn {
        if self.stand_ins.contains_key(&id) {
            return Turn::Bind;
        }
        if self.late_notifications.delays(id) {
            return Turn::Later;
        }
        match self.wanted.turn(id) {
            Turn::Bind => self.make_stand_in(id),
            other => other,
        }
    }

    fn make_stand_in(&mut self, id: EndpointId) -> Turn {
        let made = self.proxy.stand_in(i32::from(id.vm), id.address).and_then(|mut stand_in| {
            let descriptor = stand_in.share_fd()?;
            let (calls, deliveries, notified) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
            let (blocked, attention, waits_until) = (false, Attention::default(), None);
            let again = BTreeMap::new();
            Ok(Entry {
                stand_in,
                descriptor,
                blocked,
                attention,
                calls,
                deliveries,
                notified,
                waits_until,
                again,
            })
        });
        match made {
            Ok(entry) => {
                self.stand_ins.insert(id, entry);
                self.wanted.made(id);
                Turn::Bind
            }
            Err(error) if self.wanted.failed(id, error.code()) => {
                say!(
                    "endpoints of other nodes",
                    "no stand-in for {} of VM {}: {error}",
                    id.address,
                    id.vm
                );
                Turn::Never
            }
            Err(_) => Turn::Later,
        }
    }

    /// A remote endpoint has died.
    pub fn remote_died(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        self.names.forget(id);
        let (of_dead, late) =
            std::mem::take(&mut self.late).into_iter().partition(|it| it.from == id);
        self.late = late;
        let of_dead: VecDeque<Parcel> = of_dead;
        for parcel in of_dead {
            machine.refused(clock.now_ns(), parcel.number, Failure::Died);
        }
        self.drop_pulses_of(id, machine, clock);
        if self.postpones_death(id) {
            return;
        }
        self.wanted.forget(id);
        if let Some(entry) = self.remove(id, machine, clock) {
            entry.stand_in.died();
        }
    }

    /// Takes a stand-in out. All that goes through it ends.
    fn remove(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) -> Option<Entry> {
        self.end_traffic(id, machine, clock);
        let entry = self.stand_ins.remove(&id)?;
        self.kept.forget(id);
        self.pulses.forget_stand_in(id);
        self.names.lost(id, Instant::now());
        Some(entry)
    }

    /// Ends all that goes through a stand-in.
    fn end_traffic(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        self.poll_deliveries(id, machine, clock);
        let Some(entry) = self.stand_ins.get_mut(&id) else { return };
        for call in std::mem::take(&mut entry.calls).into_values() {
            self.calls.remove(&call);
            machine.withdraw(clock.now_ns(), call);
        }
        for (number, delivery) in std::mem::take(&mut entry.deliveries) {
            self.deliveries.remove(&number);
            if entry.stand_in.withdraw(delivery.posted) {
                machine.refused(clock.now_ns(), number, Failure::LinkDown);
            } else {
                machine.taken(clock.now_ns(), number);
                machine.unanswered(clock.now_ns(), number, Failure::LinkDown);
            }
        }
    }

    /// The machine has room again for calls of a VM to a node.
    pub fn room(&mut self, node: NodeId, vm: VmId, machine: &mut Machine, clock: &Clock) {
        for (id, entry) in &mut self.stand_ins {
            let has_room = self.owners.owner(*id) == Some(node) && !entry.waits_for_backup();
            if id.vm == vm && has_room {
                entry.unblock();
                entry.notified.retain(|from, bits| {
                    let from = EndpointId::new(vm, *from);
                    must_wait(machine.notify(clock.now_ns(), from, id.address, *bits))
                });
            }
        }
    }

    fn local_event(
        &mut self,
        id: EndpointId,
        event: StandInEvent,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        match event {
            StandInEvent::Message { from, is_request, message, bytes, is_block } => {
                let kind = if is_request { CallKind::Request } else { CallKind::Send };
                let Message { m_type, payload, .. } = message;
                let content = Content { m_type, payload, long: bytes, is_block };
                let sender = EndpointId::new(id.vm, from);
                let user = self.stand_ins.get(&id).and_then(|it| it.stand_in.user_of(from));
                let (to, limit_ns) = (id.address, None);
                let call = Call { from: sender, to, kind, user, content, limit_ns };
                let mut may_call = machine.may_call(clock.now_ns(), &call);
                if may_call == Err(CallRefusal::NoEndpoint) {
                    // The sender may be new.
                    self.read_events(EVENTS_QUEUED, machine, clock)?;
                    may_call = machine.may_call(clock.now_ns(), &call);
                }
                if matches!(may_call, Err(CallRefusal::Full(_) | CallRefusal::Share(_)))
                    && call.content.long.len() > m3ipc::LONG_MAX_BYTES
                    && let Some(entry) = self.stand_ins.get_mut(&id)
                {
                    // The look has found room, and a message beside it has taken that. Later looks
                    // leave long messages where they are, and the others go on.
                    match is_block {
                        true => entry.stand_in.let_go(from),
                        false => self.kept.add(id, from, call),
                    }
                    return Ok(());
                }
                let called = may_call.map(|node| machine.begin_call(node, call));
                self.note_call(id, from, called);
            }
            StandInEvent::Notified { from, .. } => {
                // `poll` has kept it. An end that was read since has sent it already.
                let entry = self.stand_ins.get_mut(&id);
                let Some(bits) = entry.and_then(|it| it.notified.remove(&from)) else {
                    return Ok(());
                };
                let source = EndpointId::new(id.vm, from);
                // A notification may be lost with the node of its receiver.
                let notified = machine.notify(clock.now_ns(), source, id.address, bits);
                if must_wait(notified) {
                    self.keep_notification(id, from, bits);
                }
                if notified == Err(CallRefusal::NoEndpoint) {
                    // The sender may be new. Its bind or its end sends what is kept of it.
                    self.read_events(EVENTS_QUEUED, machine, clock)?;
                }
            }
            StandInEvent::Pulses { from, pulses } => {
                self.send_pulses(id, from, &pulses, machine, clock)?;
            }
            StandInEvent::GivenUp(from) if self.kept.remove(id, from) => {
                if let Some(entry) = self.stand_ins.get_mut(&id) {
                    entry.stand_in.failed(from, Code::TimedOut);
                }
            }
            StandInEvent::GivenUp(from) => {
                let entry = self.stand_ins.get(&id);
                if let Some(call) = entry.and_then(|entry| entry.calls.get(&from)) {
                    machine.withdraw(clock.now_ns(), *call);
                }
            }
        }
        Ok(())
    }

    fn note_call(&mut self, id: EndpointId, from: Address, called: Result<CallId, CallRefusal>) {
        if matches!(called, Err(CallRefusal::LinkDown(_))) && self.keep_for_backup(id, from) {
            return;
        }
        let Some(entry) = self.stand_ins.get_mut(&id) else { return };
        let code = match called {
            Ok(call) => {
                // An earlier call of this sender was given up.
                if let Some(earlier) = entry.calls.insert(from, call) {
                    self.calls.remove(&earlier);
                }
                self.calls.insert(call, (id, from));
                return;
            }
            Err(CallRefusal::Full(_)) => {
                entry.blocked = true;
                return entry.stand_in.let_go(from);
            }
            // It is found again when there is room. Meanwhile others are found beside it.
            Err(CallRefusal::Share(_)) => return entry.stand_in.let_go(from),
            Err(CallRefusal::LinkDown(_)) => Code::NotConn,
            Err(CallRefusal::TooLong(_)) => Code::MsgSize,
            // The slot has come to this node just now.
            Err(CallRefusal::Local) if self.owners.backup(id).is_some() => Code::Migrate,
            Err(CallRefusal::NoEndpoint | CallRefusal::Local) => Code::Endpoint,
        };
        entry.stand_in.failed(from, code);
    }

    /// Posts a message of a remote endpoint.
    pub fn deliver(&mut self, parcel: Parcel, machine: &mut Machine, clock: &Clock) {
        let Parcel { number, from, to, kind, .. } = parcel;
        match self.turn(from) {
            Turn::Bind => {}
            Turn::Later => return self.late.push_back(parcel),
            Turn::Never => return machine.refused(clock.now_ns(), number, Failure::Overload),
        }
        match kind {
            CallKind::Wakeup => return self.wake(number, from, to, machine, clock),
            CallKind::Pulses => return self.queue_pulses(parcel, machine, clock),
            CallKind::Send | CallKind::Request => {}
        }
        let Content { long, is_block, .. } = &parcel.content;
        if !self.admits(from, long.len(), *is_block) {
            return machine.refused(clock.now_ns(), number, Failure::Overload);
        }
        let own_is_higher = self.owners.owner(from).is_some_and(|node| self.own > node);
        let Some(entry) = self.stand_ins.get_mut(&from) else { return };
        // Both send to each other: one of the two gives way, and both nodes agree which one.
        if own_is_higher && entry.stand_in.holds_from(to) {
            return machine.refused(clock.now_ns(), number, Failure::Locked);
        }
        let Content { m_type, payload, long, is_block } = parcel.content;
        let message = Message { payload, ..Message::new(m_type) };
        entry.attend(self.is_silent);
        let is_request = kind == CallKind::Request;
        let posted = match is_block {
            true => entry.stand_in.post_block(to, is_request, &message, long),
            false => entry.stand_in.post(to, is_request, &message, long),
        };
        match posted {
            Ok(posted) => {
                entry.deliveries.insert(number, Delivery { to, posted, told: false });
                self.deliveries.insert(number, from);
                self.note_delivery(from, machine, clock);
            }
            Err(code) => machine.refused(clock.now_ns(), number, failure_of(code)),
        }
    }

    /// Takes a message of a remote endpoint back.
    pub fn withdraw(&mut self, number: DeliveryId, machine: &mut Machine, clock: &Clock) {
        if let Some(at) = self.late.iter().position(|it| it.number == number) {
            self.late.remove(at);
            return machine.withdrawn(clock.now_ns(), number);
        }
        if self.withdraw_pulses(number, machine, clock) {
            return;
        }
        let Some(id) = self.deliveries.remove(&number) else { return };
        let Some(entry) = self.stand_ins.get_mut(&id) else { return };
        let Some(delivery) = entry.deliveries.remove(&number) else { return };
        if entry.stand_in.withdraw(delivery.posted) {
            machine.withdrawn(clock.now_ns(), number);
        } else {
            machine.taken(clock.now_ns(), number);
        }
    }

    /// The remote requester awaits no answer any more.
    pub fn abandon(&mut self, number: DeliveryId) {
        if let Some(id) = self.deliveries.remove(&number)
            && let Some(entry) = self.stand_ins.get_mut(&id)
            && let Some(delivery) = entry.deliveries.remove(&number)
        {
            entry.stand_in.withdraw(delivery.posted);
        }
    }
}

fn endpoint(vm: i32, address: i32) -> Option<EndpointId> {
    Some(EndpointId::new(u16::try_from(vm).ok()?, Address(address)))
}
