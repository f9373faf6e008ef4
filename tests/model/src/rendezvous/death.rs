//! The end of a blocked call without its rendezvous: death, time limit, signal.

use m3ipc_abi::{Address, Code, Slot};

use super::machine::{Endpoint, Fault, Left, Machine, State};
use super::op::{Completion, Fate, Limit, Source};

impl Endpoint {
    /// Keeps what an endpoint leaves here that dies. Those of one address join.
    fn keep(&mut self, source: Address, is_erased: bool) {
        let notified = self.notified.remove(&source.slot());
        let pulses = self.pulses.remove(&source.slot()).unwrap_or_default();
        if is_erased || !notified && pulses.is_empty() {
            return;
        }
        match self.left.iter_mut().find(|left| left.source == source) {
            Some(left) => {
                left.notified |= notified;
                left.pulses.extend(pulses);
            }
            None => self.left.push(Left { source, notified, pulses }),
        }
    }
}

impl Machine {
    /// The contract, death of an endpoint X, in this order:
    /// 1. Senders queued to X get -109.
    /// 2. The pending notifications and pulses of X at other endpoints stay there: a call of X was
    ///    told that they arrive.
    /// 3. Receivers from X alone, and clients that await its answer, get -108.
    /// 4. Waiters in wait4unbind get 0.
    ///
    /// The slot becomes free, and its address is remembered. A receive(ANY) goes on.
    pub(super) fn die(&mut self, slot: Slot) {
        let Some(dead) = self.endpoints.remove(&slot).map(|endpoint| endpoint.address) else {
            return;
        };
        let mut senders = self.find_waiting(|state| match state {
            State::Sending { dst, stamp, .. } if dst == dead => Some(stamp),
            _ => None,
        });
        senders.sort_by_key(|(stamp, _)| *stamp);
        for (_, sender) in senders {
            self.withdraw(sender.slot(), Code::DstDied);
        }
        for endpoint in self.endpoints.values_mut() {
            let is_erased = self.fault == Fault::ErasedWithTheDead;
            endpoint.keep(dead, is_erased);
        }
        if self.fault != Fault::ReceiversForgotten {
            self.end_receivers(dead);
        }
        let watchers =
            self.find_waiting(|state| (state == State::AwaitingUnbind { dst: dead }).then_some(0));
        for (_, watcher) in watchers {
            self.living(watcher).state = State::Running;
            self.end(Completion::done(watcher.slot()));
        }
    }

    fn end_receivers(&mut self, dead: Address) {
        let receivers = self.find_waiting(|state| match state {
            State::Receiving { src: Source::From(src), .. } if src == dead => Some(0),
            State::Awaiting { dst, .. } if dst == dead => Some(0),
            _ => None,
        });
        for (_, receiver) in receivers {
            self.withdraw(receiver.slot(), Code::SrcDied);
        }
    }

    fn find_waiting(&self, fits: impl Fn(State) -> Option<u64>) -> Vec<(u64, Address)> {
        let found = self
            .endpoints
            .values()
            .filter_map(|endpoint| Some((fits(endpoint.state)?, endpoint.address)));
        found.collect()
    }

    /// wait4unbind: 0 at once for a dead endpoint or an earlier generation; the caller itself -306;
    /// without time to wait -61.
    pub(super) fn await_unbind(&mut self, me: Address, dst: Address) {
        let past = |latest: Address| (1..latest.generation()).contains(&dst.generation());
        match self.check_peer(me, dst, Code::DstDied) {
            Ok(()) if self.limit_of(me) == Limit::NoWait => self.fail(me, Code::TimedOut),
            Ok(()) => self.living(me).state = State::AwaitingUnbind { dst },
            Err(Code::DstDied) => self.end(Completion::done(me.slot())),
            Err(_) if self.latest(dst.slot()).is_some_and(past) => {
                self.end(Completion::done(me.slot()))
            }
            Err(code) => self.fail(me, code),
        }
    }

    /// Ends a blocked call whose time limit has passed: -61.
    pub(super) fn expire(&mut self, slot: Slot) {
        if self.endpoints.get(&slot).is_some_and(|endpoint| endpoint.limit == Limit::Bounded) {
            self.withdraw(slot, Code::TimedOut);
        }
    }

    /// Ends a blocked call with this code. The contract: its message is either withdrawn or
    /// delivered, and the call says which.
    pub(super) fn withdraw(&mut self, slot: Slot, code: Code) {
        let Some(endpoint) = self.endpoints.get_mut(&slot) else { return };
        let fate = match endpoint.state {
            State::Running => return,
            State::Sending { .. } if self.fault == Fault::WrongFate => Some(Fate::Delivered),
            State::Sending { relayed: false, .. } => Some(Fate::Withdrawn),
            State::Sending { relayed: true, .. } | State::Awaiting { .. } => Some(Fate::Delivered),
            State::Receiving { .. } | State::AwaitingUnbind { .. } => None,
        };
        endpoint.state = State::Running;
        let completion = Completion { who: slot, result: Err(code), fate };
        self.end(completion);
    }
}
