//! Pulses and timers.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use core::ffi::c_int;
use m3ipc::{Address, Code, Pulse, TimerId};
use std::time::Duration;

fn pulse(code: c_int, value: u64) -> CallResult<Pulse> {
    let code = u8::try_from(code).map_err(|_out_of_range| Code::Inval)?;
    Ok(Pulse { code, value })
}

pub(crate) fn send(to: Address, code: c_int, value: u64) -> CallResult {
    current::with(|member| {
        member.endpoint.pulse(to, pulse(code, value)?)?;
        Ok(0)
    })
}

pub(crate) fn pending(to: Address) -> CallResult {
    current::with(|member| {
        Ok(c_int::try_from(member.endpoint.pending_pulses(to)).unwrap_or(c_int::MAX))
    })
}

/// Sets a timer of the caller, and returns its number.
pub(crate) fn set_timer(code: c_int, value: u64, first_ns: u64, period_ns: u64) -> CallResult {
    current::with(|member| {
        let period = (period_ns != 0).then(|| Duration::from_nanos(period_ns));
        let first = Duration::from_nanos(first_ns);
        let timer = member.endpoint.set_timer(pulse(code, value)?, first, period)?;
        c_int::try_from(timer.number()).map_err(|_beyond| Code::NoMem.into())
    })
}

pub(crate) fn cancel_timer(timer: c_int) -> CallResult {
    current::with(|member| {
        let none =
            || CallFailure::no(Code::BadValue, timer, "timer of the caller; it may have ended");
        let number = u32::try_from(timer).map_err(|_negative| none())?;
        let is_cancelled = member.endpoint.cancel_timer(TimerId::of_number(number));
        if is_cancelled { Ok(0) } else { Err(none()) }
    })
}
