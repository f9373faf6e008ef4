//! `reply` and `relay`: a server ends its part in a client's call. Neither verb blocks.

use m3ipc_abi::{Address, Code, Message};

use super::machine::{Machine, State};
use super::op::{Completion, Fate, Source};

impl State {
    /// Whether the endpoint waits for exactly `server`: as its client, or in receive of it alone.
    fn waits_exactly_for(self, server: Address) -> bool {
        match self {
            Self::Awaiting { dst, .. } => dst == server,
            Self::Receiving { src, .. } => src == Source::From(server),
            Self::Running | Self::Sending { .. } | Self::AwaitingUnbind { .. } => false,
        }
    }
}

impl Machine {
    /// The contract: `dst` waits for exactly the caller, else -324.
    pub(super) fn reply(&mut self, me: Address, dst: Address, mut message: Message) {
        if let Err(code) = self.check_peer(me, dst, Code::DstDied) {
            return self.fail_unsent(me, code);
        }
        if !self.state_of(dst).waits_exactly_for(me) {
            return self.fail_unsent(me, Code::ProcSts);
        }
        message.source = me;
        self.hand_over(dst, message);
        self.end(Completion::done(me.slot()).with(Fate::Delivered));
    }

    /// The contract: the caller hands the client's request to `dst`, which then answers the client
    /// directly. The original message goes out in the client's name. The client's time limit goes
    /// on.
    ///
    /// The checks cover first the client, as in `reply`, then `dst`, as in `send`. The client as
    /// `dst` is itself (-306). If `dst` waits for the client, directly or along a chain, the relay
    /// would close a cycle: it fails with -101, and the client stays with the caller.
    pub(super) fn relay(&mut self, me: Address, client: Address, dst: Address) {
        let checked = self
            .check_peer(me, client, Code::DstDied)
            .and_then(|()| self.check_peer(me, dst, Code::DstDied))
            .and_then(|()| self.check_peer(client, dst, Code::DstDied));
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
            if self.deadlock(client, waiting) {
                return self.fail(me, Code::Locked);
            }
            self.living(client).state = waiting;
        }
        self.end(Completion::done(me.slot()));
    }
}
