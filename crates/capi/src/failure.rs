//! The failure of a call, and the code that tells C about it.

use core::ffi::c_int;
use m3ipc::{
    AreaError, BindError, Code, CopyError, GrantError, NameError, NodeError, NotifyError,
    PriorityError, PulseError, ReceiveError, ReplyError, ReplyReceiveError, SendError,
    SendRecError, TimerError, UnbindError, WaitError, WakeupError, WatchError,
};

/// The result of a call: a number for C, or a failure.
pub(crate) type CallResult<T = c_int> = Result<T, CallFailure>;

/// The code with which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFailure(pub(crate) Code);

impl CallFailure {
    /// Turns "not bound" into "destination died", for calls about the endpoint of another process.
    ///
    /// The daemon returns -310 for a free slot, which would otherwise mean the caller.
    pub(crate) fn of_other(self) -> Self {
        match self.0 {
            Code::NotBind => Self(Code::DstDied),
            _ => self,
        }
    }
}

impl From<Code> for CallFailure {
    fn from(code: Code) -> Self {
        Self(code)
    }
}

/// Converts errors of the Rust API by their method `code`.
macro_rules! from_errors {
    ($($error:ident)*) => {$(
        impl From<$error> for CallFailure {
            fn from(error: $error) -> Self {
                Self(error.code())
            }
        }
    )*};
}

from_errors! {
    BindError CopyError GrantError NameError UnbindError WaitError WakeupError NotifyError
    PriorityError PulseError TimerError ReceiveError ReplyError SendError WatchError
    SendRecError ReplyReceiveError
}

impl From<AreaError> for CallFailure {
    fn from(error: AreaError) -> Self {
        Self(error.code())
    }
}

impl From<NodeError> for CallFailure {
    fn from(error: NodeError) -> Self {
        Self(match error.code() {
            // The daemon ended during the request, so the node no longer runs.
            Code::NotConn => Code::DrvsInit,
            code => code,
        })
    }
}
