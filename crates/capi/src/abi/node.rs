//! The functions of `m3ipc/node.h`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`].
#![allow(unsafe_code)]

use crate::guard::call;
use crate::memory::{ReadText, WritePtr};
use crate::records::{DrvsUsr, VmUsr};
use crate::{node, vm};
use core::ffi::{c_char, c_int};

/// `mnx_drvs_init`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_drvs_init(nodeid: c_int, params: *mut DrvsUsr) -> c_int {
    // SAFETY: C lends `params` for this call.
    let params = unsafe { WritePtr::new(params) };
    call(|| {
        let wanted = if params.is_null() { DrvsUsr::default() } else { params.read()? };
        let (nodeid, in_force) = node::init(nodeid, &wanted)?;
        if !params.is_null() {
            params.write(in_force)?;
        }
        Ok(nodeid)
    })
}

/// `mnx_drvs_end`: see `m3ipc/node.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_drvs_end() -> c_int {
    call(node::end)
}

/// `mnx_getdrvsinfo`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getdrvsinfo(info: *mut DrvsUsr) -> c_int {
    // SAFETY: C lends `info` for this call.
    let info = unsafe { WritePtr::new(info) };
    call(|| {
        let (nodeid, in_force) = node::info()?;
        info.write(in_force)?;
        Ok(nodeid)
    })
}

/// `mnx_vm_init`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_vm_init(params: *mut VmUsr) -> c_int {
    // SAFETY: C lends `params` for this call.
    let params = unsafe { WritePtr::new(params) };
    call(|| vm::init(params))
}

/// `m3_vm_open_or_create`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_vm_open_or_create(params: *mut VmUsr) -> c_int {
    // SAFETY: C lends `params` for this call.
    let params = unsafe { WritePtr::new(params) };
    call(|| vm::open_or_create(params))
}

/// `m3_vm_named`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_vm_named(name: *const c_char) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    call(|| vm::named(name))
}

/// `mnx_vm_end`: see `m3ipc/node.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_vm_end(vmid: c_int) -> c_int {
    call(|| vm::end(vmid))
}

/// `mnx_getvminfo`: see `m3ipc/node.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getvminfo(vmid: c_int, info: *mut VmUsr) -> c_int {
    // SAFETY: C lends `info` for this call.
    let info = unsafe { WritePtr::new(info) };
    call(|| {
        info.write(vm::info(vmid)?)?;
        Ok(0)
    })
}

/// `mnx_vm_dump`: see `m3ipc/node.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_vm_dump() -> c_int {
    call(vm::dump)
}
