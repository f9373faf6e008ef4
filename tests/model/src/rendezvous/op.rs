//! What can happen in a VM, and how calls end.

use m3ipc_abi::{Address, Code, Message, Slot};

/// How long a call may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Not at all: -11 where it would.
    NoWait,
    /// Until [`Op::Expire`].
    Bounded,
    /// For ever.
    Forever,
}

/// Whom to receive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Whomever.
    Any,
    /// This endpoint only.
    From(Address),
}

/// A call of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// send.
    Send {
        /// To whom.
        dst: Address,
        /// What.
        message: Message,
    },
    /// receive.
    Receive {
        /// From whom.
        src: Source,
    },
    /// sendrec.
    Sendrec {
        /// To whom, and from whom the answer is to come.
        dst: Address,
        /// The request.
        message: Message,
    },
    /// rcvrqst.
    Rcvrqst,
    /// notify.
    Notify {
        /// Whom.
        dst: Address,
    },
    /// reply.
    Reply {
        /// To which client.
        dst: Address,
        /// The answer.
        message: Message,
    },
    /// relay.
    Relay {
        /// Whose request.
        client: Address,
        /// To whom.
        dst: Address,
    },
    /// wakeup.
    Wakeup {
        /// Whose receive(ANY) to end.
        dst: Address,
    },
    /// wait4unbind.
    AwaitUnbind {
        /// Whose end to wait for.
        dst: Address,
    },
}

/// One step of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A process binds this slot (of those in range; nothing where it is taken).
    Bind(Slot),
    /// An endpoint is unbound by another: its blocked call, if any, ends with -65, then it dies.
    Unbind(Slot),
    /// An endpoint dies, or unbinds itself: its blocked call never returns.
    Kill(Slot),
    /// An endpoint calls.
    Call {
        /// The caller's slot.
        who: Slot,
        /// What it calls.
        call: Call,
        /// How long it may take; of no meaning to calls that never block.
        limit: Limit,
    },
    /// The time limit of a blocked [`Limit::Bounded`] call is over.
    Expire(Slot),
    /// A signal handler ran in a blocked endpoint.
    Signal(Slot),
}

/// What became of the message that a call carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Somebody took it (of a relayed request: the first server did).
    Delivered,
    /// Nobody took it, and nobody will.
    Withdrawn,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whose call.
    pub who: Slot,
    /// The message it got (receive, sendrec), nothing (the others), or a code.
    pub result: Result<Option<Message>, Code>,
    /// Of send, sendrec and reply: what became of their message.
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
