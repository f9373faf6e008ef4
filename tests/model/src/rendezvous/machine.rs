//! The machine: the endpoints of a VM, their states, and the dispatch of a step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use m3ipc_abi::{Address, Code, Message, Slot, VmLimits};

use super::op::{Call, Completion, Fate, Limit, Op, Source};
use crate::cycle::{self, Waiter};
use crate::destination;

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not in a call.
    Running,
    /// In send or sendrec: `dst` has not taken the message yet.
    Sending {
        /// The receiver.
        dst: Address,
        /// The message, with its source filled in.
        message: Message,
        /// Whether the call goes on to wait for the answer.
        sendrec: bool,
        /// Whether a server took the request and relayed it.
        relayed: bool,
        /// The time of arrival.
        stamp: u64,
    },
    /// In receive or rcvrqst.
    Receiving {
        /// The wanted source.
        src: Source,
        /// Whether only notifications and requests of sendrec end the call (rcvrqst).
        requests_only: bool,
        /// The start of the wait.
        stamp: u64,
    },
    /// In sendrec: `dst` took the request, and the answer is outstanding.
    Awaiting {
        /// The server.
        dst: Address,
        /// The original request, for relay.
        request: Message,
        /// The start of the wait.
        stamp: u64,
    },
    /// In wait4unbind.
    AwaitingUnbind {
        /// The endpoint that has to end.
        dst: Address,
    },
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) state: State,
    pub(super) limit: Limit,
    /// The slots whose notifications are pending.
    pub(super) notified: BTreeSet<Slot>,
    /// The pulses of each slot that were not taken, the first one first.
    pub(super) pulses: BTreeMap<Slot, VecDeque<(u8, u64)>>,
    /// What peers left that have died, in the order of their deaths.
    pub(super) left: Vec<Left>,
    /// Whether a wakeup is remembered for the next receive(ANY).
    pub(super) woken: bool,
}

/// What a dead endpoint left at another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) source: Address,
    pub(super) notified: bool,
    pub(super) pulses: VecDeque<(u8, u64)>,
}

/// A rule that a machine breaks on purpose. The tests must detect each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the contract.
    #[default]
    None,
    /// A death does not end the receives from the dead endpoint.
    ReceiversForgotten,
    /// A taken message stays with its sender.
    DeliveredTwice,
    /// A withdrawal reports that the message was delivered.
    WrongFate,
    /// A call may close a cycle.
    CycleLetIn,
    /// A bind reuses the generation of the slot's last holder.
    GenerationKept,
    /// A full queue takes a pulse without an error, and loses it.
    PulseLost,
    /// A receive takes the latest pulse of a peer first.
    PulsesReversed,
    /// Notifications and pulses are erased when their sender dies.
    ErasedWithTheDead,
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
    /// A VM without endpoints.
    #[must_use]
    pub const fn new(limits: VmLimits) -> Self {
        Self::with_fault(limits, Fault::None)
    }

    /// A VM without endpoints that breaks one rule.
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

    /// The address of the endpoint that lives in a slot.
    #[must_use]
    pub fn address(&self, slot: Slot) -> Option<Address> {
        self.endpoints.get(&slot).map(|endpoint| endpoint.address)
    }

    /// The latest address of a slot: of its living endpoint, else of the last one.
    #[must_use]
    pub fn latest(&self, slot: Slot) -> Option<Address> {
        self.latest.get(&slot).copied()
    }

    /// The state of the endpoint that lives in a slot.
    #[must_use]
    pub fn state(&self, slot: Slot) -> Option<State> {
        self.endpoints.get(&slot).map(|endpoint| endpoint.state)
    }

    /// The pulses that an endpoint has not taken, of all peers together.
    #[must_use]
    pub fn pending_pulses(&self, slot: Slot) -> usize {
        let Some(endpoint) = self.endpoints.get(&slot) else { return 0 };
        let left = endpoint.left.iter().map(|left| &left.pulses);
        endpoint.pulses.values().chain(left).map(VecDeque::len).sum()
    }

    /// Applies one step, and returns the calls that ended by it, in the order of their ends.
    ///
    /// Order of checks: the caller is not bound -310; it is in a call already -106; then those of
    /// the peer ([`crate::destination::check`]); then those of the call.
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
        if !destination::has_slot(&self.limits, slot) || self.endpoints.contains_key(&slot) {
            return;
        }
        let last = self.latest(slot);
        let address = match last {
            Some(last) if self.fault == Fault::GenerationKept => last,
            last => Address::next_life(slot, last),
        };
        self.latest.insert(slot, address);
        let endpoint = Endpoint {
            address,
            state: State::Running,
            limit: Limit::Forever,
            notified: BTreeSet::new(),
            pulses: BTreeMap::new(),
            left: Vec::new(),
            woken: false,
        };
        self.endpoints.insert(slot, endpoint);
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
            Call::Pulse { dst, pulse } => self.pulse(me, dst, pulse),
            Call::Reply { dst, message } => self.reply(me, dst, message),
            Call::Relay { client, dst } => self.relay(me, client, dst),
            Call::Wakeup { dst } => self.wakeup(me, dst),
            Call::AwaitUnbind { dst } => self.await_unbind(me, dst),
        }
    }

    /// Checks the peer of a call; `died` is the code for a dead peer.
    pub(super) fn check_peer(&self, me: Address, peer: Address, died: Code) -> Result<(), Code> {
        let slot = peer.slot();
        let holder = (self.address(slot), self.latest(slot));
        destination::check(&self.limits, me, peer, holder, died)
    }

    pub(super) fn now(&self) -> u64 {
        self.clock
    }

    /// The endpoint with this address. The caller has checked that it lives.
    pub(super) fn living(&mut self, address: Address) -> &mut Endpoint {
        let endpoint = self.endpoints.get_mut(&address.slot());
        endpoint.expect("this step checked the address, or read it from the tables")
    }

    /// The state of the endpoint with this address; `Running` if no such endpoint lives.
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

    /// Ends a call whose message was not taken.
    pub(super) fn fail_unsent(&mut self, who: Address, code: Code) {
        self.end(Completion::error(who.slot(), code).with(Fate::Withdrawn));
    }

    /// The endpoints that wait for one other endpoint.
    pub(super) fn waiters(&self) -> Vec<Waiter> {
        let endpoints = self.endpoints.values();
        endpoints.filter_map(|endpoint| waiter(endpoint.address, endpoint.state)).collect()
    }

    /// The contract: the call that closes a cycle gets -101. Returns whether `who` would close one
    /// in this state.
    pub(super) fn deadlock(&self, who: Address, state: State) -> bool {
        if self.fault == Fault::CycleLetIn {
            return false;
        }
        let mut waiters = self.waiters();
        waiters.retain(|waiter| waiter.endpoint != who);
        waiters.extend(waiter(who, state));
        cycle::deadlock_of(who, &waiters).is_some()
    }
}

fn waiter(endpoint: Address, state: State) -> Option<Waiter> {
    let (peer, sends) = match state {
        State::Sending { dst, .. } => (dst, true),
        State::Receiving { src: Source::From(src), .. } => (src, false),
        State::Awaiting { dst, .. } => (dst, false),
        State::Running
        | State::Receiving { src: Source::Any, .. }
        | State::AwaitingUnbind { .. } => return None,
    };
    Some(Waiter { endpoint, peer, sends })
}
