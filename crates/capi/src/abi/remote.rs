//! The functions of `m3ipc/remote.h`: this release does not have them, and each returns -38.
//!
//! # Safety
//! No function follows a pointer.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use m3ipc::Code;

/// `mnx_hdw_notify`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_hdw_notify(_vmid: c_int, _dst: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_ntfy_value`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_ntfy_value(_src_nr: c_int, _dst: c_int, _value: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_add_node`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_add_node(_vmid: c_int, _nodeid: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_del_node`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_del_node(_vmid: c_int, _nodeid: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_node_up`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_node_up(_name: *const c_char, _nodeid: c_int, _proxy_nr: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_node_down`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_node_down(_nodeid: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_getnodeinfo`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_getnodeinfo(_nodeid: c_int, _info: *mut c_void) -> c_int {
    Code::NoSys.number()
}

/// `mnx_rmtbind`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_rmtbind(
    _vmid: c_int,
    _name: *const c_char,
    _ep: c_int,
    _nodeid: c_int,
) -> c_int {
    Code::NoSys.number()
}

/// `mnx_migr_start`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_start(_vmid: c_int, _ep: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_migr_commit`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_commit(_pid: c_int, _vmid: c_int, _ep: c_int, _nodeid: c_int) -> c_int {
    Code::NoSys.number()
}

/// `mnx_migr_rollback`: see `m3ipc/remote.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_migr_rollback(_vmid: c_int, _ep: c_int) -> c_int {
    Code::NoSys.number()
}
