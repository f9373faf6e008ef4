//! Why a call fails, as a sentence.

use core::fmt;
use m3ipc::{
    Address, AreaError, BindError, CopyError, Delivery, GrantError, NameError, NodeError,
    NotifyError, ParametersError, PriorityError, PulseError, ReceiveError, ReplyError, SendError,
    SendRecError, TimerError, UnbindError, WaitError, WakeupError, WatchError,
};

/// Declares the reasons: those of C alone, and the errors of the Rust API.
macro_rules! reasons {
    ($($error:ident)*) => {
        /// Why a call fails.
        #[derive(Debug)]
        pub(crate) enum Why {
            Text(Box<str>),
            /// A payload was longer than the room for it.
            Cut { from: Address, bytes: usize, room: usize },
            /// Neither the thread nor its process has an endpoint.
            Unbound,
            /// The block of the call is not the caller's any more.
            WithoutBlock(Box<Why>),
            /// No such memory is at an address.
            Memory { address: usize, write: bool },
            $($error($error),)*
        }

        impl fmt::Display for Why {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Text(text) => f.write_str(text),
                    Self::Cut { from, bytes, room } => write!(
                        f,
                        "endpoint {from} sent {bytes} bytes and the buffer holds {room}; give the \
                         call a longer buffer"
                    ),
                    Self::Unbound => f.write_str(
                        "the process is bound in no VM; call mnx_bind first, also in a child by \
                         fork"
                    ),
                    Self::Memory { address, write } => write!(
                        f,
                        "no {} memory lies at {address:#x}; check the pointer and the length",
                        if *write { "writable" } else { "readable" }
                    ),
                    Self::WithoutBlock(why) => why.fmt(f),
                    $(Self::$error(error) => error.fmt(f),)*
                }
            }
        }
    };
}

impl Why {
    /// What became of the message, for the failure of a call that had one.
    pub(crate) fn delivery(&self) -> Option<Delivery> {
        match self {
            Self::SendError(error) => Some(error.delivery()),
            Self::SendRecError(error) => Some(error.delivery()),
            Self::Cut { .. } => Some(Delivery::Taken),
            Self::WithoutBlock(why) => why.delivery(),
            _ => None,
        }
    }
}

reasons! {
    BindError CopyError GrantError NameError UnbindError WaitError WakeupError
    NotifyError PriorityError PulseError TimerError ReceiveError ReplyError
    SendError WatchError SendRecError AreaError NodeError ParametersError
}
