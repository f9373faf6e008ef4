//! Errors of operations with a peer. Each cause names the peer.

use super::Fail;
use super::fail::too_long_text;
use super::text::{cause_doc, cause_text, lost_text, readable, unbound_text};
use core::fmt;
use m3ipc_abi::{Address, Code, LARGE_MAX_BYTES, Message};
use m3ipc_link::ends::Delivery;

/// Declares the error enums: `variant = code` rows, whose texts come from [`super::text`]. The rows
/// of `lost` have the sentence that says why. Those of `after` stand for a code of a message that
/// was taken.
macro_rules! peer_errors {
    ($(
        $(#[$doc:meta])*
        $name:ident $(, long $long:ident)? $(, buffer $buffer:ident)? {
            $($case:ident = $code:ident,)*
            $(@lost { $($lost:ident = $lost_code:ident,)* })?
            $(@after { $($after:ident = $after_code:ident,)* })?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = cause_doc!($case)] $case(Address),)*
            $($(
                #[doc = cause_doc!($lost)]
                $lost {
                    /// The peer.
                    peer: Address,
                    /// What happened, why, and what to do next.
                    why: String,
                },
            )*)?
            $($(#[doc = cause_doc!($after)] $after(Address),)*)?
            $(
                /// The payload is longer than its receiver takes, or than a message can be.
                $long {
                    /// Length of the payload in bytes.
                    bytes: usize,
                    /// The limit in bytes: the [receive limit] of the receiver, or
                    /// [`LARGE_MAX_BYTES`].
                    ///
                    /// [receive limit]: crate::Endpoint::set_receive_limit
                    max_bytes: usize,
                },
            )?
            $(
                /// The message was taken, and its payload is longer than the caller's buffer. The
                /// rest of the payload is gone.
                $buffer {
                    /// The message without its payload.
                    message: Box<Message>,
                    /// Length of the payload in bytes.
                    needed_bytes: usize,
                    /// Length of the buffer in bytes. The front of the payload fills the buffer.
                    buffer_bytes: usize,
                    /// Whether the sender of the message waits for an answer.
                    is_request: bool,
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

        impl crate::error::ErrorNumber for $name {
            fn number(&self) -> i32 {
                self.code().number()
            }
        }

        impl $name {
            /// The code of the C contract. The example is at [`Self`].
            #[must_use]
            pub fn code(&self) -> Code {
                match self {
                    $(Self::$case(_) => Code::$code,)*
                    $($(Self::$lost { .. } => Code::$lost_code,)*)?
                    $($(Self::$after(_) => Code::$after_code,)*)?
                    $(Self::$long { .. } => Code::MsgSize,)?
                    $(Self::$buffer { .. } | Self::WrongSize { .. } => Code::MsgSize,)?
                    Self::Unbound(code) | Self::System { code, .. } => *code,
                }
            }

            // Some operations have a case of their own for `NotBind`: the other endpoint is gone.
            #[allow(unreachable_patterns)]
            pub(crate) fn of(fail: Fail, peer: Address) -> Self {
                $(
                    if let Some((bytes, max_bytes)) = fail.lengths() {
                        return Self::$long { bytes, max_bytes };
                    }
                )?
                match fail.code {
                    $($(
                        Code::$after_code if fail.delivery() == Delivery::Taken => {
                            Self::$after(peer)
                        }
                    )*)?
                    $(Code::$code => Self::$case(peer),)*
                    $($(Code::$lost_code => Self::$lost { peer, why: why_lost(fail, peer) },)*)?
                    Code::NotBind | Code::Shutdown | Code::VmNotRun => Self::Unbound(fail.code),
                    code => Self::System { code, why: why_lost(fail, peer) },
                }
            }

            $(
                pub(crate) fn too_long(bytes: usize) -> Self {
                    Self::$long { bytes, max_bytes: LARGE_MAX_BYTES }
                }
            )?

            $(
                pub(crate) fn too_small(
                    message: Message,
                    needed_bytes: usize,
                    buffer_bytes: usize,
                    is_request: bool,
                ) -> Self {
                    let message = Box::new(message);
                    Self::$buffer { message, needed_bytes, buffer_bytes, is_request }
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
                    $(Self::$case(peer) => {
                        f.write_str(&readable(&format!(cause_text!($case), peer)))
                    })*
                    $($(Self::$lost { why, .. } => write!(f, "{why} ({})", self.code()),)*)?
                    $($(Self::$after(peer) => {
                        f.write_str(&readable(&format!(cause_text!($after), peer)))
                    })*)?
                    $(
                        Self::$long { bytes, max_bytes } => {
                            f.write_str(&too_long_text(*bytes, *max_bytes))
                        }
                    )?
                    $(
                        Self::$buffer { message, needed_bytes, buffer_bytes, .. } => write!(
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
                    Self::Unbound(code) => f.write_str(&unbound_text(*code)),
                    Self::System { code, why } => write!(f, "{why} ({code})"),
                }
            }
        }

        impl std::error::Error for $name {}
    )*};
}

/// What happened: the details of a failure, or else that the node of the peer is lost.
fn why_lost(fail: Fail, peer: Address) -> String {
    let lost = (!fail.has_details()).then(|| lost_text(fail.code, peer));
    lost.flatten().unwrap_or_else(|| fail.why())
}

impl SendError {
    /// Whether the receiver has taken the message, as far as anybody knows.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Delivery, Message};
    ///
    /// let busy = client.try_send(server.address(), &Message::new(7));
    /// assert_eq!(busy.expect_err("nobody receives").delivery(), Delivery::NotTaken);
    /// ```
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::PeerBroke(_) | Self::Unknown { .. } | Self::Unbound(_) => Delivery::Unknown,
            _ => Delivery::NotTaken,
        }
    }
}

impl SendRecError {
    /// Whether the server has taken the request, as far as anybody knows: after a relay, the server
    /// to which the request was handed.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Delivery, Message};
    ///
    /// let limit = std::time::Duration::from_millis(1);
    /// let late = client.sendrec_timeout(server.address(), &Message::new(7), limit);
    /// assert_eq!(late.expect_err("nobody receives").delivery(), Delivery::NotTaken);
    /// ```
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::DiedAfter(_)
            | Self::TimedOutAfter(_)
            | Self::InterruptedAfter(_)
            | Self::AnswerLost { .. }
            | Self::BufferTooSmall { .. }
            | Self::WrongSize { .. } => Delivery::Taken,
            Self::PeerBroke(_) | Self::Unknown { .. } | Self::Unbound(_) => Delivery::Unknown,
            Self::Nobody(_)
            | Self::DiedBefore(_)
            | Self::Moved(_)
            | Self::Stale(_)
            | Self::NoSuchSlot(_)
            | Self::WouldBlock(_)
            | Self::TimedOut(_)
            | Self::Interrupted(_)
            | Self::Deadlock(_)
            | Self::PartnerDenied(_)
            | Self::VerbDenied(_)
            | Self::RequestPending(_)
            | Self::Unreachable { .. }
            | Self::System { .. }
            | Self::TooLong { .. } => Delivery::NotTaken,
        }
    }
}

peer_errors! {
    /// Why a message was not sent. [`delivery`](Self::delivery) says what is known of it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Code, Message, SendError};
    ///
    /// match client.try_send(to, &Message::new(7)) {
    ///     Err(error @ SendError::WouldBlock(peer)) => {
    ///         assert_eq!((peer, error.code()), (to, Code::Again));
    ///     }
    ///     other => panic!("the server does not receive: {other:?}"),
    /// }
    /// ```
    SendError, long TooLong {
        Died = DstDied,
        Moved = Migrate,
        Stale = Endpoint,
        NoSuchSlot = Range,
        WouldBlock = Again,
        TimedOut = TimedOut,
        Interrupted = Intr,
        Deadlock = Locked,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        RequestPending = Busy,
        PeerBroke = PeerBroke,
        @lost {
            Unreachable = NotConn,
            Unknown = Unknown,
        }
    }

    /// Why nothing was received.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, ReceiveError, Source};
    ///
    /// match server.try_receive(Source::From(client.address())) {
    ///     Err(error @ ReceiveError::WouldBlock(peer)) => {
    ///         assert_eq!((peer, error.code()), (client.address(), Code::Again));
    ///     }
    ///     other => panic!("the client has sent nothing: {other:?}"),
    /// }
    /// ```
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

    /// Why a request has no answer. [`delivery`](Self::delivery) says whether the server has taken
    /// it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let worker = node.vm().bind_additional(Some(3))?;
    /// # let to = worker.address();
    /// # drop(worker);
    /// use m3ipc::{Code, Message, SendRecError};
    ///
    /// match client.sendrec(to, &Message::new(7)) {
    ///     Ok(answer) => println!("{answer:?}"),
    ///     Err(SendRecError::DiedAfter(_)) => println!("the server may have done it"),
    ///     Err(error @ SendRecError::Nobody(_)) => assert_eq!(error.code(), Code::DeadSrcDst),
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    SendRecError, long TooLong, buffer BufferTooSmall {
        Nobody = DeadSrcDst,
        DiedBefore = DstDied,
        DiedAfter = SrcDied,
        Moved = Migrate,
        Stale = Endpoint,
        NoSuchSlot = Range,
        WouldBlock = Again,
        TimedOut = TimedOut,
        Interrupted = Intr,
        Deadlock = Locked,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        RequestPending = Busy,
        PeerBroke = PeerBroke,
        @lost {
            Unreachable = NotConn,
            AnswerLost = AnswerLost,
            Unknown = Unknown,
        }
        @after {
            TimedOutAfter = TimedOut,
            InterruptedAfter = Intr,
        }
    }

    /// Why an answer was not given. The end of its client is no error of a server: see
    /// [`Delivered`](crate::Delivered).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, Delivered, Message, ReplyError};
    ///
    /// match server.reply(client.address(), &Message::new(0))? {
    ///     Delivered::No(why @ ReplyError::NotWaiting(_)) => assert_eq!(why.code(), Code::ProcSts),
    ///     other => panic!("the client has asked nothing: {other:?}"),
    /// }
    /// # Ok::<(), ReplyError>(())
    /// ```
    ReplyError, long TooLong {
        NotWaiting = ProcSts,
        Died = DstDied,
        Moved = Migrate,
        Stale = Endpoint,
        NoSuchSlot = Range,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        RequestPending = Busy,
        PeerBroke = PeerBroke,
    }

    /// Why a notification was not given.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let worker = node.vm().bind_additional(Some(3))?;
    /// # let to = worker.address();
    /// # drop(worker);
    /// use m3ipc::{Code, NotifyError};
    ///
    /// match client.notify(to) {
    ///     Err(error @ NotifyError::Died(_)) => assert_eq!(error.code(), Code::DstDied),
    ///     other => panic!("no endpoint is there: {other:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    NotifyError {
        Died = DstDied,
        Moved = Migrate,
        Stale = Endpoint,
        NoSuchSlot = Range,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why a pulse was not queued. The receiver gets nothing of it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Code, PULSES_MAX, Pulse, PulseError};
    ///
    /// for value in 0..PULSES_MAX as u64 {
    ///     client.pulse(to, Pulse { code: 1, value })?;
    /// }
    /// match client.pulse(to, Pulse { code: 1, value: 100 }) {
    ///     Err(error @ PulseError::NotQueued(_)) => assert_eq!(error.code(), Code::Again),
    ///     other => panic!("the queue is full: {other:?}"),
    /// }
    /// # Ok::<(), PulseError>(())
    /// ```
    PulseError {
        NotQueued = Again,
        Died = DstDied,
        Moved = Migrate,
        Stale = Endpoint,
        NoSuchSlot = Range,
        PartnerDenied = CallDenied,
        VerbDenied = TrapDenied,
        PeerBroke = PeerBroke,
    }

    /// Why a copy stopped. [`Endpoint::copied`](crate::Endpoint::copied) has the bytes before that.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, CopyError};
    ///
    /// match server.copy_to(client.address(), 0x1000, b"text") {
    ///     Err(error @ CopyError::NotBlocked(_)) => assert_eq!(error.code(), Code::ProcSts),
    ///     other => panic!("the client does not wait: {other:?}"),
    /// }
    /// ```
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
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{BindError, Code};
    ///
    /// match node.vm().bind_additional(Some(1)) {
    ///     Err(error @ BindError::Taken(slot)) => {
    ///         assert_eq!((slot.slot(), error.code()), (1, Code::SlotUsed));
    ///     }
    ///     other => panic!("the server has the slot: {other:?}"),
    /// }
    /// ```
    BindError {
        Taken = SlotUsed,
        NoSuchSlot = Range,
        Denied = Privileges,
        ProcessUnbound = GrpLeader,
    }

    /// Why a wait for a name, a bind or an unbind ended.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, WaitError};
    ///
    /// match client.wait_name("stock", std::time::Duration::from_millis(1)) {
    ///     Err(error @ WaitError::TimedOut(_)) => assert_eq!(error.code(), Code::TimedOut),
    ///     other => panic!("no endpoint has the name: {other:?}"),
    /// }
    /// ```
    WaitError {
        NotBound = BadProc,
        Stale = Endpoint,
        NoSuchSlot = Range,
        TimedOut = TimedOut,
        Interrupted = Intr,
    }

    /// Why an endpoint is not watched.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let worker = node.vm().bind_additional(Some(3))?;
    /// # let address = worker.address();
    /// # drop(worker);
    /// use m3ipc::{Code, WatchError};
    ///
    /// match client.watch(address) {
    ///     Err(error @ WatchError::Died(_)) => assert_eq!(error.code(), Code::DstDied),
    ///     other => panic!("the endpoint has left: {other:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WatchError {
        Died = DstDied,
        Stale = Endpoint,
        NoSuchSlot = Range,
        Interrupted = Intr,
    }

    /// Why a wakeup ended no receive.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, WakeupError};
    ///
    /// match client.wakeup(server.address()) {
    ///     Err(error @ WakeupError::WasRunning(_)) => assert_eq!(error.code(), Code::ProcRun),
    ///     other => panic!("the server does not receive: {other:?}"),
    /// }
    /// ```
    WakeupError {
        WasRunning = ProcRun,
        WasBusy = ProcSts,
        NotBound = NotBind,
        Stale = Endpoint,
        NoSuchSlot = Range,
        Denied = Privileges,
    }

    /// Why an endpoint was not unbound.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let worker = node.vm().bind_additional(Some(3))?;
    /// # let address = worker.address();
    /// # drop(worker);
    /// use m3ipc::{Code, UnbindError};
    ///
    /// match client.unbind_other(address) {
    ///     Err(error @ UnbindError::NotBound(_)) => assert_eq!(error.code(), Code::NotBind),
    ///     other => panic!("the endpoint has left: {other:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    UnbindError {
        NotBound = NotBind,
        Stale = Endpoint,
        NoSuchSlot = Range,
        Denied = Privileges,
        TimedOut = TimedOut,
        Interrupted = Intr,
    }
}
