//! The guard around each call of C: no panic crosses the ABI, `errno` keeps its value, no thread is
//! cancelled within, and a failure becomes a code and a reason.

use crate::failure::{CallFailure, CallResult};
use core::ffi::{c_int, c_long};
use m3ipc::{Code, Timeout};
pub(crate) use m3ipc_sys::{enclosed, uncancelled};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call. After a panic, which is a defect of this library, the outcome is
/// unknown (-501).
#[inline]
pub(crate) fn call<T: From<c_int>>(body: impl FnOnce() -> CallResult<T>) -> T {
    let result = enclosed(|| catch_unwind(AssertUnwindSafe(body)));
    let result = result.unwrap_or(Err(CallFailure::of(Code::Unknown)));
    result.unwrap_or_else(|failure| T::from(failure.tell()))
}

/// Runs a part of a call that leaves `errno` alone, or keeps it by [`enclosed`]. `Err` after a
/// panic: the code of the call.
#[inline(always)]
pub(crate) fn catch<T>(body: impl FnOnce() -> T) -> Result<T, c_int> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|_panic| CallFailure::of(Code::Unknown).tell())
}

/// Converts the time limit of a `_T` form.
#[inline]
pub(crate) fn limit(timeout_ms: c_long) -> CallResult<Timeout> {
    if timeout_ms >= -1 {
        return Ok(Timeout::from_ms(timeout_ms));
    }
    let text = format!("{timeout_ms} ms is no time limit; give 0 for no wait, -1 for none");
    Err(CallFailure::said(Code::Inval, text))
}

/// The limit of a form without `_T`: none.
pub(crate) const FOREVER: c_long = -1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_as_a_code() {
        assert_eq!(call::<c_int>(|| panic!("a defect")), Code::Unknown.number());
        assert_eq!(call::<c_int>(|| Err(Code::Again.into())), Code::Again.number());
        assert_eq!(call::<c_int>(|| Ok(-35)), -35);
    }

    #[test]
    fn a_limit_below_minus_one_is_invalid() {
        assert_eq!(limit(-1), Ok(Timeout::Never));
        assert_eq!(limit(0), Ok(Timeout::NoWait));
        assert_eq!(limit(-2), Err(CallFailure::of(Code::Inval)));
    }
}
