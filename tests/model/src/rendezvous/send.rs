//! `send` and `sendrec`.

use m3ipc_abi::{Address, Code, Message};

use super::machine::{Machine, State};
use super::op::{Completion, Fate, Limit};

impl Machine {
    /// The contract: the call returns once the receiver has taken the message. A dead receiver
    /// gives -109. Without time to wait, a receiver that does not wait now gives -11.
    pub(super) fn send(&mut self, me: Address, dst: Address, message: Message) {
        if let Err(code) = self.check_peer(me, dst, Code::DstDied) {
            return self.fail_unsent(me, code);
        }
        self.dispatch(me, dst, message, false);
    }

    /// The contract: a send, then a wait for the answer of `dst`. A dead server at entry gives
    /// -105. The time limit covers the whole call.
    pub(super) fn sendrec(&mut self, me: Address, dst: Address, message: Message) {
        if let Err(code) = self.check_peer(me, dst, Code::DeadSrcDst) {
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
        if self.deadlock(me, waiting) {
            return self.fail_unsent(me, Code::Locked);
        }
        self.living(me).state = waiting;
    }

    /// Goes on after a receiver took the message at once. A no-wait sendrec has no time left for
    /// the answer: -61, and the request was delivered.
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
