//! Endpoints: bind, unbind, look up, wait.

use crate::failure::{CallFailure, CallResult};
use crate::{current, node};
use m3ipc::{Address, BindError, Code, Endpoint, Timeout};
use std::time::Duration;

/// How often [`wait_bind`] tries again, once a millisecond, while another thread binds the process.
const BIND_TRIES: u32 = 1_000;

pub(crate) fn bind(vmid: i32, nr: i32) -> CallResult {
    // An endpoint that has ended makes room. For one in use, the node reports "slot used".
    current::release_ended();
    let endpoint = Endpoint::bind(vmid, nr).map_err(|error| named(error, vmid))?;
    let address = endpoint.address();
    current::bind_process(endpoint)?;
    Ok(address.0)
}

pub(crate) fn bind_thread(vmid: i32, nr: i32) -> CallResult {
    current::release_ended();
    let endpoint = Endpoint::bind_thread(vmid, nr).map_err(|error| named(error, vmid))?;
    let address = endpoint.address();
    current::bind_thread(endpoint)?;
    Ok(address.0)
}

/// The failure of a bind, with the number of a VM that does not run.
fn named(error: BindError, vmid: i32) -> CallFailure {
    match error.code() {
        Code::VmNotRun => {
            let text = format!("VM {vmid} is not running; `m3 vm ls` shows the VMs of the node");
            CallFailure::said(Code::VmNotRun, text)
        }
        _ => error.into(),
    }
}

/// Binds the process as the backup of a slot, once the slot is at this node.
pub(crate) fn bind_backup(vmid: i32, nr: i32, limit: Timeout) -> CallResult {
    current::release_ended();
    let endpoint = Endpoint::bind_backup(vmid, nr, limit).map_err(|error| named(error, vmid))?;
    let address = endpoint.address();
    current::bind_process(endpoint)?;
    Ok(address.0)
}

/// Moves the endpoint of the caller to the other node that may have its slot.
pub(crate) fn migrate(limit: Timeout) -> CallResult {
    current::with(|member| {
        member.endpoint.migrate_timeout(limit)?;
        Ok(0)
    })
}

/// Binds the process to any free user slot.
pub(crate) fn bind_any(vmid: i32) -> CallResult {
    current::release_ended();
    let endpoint = node::find()?.vm(vmid)?.bind_any()?;
    let address = endpoint.address();
    current::bind_process(endpoint)?;
    Ok(address.0)
}

/// Binds the thread to any free user slot.
pub(crate) fn bind_thread_any(vmid: i32) -> CallResult {
    current::release_ended();
    let endpoint = node::find()?.vm(vmid)?.bind_thread(None)?;
    let address = endpoint.address();
    current::bind_thread(endpoint)?;
    Ok(address.0)
}

pub(crate) fn bind_other(vmid: i32, pid: i32, nr: i32) -> CallResult {
    Ok(node::find()?.bind_other(vmid, pid, nr)?.0)
}

pub(crate) fn unbind(vmid: i32, address: Address, limit: Timeout) -> CallResult {
    if current::unbind(vmid, address)? {
        return Ok(0);
    }
    node::find()?.unbind_timeout(vmid, address, limit)?;
    Ok(0)
}

/// The endpoint of a process or thread of the caller's VM.
pub(crate) fn endpoint_of(pid: i32) -> CallResult {
    current::with(|member| {
        if pid <= 0 {
            return Err(Code::BadProc.into());
        }
        Ok(member.endpoint.locate_process(pid)?.0)
    })
}

/// Waits until the calling process is bound.
pub(crate) fn wait_bind(limit: Timeout) -> CallResult {
    for _ in 0..BIND_TRIES {
        if let Some((_, address)) = current::address() {
            return Ok(address.0);
        }
        match Endpoint::wait_for_bind(limit) {
            Ok(endpoint) => {
                let address = endpoint.address();
                current::bind_process(endpoint)?;
                return Ok(address.0);
            }
            // Another thread has bound the process, and is about to store the endpoint.
            Err(error) if error.code() == Code::SlotUsed => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(CallFailure::of(Code::NotReady))
}

/// Waits until an endpoint of the caller's VM is bound.
pub(crate) fn wait_bind_of(address: Address, limit: Timeout) -> CallResult {
    current::with(|member| Ok(member.endpoint.wait_bind(address, limit)?.0))
}

/// Waits until an endpoint of the caller's VM is no longer bound.
pub(crate) fn wait_unbind_of(address: Address, limit: Timeout) -> CallResult {
    current::with(|member| {
        member.endpoint.wait_unbind(address, limit)?;
        Ok(0)
    })
}
