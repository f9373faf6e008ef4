//! The functions of `m3ipc/remote.h`. Two inform. The registry and the proxy do the work of the
//! others, which have no effect and follow no pointer.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`].
#![allow(unsafe_code)]

use crate::failure::CallFailure;
use crate::guard::call;
use crate::info;
use crate::memory::WritePtr;
use crate::node;
use crate::records::{NodeUsr, ProcUsr};
use core::ffi::{c_char, c_int};
use m3ipc::Code;

/// `mnx_add_node`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_add_node(_vmid: c_int, _nodeid: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_del_node`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_del_node(_vmid: c_int, _nodeid: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_node_up`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_node_up(_name: *const c_char, _nodeid: c_int, _proxy_nr: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_node_down`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_node_down(_nodeid: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_getnodeinfo`: see `m3ipc/remote.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getnodeinfo(nodeid: c_int, info: *mut NodeUsr) -> c_int {
    // SAFETY: C lends `info` for this call.
    let info = unsafe { WritePtr::new(info) };
    call(|| {
        info.write(node::state(nodeid)?)?;
        Ok(0)
    })
}

/// `mnx_getproxyinfo`: see `m3ipc/remote.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getproxyinfo(
    px_nr: c_int,
    sender: *mut ProcUsr,
    receiver: *mut ProcUsr,
) -> c_int {
    // SAFETY: C lends both records for this call.
    let records = unsafe { [WritePtr::new(sender), WritePtr::new(receiver)] };
    call(|| {
        let found = info::proxy(px_nr)?;
        records.into_iter().try_for_each(|record| record.write(found))?;
        Ok(0)
    })
}

/// `mnx_rmtbind`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_rmtbind(
    _vmid: c_int,
    _name: *const c_char,
    _ep: c_int,
    _nodeid: c_int,
) -> c_int {
    CallFailure::of(Code::NoNode).tell()
}

/// `mnx_migr_start`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_start(_vmid: c_int, _ep: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_migr_commit`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_commit(_pid: c_int, _vmid: c_int, _ep: c_int, _nodeid: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}

/// `mnx_migr_rollback`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_rollback(_vmid: c_int, _ep: c_int) -> c_int {
    CallFailure::of(Code::NoSys).tell()
}
