//! Errors: one small enum per operation; what each means in the contract is [`code`](SendError::code).

use m3ipc_abi::{Address, Code};

/// Why an operation failed, before it is told as the operation's own error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) code: Code,
    /// What happened, where the code does not say it all; boxed, since results pass through hot paths.
    pub(crate) why: Option<Box<str>>,
}

impl Fail {
    pub(crate) fn new(code: Code, why: impl Into<String>) -> Self {
        Self { code, why: Some(why.into().into_boxed_str()) }
    }

    /// What happened; the code's own words where there are no others.
    pub(crate) fn why(self) -> String {
        self.why.map_or_else(|| self.code.text().to_owned(), String::from)
    }
}

impl From<Code> for Fail {
    fn from(code: Code) -> Self {
        Self { code, why: None }
    }
}

impl From<m3ipc_sys::Errno> for Fail {
    fn from(errno: m3ipc_sys::Errno) -> Self {
        let code = match errno {
            m3ipc_sys::Errno::INTR => Code::Intr,
            m3ipc_sys::Errno::PERM | m3ipc_sys::Errno::ACCESS => Code::Perm,
            _ => Code::NoMem,
        };
        Self::new(code, errno.to_string())
    }
}

/// Declares the error of one operation: its own cases, and all others with their code.
macro_rules! operation_errors {
    ($($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $code:ident : $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$case_doc])* #[error($text)] $case(Address),)*
            /// The caller's endpoint is gone: unbound by another, its VM ended, or this is a child by fork.
            #[error("this endpoint is gone ({0}); bind again")]
            Unbound(Code),
            /// The system or the node daemon refused something; the code says which.
            #[error("{why} ({code})")]
            System {
                /// The code of the contract.
                code: Code,
                /// What happened.
                why: String,
            },
        }

        impl $name {
            /// The code of the contract.
            #[must_use]
            pub fn code(&self) -> Code {
                match self {
                    $(Self::$case(_) => Code::$code,)*
                    Self::Unbound(code) | Self::System { code, .. } => *code,
                }
            }

            pub(crate) fn of(fail: Fail, peer: Address) -> Self {
                match fail.code {
                    $(Code::$code => Self::$case(peer),)*
                    Code::NotBind | Code::Shutdown | Code::VmNotRun => Self::Unbound(fail.code),
                    code => Self::System {
                        code,
                        why: fail.why(),
                    },
                }
            }
        }
    )*};
}

operation_errors! {
    /// Why a message was not sent.
    SendError {
        /// It died, or had died, before it took the message.
        Died = DstDied: "endpoint {0} died; the message was not taken",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more); look its name up again",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// It is not waiting, and the caller would not wait.
        WouldBlock = Again: "endpoint {0} is not receiving",
        /// The time limit passed; the message was withdrawn.
        TimedOut = TimedOut: "the time limit passed before endpoint {0} took the message",
        /// A signal was handled; the message was withdrawn.
        Interrupted = Intr: "a signal ended the call; endpoint {0} has not got the message",
        /// Waiting for it would close a circle.
        Deadlock = Locked: "endpoint {0} waits, itself or through others, for the caller",
        /// Privileges do not allow this partner.
        Denied = CallDenied: "privileges do not allow to send to endpoint {0}",
        /// Privileges do not allow this call.
        CallDenied = TrapDenied: "privileges do not allow the caller to send (to {0})",
        /// It broke the link's rules; nothing more can be said over it.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the link; the link is closed",
        /// The long payload is longer than any can be.
        TooLong = MsgSize: "the payload for endpoint {0} is longer than a message can be (1 GiB)",
    }

    /// Why nothing was received.
    ReceiveError {
        /// The source died, or had died.
        Died = SrcDied: "endpoint {0} died",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more); look its name up again",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// Nothing is there, and the caller would not wait.
        WouldBlock = Again: "there is no message from {0}",
        /// The time limit passed.
        TimedOut = TimedOut: "the time limit passed without a message from {0}",
        /// A signal was handled; no message was taken.
        Interrupted = Intr: "a signal ended the waiting for {0}",
        /// Another ended the waiting by wakeup.
        Woken = WokenUp: "the waiting for {0} was ended by a wakeup",
        /// Privileges do not allow this call.
        CallDenied = TrapDenied: "privileges do not allow the caller to receive (from {0})",
        /// It broke the link's rules; nothing more can be said over it.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the link; the link is closed",
    }

    /// Why a request was not answered.
    SendRecError {
        /// Nobody lived there when the call began.
        Nobody = DeadSrcDst: "nobody lives at {0}",
        /// It died before it took the request.
        DiedBefore = DstDied: "endpoint {0} died; the request was not taken",
        /// It died after it took the request, before it answered.
        DiedAfter = SrcDied: "endpoint {0} died after it took the request",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more); look its name up again",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// It is not waiting, and the caller would not wait.
        WouldBlock = Again: "endpoint {0} is not receiving",
        /// The time limit passed; no answer will come.
        TimedOut = TimedOut: "the time limit passed before endpoint {0} answered",
        /// A signal was handled; the request was withdrawn, or its answer given up.
        Interrupted = Intr: "a signal ended the call to endpoint {0}",
        /// Waiting for it would close a circle.
        Deadlock = Locked: "endpoint {0} waits, itself or through others, for the caller",
        /// Privileges do not allow this partner.
        Denied = CallDenied: "privileges do not allow to call endpoint {0}",
        /// Privileges do not allow this call.
        CallDenied = TrapDenied: "privileges do not allow the caller to sendrec (to {0})",
        /// It broke the link's rules; nothing more can be said over it.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the link; the link is closed",
        /// The long payload is longer than any can be.
        TooLong = MsgSize: "the payload for endpoint {0} is longer than a message can be (1 GiB)",
    }

    /// Why an answer was not given.
    ReplyError {
        /// It does not wait for the caller (any more).
        NotWaiting = ProcSts: "endpoint {0} does not wait for an answer from here",
        /// It died, or had died.
        Died = DstDied: "endpoint {0} died",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more)",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// Privileges do not allow this partner.
        Denied = CallDenied: "privileges do not allow to answer endpoint {0}",
        /// Privileges do not allow this call.
        CallDenied = TrapDenied: "privileges do not allow the caller to answer (to {0})",
        /// It broke the link's rules; nothing more can be said over it.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the link; the link is closed",
        /// The long payload is longer than any can be.
        TooLong = MsgSize: "the payload for endpoint {0} is longer than a message can be (1 GiB)",
    }

    /// Why a notification was not given.
    NotifyError {
        /// It died, or had died.
        Died = DstDied: "endpoint {0} died",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more); look its name up again",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// Privileges do not allow this partner.
        Denied = CallDenied: "privileges do not allow to notify endpoint {0}",
        /// Privileges do not allow this call.
        CallDenied = TrapDenied: "privileges do not allow the caller to notify (to {0})",
        /// It broke the link's rules; nothing more can be said over it.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the link; the link is closed",
    }

    /// Why not all was copied; [`Endpoint::copied`](crate::Endpoint::copied) tells how much was.
    CopyError {
        /// It is in no receive and no sendrec: its memory is its own.
        NotBlocked = ProcSts: "endpoint {0} is in no receive and no sendrec; its memory cannot be copied now",
        /// It is in another copy.
        Busy = Busy: "endpoint {0} is in another copy",
        /// The source died, or had died.
        SourceDied = SrcDied: "endpoint {0}, the source, died",
        /// The destination died, or had died.
        DestinationDied = DstDied: "endpoint {0}, the destination, died",
        /// The address is one of an earlier life of its slot, ANY or NONE, or that of the other side.
        Stale = Endpoint: "{0} is no endpoint that can be copied with; look its name up again",
        /// The VM has no such slot, or the grant is shorter.
        OutOfRange = Range: "the VM has no slot for {0}, or what it granted is shorter",
        /// There is no memory at an address, of the caller or of a party, or it may not be used so.
        BadAddress = AddrNotAvail: "there is no memory to copy at an address (with endpoint {0})",
        /// The party has neither lent nor granted that memory to the caller.
        NotGranted = Perm: "endpoint {0} has not lent or granted that memory to the caller",
        /// The party made no progress, or the time limit passed.
        TimedOut = TimedOut: "endpoint {0} made no progress with the copy, or the time limit passed",
        /// A signal was handled.
        Interrupted = Intr: "a signal ended the copy with endpoint {0}",
        /// It broke the rules of the window.
        PeerBroke = PeerBroke: "endpoint {0} broke the rules of the copy",
    }

    /// Why an endpoint was not bound.
    BindError {
        /// Another holds the slot, or the caller is bound already.
        Taken = SlotUsed: "slot {0} is taken, or the caller is bound already",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot {0}",
        /// The VM's mode does not allow it.
        Denied = Privileges: "the VM's mode does not allow this user to take slot {0}; see `m3 vm info`",
        /// A thread binds only where its process is bound.
        ProcessUnbound = GrpLeader: "the thread's process is not bound in this VM (slot {0})",
    }

    /// Why the daemon did not do what it was asked about an endpoint.
    CallError {
        /// The endpoint is not bound.
        NotBound = BadProc: "no process is bound there ({0})",
        /// The address is one of an earlier life of its slot, or the caller's own.
        Stale = Endpoint: "{0} is no endpoint that lives (any more)",
        /// The VM has no such slot.
        NoSuchSlot = Range: "the VM has no slot for {0}",
        /// The time limit passed.
        TimedOut = TimedOut: "the time limit passed",
        /// A signal was handled.
        Interrupted = Intr: "a signal ended the waiting",
        /// The caller may not.
        Denied = Privileges: "the caller may not do this to endpoint {0}",
        /// It was running: the wakeup is remembered.
        WasRunning = ProcRun: "endpoint {0} was running; the wakeup is remembered",
        /// It waited for something else: the wakeup is remembered.
        WasBusy = ProcSts: "endpoint {0} waits for something else; the wakeup is remembered",
    }
}

/// Why memory was not granted, or a grant not revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The endpoint has as many as it may have.
    #[error("the endpoint has 65,536 grants already; revoke some")]
    TooMany,
    /// There is no such grant (any more).
    #[error("there is no such grant; it was revoked before")]
    Unknown,
}

impl GrantError {
    /// The code of the contract.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::TooMany => Code::NoMem,
            Self::Unknown => Code::BadValue,
        }
    }
}

/// Why the node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({code})")]
pub struct NodeError {
    /// The code of the contract.
    pub code: Code,
    /// What happened, why, and what to do next.
    pub why: String,
}

impl From<Fail> for NodeError {
    fn from(fail: Fail) -> Self {
        Self { code: fail.code, why: fail.why() }
    }
}
