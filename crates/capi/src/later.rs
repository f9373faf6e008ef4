//! Calls of the later releases that this one has not: each answers -38.
//!
//! # Safety
//! No pointer that is taken is followed; the lift is for the names that C knows the functions by.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use m3ipc::Code;

/// Declares calls that are not there yet.
macro_rules! not_there {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $kind),*) -> c_int {
            $(let _ = $argument;)*
            Code::NoSys.number()
        }
    )*};
}

not_there! {
    /// `mnx_hdw_notify`: notifies as HARDWARE.
    mnx_hdw_notify(vmid: c_int, dst: c_int);
    /// `mnx_ntfy_value`: notifies with an argument.
    mnx_ntfy_value(src_nr: c_int, dst: c_int, value: c_int);
    /// `mnx_add_node`: a VM spans one node more.
    mnx_add_node(vmid: c_int, nodeid: c_int);
    /// `mnx_del_node`: a VM spans one node less.
    mnx_del_node(vmid: c_int, nodeid: c_int);
    /// `mnx_node_up`: another node appears.
    mnx_node_up(name: *const c_char, nodeid: c_int, proxy_nr: c_int);
    /// `mnx_node_down`: another node goes.
    mnx_node_down(nodeid: c_int);
    /// `mnx_getnodeinfo`: what is known of another node.
    mnx_getnodeinfo(nodeid: c_int, info: *mut c_void);
    /// `mnx_rmtbind`: binds a process of another node.
    mnx_rmtbind(vmid: c_int, name: *const c_char, ep: c_int, nodeid: c_int);
    /// `mnx_migr_start`: a process begins to move.
    mnx_migr_start(vmid: c_int, ep: c_int);
    /// `mnx_migr_commit`: it has moved.
    mnx_migr_commit(pid: c_int, vmid: c_int, ep: c_int, nodeid: c_int);
    /// `mnx_migr_rollback`: it stays.
    mnx_migr_rollback(vmid: c_int, ep: c_int);
}
