//! Binding and unbinding.
//!
//! # Safety
//! No pointer is taken; the lift is for the names that C knows the functions by.
#![allow(unsafe_code)]

use crate::guard::{Answer, FOREVER, call, limit};
use crate::{current, node};
use core::ffi::{c_int, c_long};
use m3ipc::{Address, Endpoint, Timeout};

/// `mnx_bind`: the calling process gets slot `nr`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_bind(vmid: c_int, nr: c_int) -> c_int {
    call(|| {
        // One that has ended makes room first. Where one is in use the node says that it is taken.
        drop(current::take());
        let endpoint = Endpoint::bind(vmid, nr)?;
        let address = endpoint.address();
        current::settle(endpoint)?;
        Ok(address.0)
    })
}

/// `mnx_tbind`: the calling thread gets slot `nr`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_tbind(vmid: c_int, nr: c_int) -> c_int {
    call(|| {
        drop(current::take());
        let endpoint = Endpoint::bind_thread(vmid, nr)?;
        let address = endpoint.address();
        current::settle_own(endpoint)?;
        Ok(address.0)
    })
}

/// `mnx_lclbind`: another process gets slot `nr`, and its endpoint with its next call.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_lclbind(vmid: c_int, pid: c_int, nr: c_int) -> c_int {
    call(|| Ok(node::reach()?.bind_other(vmid, pid, nr)?.0))
}

/// `mnx_unbind`: ends a binding, one's own or another's.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_unbind(vmid: c_int, ep: c_int) -> c_int {
    mnx_unbind_T(vmid, ep, FOREVER)
}

/// `mnx_unbind_T`: the same with a limit.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_unbind_T(vmid: c_int, ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| unbind(vmid, Address(ep), limit(timeout_ms)?))
}

fn unbind(vmid: c_int, address: Address, limit: Timeout) -> Answer {
    if current::leave(vmid, address)? {
        return Ok(0);
    }
    node::done(node::reach()?.unbind_timeout(vmid, address, limit))
}
