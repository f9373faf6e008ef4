//! `notify` and `wakeup`, one bit each, and pulses, which queue. No verb here blocks.

use m3ipc_abi::{Address, Code, Message};

use super::machine::{Fault, Machine, State};
use super::op::{Completion, Source};
use super::receive::notification;

/// The pulses of one endpoint that wait for another one, at most.
pub const PULSES_MAX: usize = 16;

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

    /// The contract: a pulse waits until a receive takes it, in the order of the sender's pulses.
    /// One more than [`PULSES_MAX`] is an error of its sender (-11), and is never taken.
    pub(super) fn pulse(&mut self, me: Address, dst: Address, (code, value): (u8, u64)) {
        if let Err(code) = self.check_peer(me, dst, Code::DstDied) {
            return self.fail(me, code);
        }
        if self.state_of(dst).takes_notification(me) {
            self.hand_over(dst, Message::pulse(me, code, value, 1));
            return self.end(Completion::done(me.slot()));
        }
        let queue = self.living(dst).pulses.entry(me.slot()).or_default();
        if queue.len() < PULSES_MAX {
            queue.push_back((code, value));
        } else if self.fault != Fault::PulseLost {
            return self.fail(me, Code::Again);
        }
        self.end(Completion::done(me.slot()));
    }

    /// Takes the first pulse of a peer, if one waits.
    pub(super) fn take_pulse(&mut self, me: Address, source: Address) -> Option<Message> {
        let is_reversed = self.fault == Fault::PulsesReversed;
        let queue = self.living(me).pulses.get_mut(&source.slot())?;
        let pulse = if is_reversed { queue.pop_back() } else { queue.pop_front() };
        let (code, value) = pulse?;
        Some(Message::pulse(source, code, value, 1))
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
