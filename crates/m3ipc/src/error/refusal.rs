//! Errors of operations that the node daemon decides. Each cause carries the daemon's reason.

use super::Fail;
use core::fmt;
use m3ipc_abi::Code;

/// The reason for a refusal: the code of the contract and the text for a person. The example is at
/// [`NodeError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: Code,
    why: String,
}

impl Refusal {
    /// The code of the C contract. The example is at [`NodeError`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened, why, and what to do next. The example is at [`NodeError`].
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.why, self.code)
    }
}

impl From<Fail> for Refusal {
    fn from(fail: Fail) -> Self {
        Self { code: fail.code, why: fail.why() }
    }
}

/// Declares the error enums: a variant and the codes that it stands for.
macro_rules! refusal_errors {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$case_doc:meta])* $case:ident = $($code:ident)|+,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$case_doc])* $case(Refusal),)*
            /// The operating system or the node daemon refused a step.
            System(Refusal),
        }

        impl $name {
            /// The reason. The example is at [`NameError`](crate::NameError).
            #[must_use]
            pub fn refusal(&self) -> &Refusal {
                match self {
                    $(Self::$case(refusal) |)* Self::System(refusal) => refusal,
                }
            }

            /// The code of the C contract. The example is at [`NameError`](crate::NameError).
            #[must_use]
            pub fn code(&self) -> Code {
                self.refusal().code
            }

            /// What happened, why, and what to do next. The example is at
            /// [`NameError`](crate::NameError).
            #[must_use]
            pub fn why(&self) -> &str {
                &self.refusal().why
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.refusal().fmt(f)
            }
        }

        impl std::error::Error for $name {}

        impl crate::error::ErrorNumber for $name {
            fn number(&self) -> i32 {
                self.code().number()
            }
        }

        impl From<Fail> for $name {
            fn from(fail: Fail) -> Self {
                let refusal = Refusal::from(fail);
                match refusal.code {
                    $($(Code::$code)|+ => Self::$case(refusal),)*
                    _ => Self::System(refusal),
                }
            }
        }

        impl From<$name> for Fail {
            fn from(error: $name) -> Self {
                let refusal = error.refusal().clone();
                Self::new(refusal.code, refusal.why)
            }
        }
    )*};
}

refusal_errors! {
    /// Why the node did not do what the caller asked.
    ///
    /// ```
    /// use m3ipc::{Code, Node, NodeError};
    ///
    /// match Node::find("/nonexistent".as_ref()) {
    ///     Err(NodeError::NotRunning(refusal)) => {
    ///         assert_eq!(refusal.code(), Code::DrvsInit);
    ///         println!("{}", refusal.why());
    ///     }
    ///     other => panic!("no node is there: {other:?}"),
    /// }
    /// ```
    NodeError {
        /// No node daemon answers: none runs, or the node is not initialised.
        NotRunning = DrvsInit,
        /// The node is initialised already.
        AlreadyInitialised = DrvsBusy,
        /// The daemon and this program speak different versions.
        Version = Version,
        /// The daemon ended during the call. The next call finds or starts another one.
        DaemonGone = NotConn,
        /// There is no such VM, name or endpoint.
        Unknown = VmNotRun | NoNode | NotBind | BadProc | Endpoint,
        /// A VM id or a slot is out of range.
        OutOfRange = BadVmId | BadNodeId | Range,
        /// The id or the name is in use.
        InUse = RscBusy,
        /// A parameter has a bad value.
        BadValue = BadRange | BadValue | NameSize | Inval,
        /// The caller may not do this.
        Denied = Privileges | Perm,
        /// Another user owns the runtime directory, can replace it, or serves it.
        Untrusted = BadDir | BadOwner,
        /// Another process does this already.
        Busy = Busy | SlotUsed,
        /// The endpoint was not in a receive from ANY. The wakeup is remembered.
        Remembered = ProcRun | ProcSts,
        /// The time limit passed.
        TimedOut = TimedOut,
        /// A signal handler ran during the wait.
        Interrupted = Intr,
        /// Memory or descriptors are used up.
        NoResources = NoMem,
    }

    /// Why a name was not taken or not found.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Code, NameError};
    ///
    /// match client.name_locate("stock") {
    ///     Err(error @ NameError::Unknown(_)) => {
    ///         assert_eq!((error.code(), error.why()), (Code::NoNode, error.refusal().why()));
    ///     }
    ///     other => panic!("no endpoint has the name: {other:?}"),
    /// }
    /// ```
    NameError {
        /// Another endpoint of the VM has the name.
        Taken = RscBusy,
        /// The name is longer than 63 bytes.
        TooLong = NameSize,
        /// No endpoint has the name, or the process is not bound.
        Unknown = NoNode | NotBind | BadProc,
        /// The caller's endpoint is gone.
        Unbound = Shutdown | VmNotRun,
    }

    /// Why an operation on an area or a block failed.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{AreaConfig, AreaError, Code};
    ///
    /// match client.create_area(&AreaConfig::vm(u64::MAX)) {
    ///     Err(error @ AreaError::BadSize(_)) => assert_eq!(error.code(), Code::BadRange),
    ///     other => panic!("no area is so large: {other:?}"),
    /// }
    /// ```
    AreaError {
        /// The area is full.
        Full = AllocMem,
        /// Memory, addresses or descriptors are used up.
        NoResources = NoMem,
        /// The caller may not do this, or the block may only be read.
        Denied = Privileges | Perm,
        /// There is no such area.
        Unknown = NoNode,
        /// Another mapping of this process lies at the address of the area.
        AddressInUse = RscBusy,
        /// Blocks or mappings are still in use.
        Busy = Busy,
        /// A size or an alignment is bad.
        BadSize = BadRange | Inval | MsgSize | Align,
        /// The block changed hands too often.
        TooManyHands = Overrun,
        /// The peer broke the rules: the block was not its own to give.
        PeerBroke = PeerBroke,
        /// The daemon of the area was killed, so that no new member can join.
        Orphaned = Orphaned,
        /// The partner of the pair, or the receiver of the block, died or was never bound.
        Died = DstDied | Endpoint | Range,
        /// The caller's endpoint is gone.
        Unbound = NotBind | Shutdown | VmNotRun,
    }
}

impl NodeError {
    /// For a caller without a connection, a daemon that ended is a daemon that does not run.
    pub(crate) fn of_absent(fail: Fail) -> Self {
        match fail.code {
            Code::NotConn => Fail::from(Code::DrvsInit).into(),
            _ => fail.into(),
        }
    }

    /// A failure of the operating system for want of memory or descriptors.
    #[cfg(feature = "tokio")]
    pub(crate) fn no_resources(cause: &std::io::Error) -> Self {
        Fail::new(Code::NoMem, cause.to_string()).into()
    }
}
