//! The machine: endpoints, their states, and the dispatch of a step.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{Address, Code, Message, Slot, VmLimits};

use super::op::{Call, Completion, Fate, Limit, Op, Source};
use crate::deadlock::{self, Blocked, Cycle, Verb};
use crate::tables::{Holder, check_destination, slot_in_range};

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not in a call.
    Running,
    /// Its message waits for `dst` to take it.
    Sending {
        /// For whom.
        dst: Address,
        /// The message, source filled in.
        message: Message,
        /// Whether it waits for the answer then.
        sendrec: bool,
        /// Whether a server had it already and relayed it.
        relayed: bool,
        /// Its time of arrival.
        stamp: u64,
    },
    /// It waits for a message.
    Receiving {
        /// Of whom.
        src: Source,
        /// Whether only requests made with sendrec (and notifications) will do.
        requests_only: bool,
        /// Since when.
        stamp: u64,
    },
    /// Its request was taken; it waits for the answer.
    Awaiting {
        /// Of whom.
        dst: Address,
        /// The request as it was sent, for relay.
        request: Message,
        /// Since when.
        stamp: u64,
    },
    /// It waits for an endpoint to go.
    AwaitingUnbind {
        /// Which.
        dst: Address,
    },
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) state: State,
    pub(super) limit: Limit,
    /// Who notified it since its last receive.
    pub(super) notified: BTreeSet<Slot>,
    /// A wakeup that found no receive(ANY) to end.
    pub(super) woken: bool,
}

/// A rule that a machine breaks on purpose, to see that its tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None: the contract.
    #[default]
    None,
    /// Death does not end the waits of those who receive from the dead.
    ReceiversForgotten,
    /// A message that was taken stays with its sender.
    DeliveredTwice,
    /// A withdrawal says that the message was delivered.
    WrongFate,
    /// A circle of senders is let in.
    CycleLetIn,
    /// A bound slot begins with the generation of its last holder.
    GenerationKept,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    limits: VmLimits,
    pub(super) endpoints: BTreeMap<Slot, Endpoint>,
    latest: BTreeMap<Slot, Address>,
    clock: u64,
    pub(super) fault: Fault,
    pub(super) ended: Vec<Completion>,
}

impl Machine {
    /// A VM with nobody in it.
    #[must_use]
    pub const fn new(limits: VmLimits) -> Self {
        Self::with_fault(limits, Fault::None)
    }

    /// The same, breaking one rule.
    #[must_use]
    pub const fn with_fault(limits: VmLimits, fault: Fault) -> Self {
        Self {
            limits,
            endpoints: BTreeMap::new(),
            latest: BTreeMap::new(),
            clock: 0,
            fault,
            ended: Vec::new(),
        }
    }

    /// The address of who lives in a slot.
    #[must_use]
    pub fn address(&self, slot: Slot) -> Option<Address> {
        self.endpoints.get(&slot).map(|endpoint| endpoint.address)
    }

    /// The latest address of a slot, of the living or the last dead.
    #[must_use]
    pub fn latest(&self, slot: Slot) -> Option<Address> {
        self.latest.get(&slot).copied()
    }

    /// What who lives in a slot does.
    #[must_use]
    pub fn state(&self, slot: Slot) -> Option<State> {
        self.endpoints.get(&slot).map(|endpoint| endpoint.state)
    }

    /// Applies one step; returns the calls that ended by it, in the order of their ends.
    ///
    /// Order of checks: caller not bound -310; in a call already -106; of the peer
    /// slot range -34 (ANY, NONE, SELF too), self -306, generation -306, free slot the
    /// call's died code; then the call's own.
    pub fn step(&mut self, op: Op) -> Vec<Completion> {
        self.clock += 1;
        match op {
            Op::Bind(slot) => self.bind(slot),
            Op::Unbind(slot) => {
                self.withdraw(slot, Code::Shutdown);
                self.die(slot);
            }
            Op::Kill(slot) => self.die(slot),
            Op::Call { who, call, limit } => self.call(who, call, limit),
            Op::Expire(slot) => self.expire(slot),
            Op::Signal(slot) => self.withdraw(slot, Code::Intr),
        }
        core::mem::take(&mut self.ended)
    }

    fn bind(&mut self, slot: Slot) {
        if !slot_in_range(&self.limits, slot) || self.endpoints.contains_key(&slot) {
            return;
        }
        let last = self.latest(slot);
        let address = match last {
            Some(last) if self.fault == Fault::GenerationKept => last,
            last => Address::next_life(slot, last),
        };
        self.latest.insert(slot, address);
        let (state, limit, notified) = (State::Running, Limit::Forever, BTreeSet::new());
        self.endpoints.insert(slot, Endpoint { address, state, limit, notified, woken: false });
    }

    fn call(&mut self, who: Slot, call: Call, limit: Limit) {
        let Some(endpoint) = self.endpoints.get_mut(&who) else {
            return self.ended.push(Completion::error(who, Code::NotBind));
        };
        if endpoint.state != State::Running {
            return self.ended.push(Completion::error(who, Code::NotReady));
        }
        endpoint.limit = limit;
        let me = endpoint.address;
        match call {
            Call::Send { dst, message } => self.send(me, dst, message),
            Call::Sendrec { dst, message } => self.sendrec(me, dst, message),
            Call::Receive { src } => self.receive(me, src, false),
            Call::Rcvrqst => self.receive(me, Source::Any, true),
            Call::Notify { dst } => self.notify(me, dst),
            Call::Reply { dst, message } => self.reply(me, dst, message),
            Call::Relay { client, dst } => self.relay(me, client, dst),
            Call::Wakeup { dst } => self.wakeup(me, dst),
            Call::AwaitUnbind { dst } => self.await_unbind(me, dst),
        }
    }

    /// The contract: slot range -34 (ANY, NONE, SELF too); self -306; generation -306; free slot: `died`.
    pub(super) fn peer(&self, me: Address, peer: Address, died: Code) -> Result<(), Code> {
        check_destination(&self.limits, Some(me), peer, |slot| {
            match (self.address(slot), self.latest(slot)) {
                (Some(living), _) => Holder::Living(living),
                (None, Some(last)) => Holder::Last(last),
                (None, None) => Holder::Never,
            }
        })
        .map_err(|error| error.code(died))
    }

    pub(super) fn now(&self) -> u64 {
        self.clock
    }

    /// The endpoint of this address, which the caller knows to live.
    pub(super) fn living(&mut self, address: Address) -> &mut Endpoint {
        let endpoint = self.endpoints.get_mut(&address.slot());
        endpoint.expect("its address was checked, or found in the tables, in this step")
    }

    /// What the endpoint of this address does; nobody's is Running.
    pub(super) fn state_of(&self, address: Address) -> State {
        let living =
            self.endpoints.get(&address.slot()).filter(|endpoint| endpoint.address == address);
        living.map_or(State::Running, |endpoint| endpoint.state)
    }

    pub(super) fn limit_of(&self, address: Address) -> Limit {
        self.endpoints.get(&address.slot()).map_or(Limit::Forever, |endpoint| endpoint.limit)
    }

    pub(super) fn end(&mut self, completion: Completion) {
        self.ended.push(completion);
    }

    pub(super) fn fail(&mut self, who: Address, code: Code) {
        self.end(Completion::error(who.slot(), code));
    }

    /// Ends a call whose message found no receiver.
    pub(super) fn fail_unsent(&mut self, who: Address, code: Code) {
        self.end(Completion::error(who.slot(), code).with(Fate::Withdrawn));
    }

    /// Everybody who waits for one other, as the deadlock rule sees it.
    #[must_use]
    pub fn blocked(&self) -> Vec<Blocked> {
        self.endpoints
            .values()
            .filter_map(|endpoint| blocked(endpoint.address, endpoint.state))
            .collect()
    }

    /// The contract: the call that closes the cycle gets -101; a group of two
    /// where one sends and the other receives from it is no deadlock.
    pub(super) fn closes_cycle(&self, who: Address, state: State) -> Option<Cycle> {
        if self.fault == Fault::CycleLetIn {
            return None;
        }
        let mut records = self.blocked();
        records.retain(|record| record.who != who);
        records.extend(blocked(who, state));
        deadlock::closes_cycle(who, &records)
    }
}

fn blocked(who: Address, state: State) -> Option<Blocked> {
    let (waits_for, verb, since) = match state {
        State::Sending { dst, stamp, .. } => (dst, Verb::Sending, stamp),
        State::Receiving { src: Source::From(src), stamp, .. } => (src, Verb::Receiving, stamp),
        State::Awaiting { dst, stamp, .. } => (dst, Verb::Receiving, stamp),
        State::Running
        | State::Receiving { src: Source::Any, .. }
        | State::AwaitingUnbind { .. } => {
            return None;
        }
    };
    Some(Blocked { who, waits_for, verb, since })
}
