//! reply and relay: how a server lets go of a client. Neither ever blocks.

use m3ipc_abi::{Address, Code, Message};

use super::machine::{Machine, State};
use super::op::{Completion, Fate, Source};

impl State {
    /// Whether this is a wait for exactly `server`: its client, or in receive of it alone.
    fn waits_exactly_for(self, server: Address) -> bool {
        match self {
            Self::Awaiting { dst, .. } => dst == server,
            Self::Receiving { src, .. } => src == Source::From(server),
            Self::Running | Self::Sending { .. } | Self::AwaitingUnbind { .. } => false,
        }
    }
}

impl Machine {
    /// The contract: dst must wait for exactly me; -324 otherwise.
    pub(super) fn reply(&mut self, me: Address, dst: Address, mut message: Message) {
        if let Err(code) = self.peer(me, dst, Code::DstDied) {
            return self.fail_unsent(me, code);
        }
        if !self.state_of(dst).waits_exactly_for(me) {
            return self.fail_unsent(me, Code::ProcSts);
        }
        message.source = me;
        self.hand_over(dst, message);
        self.end(Completion::done(me.slot()).with(Fate::Delivered));
    }

    /// The contract: hands the request I hold to dst, which then answers the
    /// first client directly. The client's original message goes out in the
    /// client's name; the client's time limit goes on.
    ///
    /// Client and dst are checked in this order, each as by reply and send; the
    /// client as dst is itself (-306); where dst waits for the client, directly
    /// or along a chain, the relay closes the circle (-101) and the client stays mine.
    pub(super) fn relay(&mut self, me: Address, client: Address, dst: Address) {
        let checked = self
            .peer(me, client, Code::DstDied)
            .and_then(|()| self.peer(me, dst, Code::DstDied))
            .and_then(|()| self.peer(client, dst, Code::DstDied));
        if let Err(code) = checked {
            return self.fail(me, code);
        }
        let State::Awaiting { dst: server, request, .. } = self.state_of(client) else {
            return self.fail(me, Code::ProcSts);
        };
        if server != me {
            return self.fail(me, Code::ProcSts);
        }
        let stamp = self.now();
        if self.state_of(dst).takes_message(client, true) {
            self.hand_over(dst, request);
            self.living(client).state = State::Awaiting { dst, request, stamp };
        } else {
            let waiting =
                State::Sending { dst, message: request, sendrec: true, relayed: true, stamp };
            if self.closes_cycle(client, waiting).is_some() {
                return self.fail(me, Code::Locked);
            }
            self.living(client).state = waiting;
        }
        self.end(Completion::done(me.slot()));
    }
}
