//! How a blocked call ends without its rendezvous: death, time, signal.

use m3ipc_abi::{Address, Code, Slot};

use super::machine::{Fault, Machine, State};
use super::op::{Completion, Fate, Limit, Source};

impl Machine {
    /// The contract, death of X, in this order: senders queued to X -109; X's
    /// pending notifications elsewhere erased; those receiving specifically from
    /// X, clients awaiting its answer included, -108; wait4unbind waiters 0; slot
    /// free, endpoint value remembered; receive(ANY) waiters untouched.
    pub(super) fn die(&mut self, slot: Slot) {
        let Some(dead) = self.endpoints.remove(&slot).map(|endpoint| endpoint.address) else {
            return;
        };
        let mut senders = self.waiters(|state| match state {
            State::Sending { dst, stamp, .. } if dst == dead => Some(stamp),
            _ => None,
        });
        senders.sort_by_key(|(stamp, _)| *stamp);
        for (_, sender) in senders {
            self.withdraw(sender.slot(), Code::DstDied);
        }
        for endpoint in self.endpoints.values_mut() {
            endpoint.notified.remove(&slot);
        }
        if self.fault != Fault::ReceiversForgotten {
            self.end_receivers(dead);
        }
        let watchers =
            self.waiters(|state| (state == State::AwaitingUnbind { dst: dead }).then_some(0));
        for (_, watcher) in watchers {
            self.living(watcher).state = State::Running;
            self.end(Completion::done(watcher.slot()));
        }
    }

    fn end_receivers(&mut self, dead: Address) {
        let receivers = self.waiters(|state| match state {
            State::Receiving { src: Source::From(src), .. } if src == dead => Some(0),
            State::Awaiting { dst, .. } if dst == dead => Some(0),
            _ => None,
        });
        for (_, receiver) in receivers {
            self.withdraw(receiver.slot(), Code::SrcDied);
        }
    }

    fn waiters(&self, fits: impl Fn(State) -> Option<u64>) -> Vec<(u64, Address)> {
        let found = self
            .endpoints
            .values()
            .filter_map(|endpoint| Some((fits(endpoint.state)?, endpoint.address)));
        found.collect()
    }

    /// wait4unbind: 0 at once where it is gone already (an earlier life of its
    /// slot is); own -306; no time to wait -61.
    pub(super) fn await_unbind(&mut self, me: Address, dst: Address) {
        let past = |latest: Address| (1..latest.generation()).contains(&dst.generation());
        match self.peer(me, dst, Code::DstDied) {
            Ok(()) if self.limit_of(me) == Limit::NoWait => self.fail(me, Code::TimedOut),
            Ok(()) => self.living(me).state = State::AwaitingUnbind { dst },
            Err(Code::DstDied) => self.end(Completion::done(me.slot())),
            Err(_) if self.latest(dst.slot()).is_some_and(past) => {
                self.end(Completion::done(me.slot()))
            }
            Err(code) => self.fail(me, code),
        }
    }

    /// The time limit of a blocked call is over: -61.
    pub(super) fn expire(&mut self, slot: Slot) {
        if self.endpoints.get(&slot).is_some_and(|endpoint| endpoint.limit == Limit::Bounded) {
            self.withdraw(slot, Code::TimedOut);
        }
    }

    /// Ends a blocked call with this code. The contract: the message is surely
    /// withdrawn or surely delivered.
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
