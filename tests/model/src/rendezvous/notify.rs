//! `notify` and `wakeup`: one bit each. Neither verb blocks.

use m3ipc_abi::{Address, Code};

use super::machine::{Machine, State};
use super::op::{Completion, Source};
use super::receive::notification;

impl Machine {
    /// The contract: one bit per source, remembered until the next receive; repeats coalesce.
    pub(super) fn notify(&mut self, me: Address, dst: Address) {
        if let Err(code) = self.check_peer(me, dst, Code::DstDied) {
            return self.fail(me, code);
        }
        if self.state_of(dst).takes_notification(me) {
            self.hand_over(dst, notification(me));
        } else {
            self.living(dst).notified.insert(me.slot());
        }
        self.end(Completion::done(me.slot()));
    }

    /// The contract: ends the receive(ANY) or rcvrqst of another endpoint. In other states the
    /// wakeup is remembered: -320 for a running endpoint, -324 for one in another call.
    pub(super) fn wakeup(&mut self, me: Address, dst: Address) {
        if let Err(code) = self.check_peer(me, dst, Code::DstDied) {
            return self.fail(me, code);
        }
        let code = match self.state_of(dst) {
            State::Receiving { src: Source::Any, .. } => {
                self.living(dst).state = State::Running;
                self.fail(dst, Code::WokenUp);
                return self.end(Completion::done(me.slot()));
            }
            State::Running => Code::ProcRun,
            _ => Code::ProcSts,
        };
        self.living(dst).woken = true;
        self.fail(me, code);
    }
}
