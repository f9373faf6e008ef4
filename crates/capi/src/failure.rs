//! The failure of a call: the code that tells C about it, and its reason as a sentence.
//!
//! A failure moves an error of the Rust API as it is, and makes its text only for a program that
//! asks. So a call that fails often, as one that may not wait, costs no text and no allocation.

use crate::reason;
use crate::why::Why;
use core::ffi::c_int;
use core::fmt;
use m3ipc::{
    Address, AreaError, BindError, Code, CopyError, GrantError, NameError, NodeError, NotifyError,
    ParametersError, PriorityError, PulseError, ReceiveError, ReplyError, SendError, SendRecError,
    TimerError, UnbindError, WaitError, WakeupError, WatchError,
};

/// The result of a call: a number for C, or a failure.
pub(crate) type CallResult<T = c_int> = Result<T, CallFailure>;

/// The code with which a call fails, and why.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) code: Code,
    /// `None`: what the code means is all that there is to say.
    pub(crate) why: Option<Why>,
}

impl CallFailure {
    pub(crate) const fn of(code: Code) -> Self {
        Self { code, why: None }
    }

    /// A failure with a sentence: what happened, and what to do next.
    #[cold]
    pub(crate) fn said(code: Code, text: impl Into<Box<str>>) -> Self {
        Self { code, why: Some(Why::Text(text.into())) }
    }

    /// The failure of an argument that is not what it should be: `31 is no priority (0 to 7)`.
    #[cold]
    pub(crate) fn no(code: Code, value: impl fmt::Display, what: &str) -> Self {
        Self::said(code, format!("{value} is no {what}"))
    }

    /// The failure of a caller without an endpoint.
    pub(crate) const fn unbound() -> Self {
        Self { code: Code::NotBind, why: Some(Why::Unbound) }
    }

    /// The failure of a pointer of the program.
    #[cold]
    pub(crate) fn memory(address: usize, write: bool) -> Self {
        Self { code: Code::AddrNotAvail, why: Some(Why::Memory { address, write }) }
    }

    /// The failure of a payload that is longer than the room for it.
    #[cold]
    pub(crate) fn cut(from: Address, bytes: usize, room: usize) -> Self {
        Self { code: Code::MsgSize, why: Some(Why::Cut { from, bytes, room }) }
    }

    /// The same failure of a call whose block is gone.
    #[cold]
    pub(crate) fn without_block(self) -> Self {
        Self { why: self.why.map(|why| Why::WithoutBlock(Box::new(why))), ..self }
    }

    /// Turns "not bound" into "destination died", for calls about the endpoint of another process.
    ///
    /// The daemon returns -310 for a free slot, which would otherwise mean the caller.
    pub(crate) fn of_other(self) -> Self {
        match self.code {
            Code::NotBind => Self { code: Code::DstDied, ..self },
            _ => self,
        }
    }

    /// Keeps the reason for `m3_last_reason`. Returns the number of the code.
    #[cold]
    pub(crate) fn tell(self) -> c_int {
        let number = self.code.number();
        reason::keep(self.code, self.why);
        number
    }
}

/// The code alone: errors have no other identity.
impl PartialEq for CallFailure {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl From<Code> for CallFailure {
    fn from(code: Code) -> Self {
        Self::of(code)
    }
}

/// Converts errors of the Rust API: each with the code that it has in C.
macro_rules! from_errors {
    ($($error:ident by $code:expr,)*) => {
        $(impl From<$error> for CallFailure {
            #[cold]
            fn from(error: $error) -> Self {
                let code: fn(&$error) -> Code = $code;
                Self { code: code(&error), why: Some(Why::$error(error)) }
            }
        })*
    };
}

from_errors! {
    BindError by BindError::code,
    CopyError by CopyError::code,
    GrantError by |error| error.code(),
    NameError by NameError::code,
    UnbindError by UnbindError::code,
    WaitError by WaitError::code,
    WakeupError by WakeupError::code,
    NotifyError by NotifyError::code,
    PriorityError by |error| error.code(),
    PulseError by PulseError::code,
    TimerError by |error| error.code(),
    ReceiveError by ReceiveError::code,
    ReplyError by ReplyError::code,
    SendError by SendError::code,
    WatchError by WatchError::code,
    SendRecError by SendRecError::code,
    AreaError by AreaError::code,
    NodeError by node_code,
    ParametersError by |_error| Code::BadValue,
}

fn node_code(error: &NodeError) -> Code {
    match error.code() {
        // The daemon ended during the request, so the node no longer runs.
        Code::NotConn => Code::DrvsInit,
        code => code,
    }
}
