//! send and sendrec.

use m3ipc_abi::{Address, Code, Message};

use super::machine::{Machine, State};
use super::op::{Completion, Fate, Limit};

impl Machine {
    /// The contract: returns when the receiver has taken it; -109 dst gone; -11
    /// where the receiver does not wait for it right now and there is no time; -101.
    pub(super) fn send(&mut self, me: Address, dst: Address, message: Message) {
        if let Err(code) = self.peer(me, dst, Code::DstDied) {
            return self.fail_unsent(me, code);
        }
        self.dispatch(me, dst, message, false);
    }

    /// The contract: send, then wait for dst's answer; slot free at entry -105;
    /// the time limit covers the whole call.
    pub(super) fn sendrec(&mut self, me: Address, dst: Address, message: Message) {
        if let Err(code) = self.peer(me, dst, Code::DeadSrcDst) {
            return self.fail_unsent(me, code);
        }
        self.dispatch(me, dst, message, true);
    }

    fn dispatch(&mut self, me: Address, dst: Address, mut message: Message, sendrec: bool) {
        message.source = me;
        let stamp = self.now();
        if self.state_of(dst).takes_message(me, sendrec) {
            self.hand_over(dst, message);
            return self.sent(me, dst, message, sendrec);
        }
        if self.limit_of(me) == Limit::NoWait {
            return self.fail_unsent(me, Code::Again);
        }
        let waiting = State::Sending { dst, message, sendrec, relayed: false, stamp };
        if self.closes_cycle(me, waiting).is_some() {
            return self.fail_unsent(me, Code::Locked);
        }
        self.living(me).state = waiting;
    }

    /// A message that met its receiver at once. A no-wait sendrec has no time
    /// left for its answer: -61, and the request was delivered.
    fn sent(&mut self, me: Address, dst: Address, request: Message, sendrec: bool) {
        let stamp = self.now();
        if !sendrec {
            self.end(Completion::done(me.slot()).with(Fate::Delivered));
        } else if self.limit_of(me) == Limit::NoWait {
            self.end(Completion::error(me.slot(), Code::TimedOut).with(Fate::Delivered));
        } else {
            self.living(me).state = State::Awaiting { dst, request, stamp };
        }
    }
}
