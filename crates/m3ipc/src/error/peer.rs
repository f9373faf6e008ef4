//! Errors of operations with a peer. Each cause names the peer.

use super::Fail;
use super::text::{cause_doc, cause_text};
use core::fmt;
use m3ipc_abi::{Address, Code, LARGE_MAX_BYTES, Message};

/// Declares the error enums: `variant = code` rows, whose texts come from [`super::text`].
macro_rules! peer_errors {
    ($(
        $(#[$doc:meta])*
        $name:ident $(, long $long:ident)? $(, buffer $buffer:ident)? {
            $($case:ident = $code:ident,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = cause_doc!($case)] $case(Address),)*
            $(
                /// The payload is longer than a message can be.
                $long {
                    /// Length of the payload in bytes.
                    bytes: usize,
                    /// The limit in bytes.
                    max_bytes: usize,
                },
            )?
            $(
                /// The message was taken, and its payload is longer than the caller's buffer.
                $buffer {
                    /// The message without its payload. Its sender still waits for an answer
                    /// if it made a request.
                    message: Box<Message>,
                    /// Length of the payload in bytes.
                    needed_bytes: usize,
                    /// Length of the buffer in bytes.
                    buffer_bytes: usize,
                },
                /// The message was taken, and its payload is no record of the expected type.
                WrongSize {
                    /// The message without its payload.
                    message: Box<Message>,
                    /// Length of the payload in bytes.
                    found_bytes: usize,
                    /// Size of the record in bytes.
                    expected_bytes: usize,
                },
            )?
            /// The caller's endpoint is gone: it was unbound, its VM ended, or this process is a
            /// child by fork.
            Unbound(Code),
            /// The operating system or the node daemon refused a step.
            System {
                /// The code of the contract.
                code: Code,
                /// What happened.
                why: String,
            },
        }

        impl $name {
            /// The code of the C contract.
            #[must_use]
            pub fn code(&self) -> Code {
                match self {
                    $(Self::$case(_) => Code::$code,)*
                    $(Self::$long { .. } => Code::MsgSize,)?
                    $(Self::$buffer { .. } | Self::WrongSize { .. } => Code::MsgSize,)?
                    Self::Unbound(code) | Self::System { code, .. } => *code,
                }
            }

            pub(crate) fn of(fail: Fail, peer: Address) -> Self {
                match fail.code {
                    $(Code::$code => Self::$case(peer),)*
                    Code::NotBind | Code::Shutdown | Code::VmNotRun => Self::Unbound(fail.code),
                    code => Self::System { code, why: fail.why() },
                }
            }

            $(
                pub(crate) fn too_long(bytes: usize) -> Self {
                    Self::$long { bytes, max_bytes: LARGE_MAX_BYTES }
                }
            )?

            $(
                pub(crate) fn too_small(message: Message, needed: usize, buffer: usize) -> Self {
                    let message = Box::new(message);
                    Self::$buffer { message, needed_bytes: needed, buffer_bytes: buffer }
                }

                pub(crate) fn wrong_size(message: Message, found: usize, expected: usize) -> Self {
                    let message = Box::new(message);
                    Self::WrongSize { message, found_bytes: found, expected_bytes: expected }
                }
            )?
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$case(peer) => write!(f, cause_text!($case), peer),)*
                    $(
                        Self::$long { bytes, max_bytes } => write!(
                            f,
                            "a payload of {bytes} bytes is longer than a message can be \
                             ({max_bytes} bytes); split it, or send a block"
                        ),
                    )?
                    $(
                        Self::$buffer { message, needed_bytes, buffer_bytes } => write!(
                            f,
                            "endpoint {} sent {needed_bytes} bytes and the buffer holds \
                             {buffer_bytes}; use a call that returns bytes",
                            message.source
                        ),
                        Self::WrongSize { message, found_bytes, expected_bytes } => write!(
                            f,
                            "endpoint {} sent {found_bytes} bytes where a record of \
                             {expected_bytes} bytes was expected; use one layout on both sides",
                            message.source
                        ),
                    )?
                    Self::Unbound(code) => {
                        write!(f, "the caller's endpoint is gone ({code}); bind again")
                    }
                    Self::System { code, why } => write!(f, "{why} ({code})"),
                }
            }
        }

        impl std::error::Error for $name {}
    )*};
}

peer_errors! {
    /// Why a message was not sent. In every case the receiver did not take it.
    SendError, long TooLong {
        Died = DstDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        WouldBlock = Again,
        TimedOut = TimedOut,
        Interrupted = Intr,
        Deadlock = Locked,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why nothing was received.
    ReceiveError, buffer BufferTooSmall {
        Died = SrcDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        WouldBlock = Again,
        TimedOut = TimedOut,
        Interrupted = Intr,
        Woken = WokenUp,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why a request has no answer.
    SendRecError, long TooLong, buffer BufferTooSmall {
        Nobody = DeadSrcDst,
        DiedBefore = DstDied,
        DiedAfter = SrcDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        WouldBlock = Again,
        TimedOut = TimedOut,
        Interrupted = Intr,
        Deadlock = Locked,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why an answer was not given.
    ReplyError, long TooLong {
        NotWaiting = ProcSts,
        Died = DstDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why a notification was not given.
    NotifyError {
        Died = DstDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why a copy stopped. [`Endpoint::copied`](crate::Endpoint::copied) has the bytes before that.
    CopyError {
        NotBlocked = ProcSts,
        Busy = Busy,
        SourceDied = SrcDied,
        DestinationDied = DstDied,
        Stale = Endpoint,
        OutOfRange = Range,
        BadAddress = AddrNotAvail,
        NotGranted = Perm,
        VerbDenied = TrapDenied,
        TimedOut = TimedOut,
        Interrupted = Intr,
        PeerBroke = PeerBroke,
    }

    /// Why an endpoint was not bound. The address in a variant is the slot.
    BindError {
        Taken = SlotUsed,
        NoSuchSlot = Range,
        Denied = Privileges,
        ProcessUnbound = GrpLeader,
    }

    /// Why a wait for a name, a bind or an unbind ended.
    WaitError {
        NotBound = BadProc,
        Stale = Endpoint,
        NoSuchSlot = Range,
        TimedOut = TimedOut,
        Interrupted = Intr,
    }

    /// Why a wakeup ended no receive.
    WakeupError {
        WasRunning = ProcRun,
        WasBusy = ProcSts,
        NotBound = BadProc,
        Stale = Endpoint,
        NoSuchSlot = Range,
        Denied = Privileges,
    }

    /// Why an endpoint was not unbound.
    UnbindError {
        NotBound = BadProc,
        Stale = Endpoint,
        NoSuchSlot = Range,
        Denied = Privileges,
        TimedOut = TimedOut,
        Interrupted = Intr,
    }
}

/// Why memory was not granted, or a grant not revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The endpoint has as many grants as it may have.
    #[error("the endpoint has {0} grants already; revoke some")]
    TooMany(usize),
    /// The grant does not exist, or exists no longer.
    #[error("there is no such grant; it was revoked before")]
    Unknown,
}

impl GrantError {
    /// The code of the C contract.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::TooMany(_) => Code::NoMem,
            Self::Unknown => Code::BadValue,
        }
    }
}
