//! The steps of a VM, and the ends of calls.

use m3ipc_abi::{Address, Code, Message, Slot};

/// How long a call may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Not at all: -11 if it would block.
    NoWait,
    /// Until [`Op::Expire`].
    Bounded,
    /// Without end.
    Forever,
}

/// The wanted source of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any endpoint.
    Any,
    /// This endpoint only.
    From(Address),
}

/// A call of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `send`.
    Send {
        /// The receiver.
        dst: Address,
        /// The message.
        message: Message,
    },
    /// `receive`.
    Receive {
        /// The wanted source.
        src: Source,
    },
    /// `sendrec`.
    Sendrec {
        /// The server: receiver of the request and sender of the answer.
        dst: Address,
        /// The request.
        message: Message,
    },
    /// `rcvrqst`.
    Rcvrqst,
    /// `notify`.
    Notify {
        /// The destination.
        dst: Address,
    },
    /// A pulse.
    Pulse {
        /// The destination.
        dst: Address,
        /// Its code and its value.
        pulse: (u8, u64),
    },
    /// `reply`.
    Reply {
        /// The client.
        dst: Address,
        /// The answer.
        message: Message,
    },
    /// `relay`.
    Relay {
        /// The client whose request moves.
        client: Address,
        /// The next server.
        dst: Address,
    },
    /// `wakeup`.
    Wakeup {
        /// The endpoint whose receive(ANY) ends.
        dst: Address,
    },
    /// `wait4unbind`.
    AwaitUnbind {
        /// The endpoint that has to end.
        dst: Address,
    },
}

/// One step of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A process binds this slot. A slot out of range or taken: no effect.
    Bind(Slot),
    /// Another endpoint unbinds the endpoint: its blocked call ends with -65, then it dies.
    Unbind(Slot),
    /// An endpoint dies, or unbinds itself: its blocked call never returns.
    Kill(Slot),
    /// An endpoint makes a call.
    Call {
        /// The caller's slot.
        who: Slot,
        /// The call.
        call: Call,
        /// The time limit; calls that never block ignore it.
        limit: Limit,
    },
    /// The time limit of a blocked [`Limit::Bounded`] call passes.
    Expire(Slot),
    /// A signal handler runs in a blocked endpoint.
    Signal(Slot),
}

/// The fate of a call's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A receiver took it (of a relayed request: the first server).
    Delivered,
    /// No receiver took it, and none will.
    Withdrawn,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's slot.
    pub who: Slot,
    /// A message (receive, sendrec), nothing (other calls), or a code.
    pub result: Result<Option<Message>, Code>,
    /// The fate of the message of a send, sendrec or reply.
    pub fate: Option<Fate>,
}

impl Completion {
    pub(super) const fn error(who: Slot, code: Code) -> Self {
        Self { who, result: Err(code), fate: None }
    }

    pub(super) const fn done(who: Slot) -> Self {
        Self { who, result: Ok(None), fate: None }
    }

    pub(super) const fn with(mut self, fate: Fate) -> Self {
        self.fate = Some(fate);
        self
    }
}
