//! Looking endpoints up, and waiting for them to come and go.
//!
//! # Safety
//! No pointer is taken; the lift is for the names that C knows the functions by.
#![allow(unsafe_code)]

use crate::current;
use crate::guard::{Answer, FOREVER, Refused, call, limit};
use core::ffi::{c_int, c_long};
use m3ipc::{Address, Code, Endpoint, Timeout};
use std::time::Duration;

/// How long another thread that binds the process may take, in milliseconds.
const BIND_TRIES: u32 = 1_000;

/// `mnx_getep`: the endpoint of a process or thread of the caller's VM.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_getep(pid: c_int) -> c_int {
    call(|| {
        current::with(|member| {
            if pid <= 0 {
                return Err(Code::BadProc.into());
            }
            Ok(member.endpoint.locate_process(pid)?.0)
        })
    })
}

/// `mnx_wait4bind`: waits until the caller is bound.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4bind() -> c_int {
    mnx_wait4bind_T(FOREVER)
}

/// `mnx_wait4bind_T`: the same with a limit.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4bind_T(timeout_ms: c_long) -> c_int {
    call(|| {
        let limit = limit(timeout_ms)?;
        wait_for_bind(limit)
    })
}

fn wait_for_bind(limit: Timeout) -> Answer {
    for _ in 0..BIND_TRIES {
        if let Some((_, address)) = current::place() {
            return Ok(address.0);
        }
        match Endpoint::wait_for_bind(limit) {
            Ok(endpoint) => {
                let address = endpoint.address();
                current::settle(endpoint)?;
                return Ok(address.0);
            }
            // Another thread has bound the process: its endpoint will be there at once.
            Err(error) if error.code == Code::SlotUsed => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Refused(Code::NotReady))
}

/// `mnx_wait4bindep`: waits until an endpoint is bound.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4bindep(ep: c_int) -> c_int {
    mnx_wait4bindep_T(ep, FOREVER)
}

/// `mnx_wait4bindep_T`: the same with a limit.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4bindep_T(ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| {
        let limit = limit(timeout_ms)?;
        current::with(|member| Ok(member.endpoint.wait_bind(Address(ep), limit)?.0))
    })
}

/// `mnx_wait4unbind`: waits until an endpoint is bound no longer.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4unbind(ep: c_int) -> c_int {
    mnx_wait4unbind_T(ep, FOREVER)
}

/// `mnx_wait4unbind_T`: the same with a limit.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4unbind_T(ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| {
        let limit = limit(timeout_ms)?;
        current::with(|member| {
            member.endpoint.wait_unbind(Address(ep), limit)?;
            Ok(0)
        })
    })
}
