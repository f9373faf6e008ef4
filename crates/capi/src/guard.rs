//! Between C and the library: no panic crosses, `errno` stays, a code is a number.
//!
//! # Safety
//! `errno` is the calling thread's own, for as long as the thread lives.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long};
use m3ipc::{
    BindError, CallError, Code, CopyError, GrantError, NodeError, NotifyError, ReceiveError,
    ReplyError, SendError, SendRecError, Timeout,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call of C answers: a number, or the code that says why not.
pub(crate) type Answer = Result<c_int, Refused>;

/// The code that a call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Code);

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Self(code)
    }
}

/// Every error of the Rust API ends as its code.
macro_rules! refused {
    ($($error:ident)*) => {$(
        impl From<$error> for Refused {
            fn from(error: $error) -> Self {
                Self(error.code())
            }
        }
    )*};
}

refused! { BindError CallError CopyError GrantError NotifyError ReceiveError ReplyError SendError SendRecError }

impl From<NodeError> for Refused {
    fn from(error: NodeError) -> Self {
        Self(match error.code {
            // The daemon went away while it was asked: there is no node (any more).
            Code::NotConn => Code::DrvsInit,
            code => code,
        })
    }
}

/// Runs the body of a call of C. A panic, which is a mistake of ours, leaves the outcome unknown.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> Answer) -> c_int {
    // SAFETY: the address of the calling thread's errno is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else accesses it.
    let before = unsafe { *errno };
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Refused(Code::Unknown)));
    // SAFETY: as above.
    unsafe { *errno = before };
    match answer {
        Ok(number) => number,
        Err(Refused(code)) => code.number(),
    }
}

/// The time limit of a `_T` form.
#[inline]
pub(crate) fn limit(timeout_ms: c_long) -> Result<Timeout, Refused> {
    if timeout_ms < -1 { Err(Code::Inval.into()) } else { Ok(Timeout::from_ms(timeout_ms)) }
}

/// Without a limit.
pub(crate) const FOREVER: c_long = -1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_as_a_code() {
        assert_eq!(call(|| panic!("a mistake of ours")), Code::Unknown.number());
        assert_eq!(call(|| Err(Code::Again.into())), Code::Again.number());
        assert_eq!(call(|| Ok(-35)), -35);
    }

    #[test]
    fn minus_one_is_for_ever_and_nothing_lower_is_a_limit() {
        assert_eq!(limit(-1), Ok(Timeout::Never));
        assert_eq!(limit(0), Ok(Timeout::Now));
        assert_eq!(limit(-2), Err(Refused(Code::Inval)));
    }
}
