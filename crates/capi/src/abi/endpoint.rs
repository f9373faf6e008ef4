//! The functions of `m3ipc/endpoint.h`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`].
#![allow(unsafe_code)]

use crate::guard::{FOREVER, call, limit};
use crate::memory::{ReadPtr, ReadText, WritePtr};
use crate::records::{PrivUsr, ProcUsr};
use crate::{bind, info, names, privileges, watch};
use core::ffi::{c_char, c_int, c_long};
use m3ipc::{Address, Timeout};

/// `mnx_bind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_bind(vmid: c_int, nr: c_int) -> c_int {
    call(|| bind::bind(vmid, nr))
}

/// `mnx_tbind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_tbind(vmid: c_int, nr: c_int) -> c_int {
    call(|| bind::bind_thread(vmid, nr))
}

/// `m3_bind_any`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_bind_any(vmid: c_int) -> c_int {
    call(|| bind::bind_any(vmid))
}

/// `m3_tbind_any`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_tbind_any(vmid: c_int) -> c_int {
    call(|| bind::bind_thread_any(vmid))
}

/// `m3_bind_backup`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_bind_backup(vmid: c_int, nr: c_int) -> c_int {
    m3_bind_backup_T(vmid, nr, FOREVER)
}

/// `m3_bind_backup_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn m3_bind_backup_T(vmid: c_int, nr: c_int, timeout_ms: c_long) -> c_int {
    call(|| bind::bind_backup(vmid, nr, limit(timeout_ms)?))
}

/// `m3_migrate`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_migrate() -> c_int {
    m3_migrate_T(FOREVER)
}

/// `m3_migrate_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn m3_migrate_T(timeout_ms: c_long) -> c_int {
    call(|| bind::migrate(limit(timeout_ms)?))
}

/// `mnx_lclbind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_lclbind(vmid: c_int, pid: c_int, nr: c_int) -> c_int {
    call(|| bind::bind_other(vmid, pid, nr))
}

/// `mnx_unbind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_unbind(vmid: c_int, ep: c_int) -> c_int {
    mnx_unbind_T(vmid, ep, FOREVER)
}

/// `mnx_unbind_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_unbind_T(vmid: c_int, ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| bind::unbind(vmid, Address(ep), limit(timeout_ms)?))
}

/// `mnx_getep`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_getep(pid: c_int) -> c_int {
    call(|| bind::endpoint_of(pid))
}

/// `mnx_wait4bind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4bind() -> c_int {
    mnx_wait4bind_T(FOREVER)
}

/// `mnx_wait4bind_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4bind_T(timeout_ms: c_long) -> c_int {
    call(|| bind::wait_bind(limit(timeout_ms)?))
}

/// `mnx_wait4bindep`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4bindep(ep: c_int) -> c_int {
    mnx_wait4bindep_T(ep, FOREVER)
}

/// `mnx_wait4bindep_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4bindep_T(ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| bind::wait_bind_of(Address(ep), limit(timeout_ms)?))
}

/// `mnx_wait4unbind`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wait4unbind(ep: c_int) -> c_int {
    mnx_wait4unbind_T(ep, FOREVER)
}

/// `mnx_wait4unbind_T`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn mnx_wait4unbind_T(ep: c_int, timeout_ms: c_long) -> c_int {
    call(|| bind::wait_unbind_of(Address(ep), limit(timeout_ms)?))
}

/// `mnx_getprocinfo`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getprocinfo(vmid: c_int, nr: c_int, info: *mut ProcUsr) -> c_int {
    // SAFETY: C lends `info` for this call.
    let record = unsafe { WritePtr::new(info) };
    call(|| {
        record.write(info::slot(vmid, nr)?)?;
        Ok(0)
    })
}

/// `mnx_proc_dump`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_proc_dump(vmid: c_int) -> c_int {
    call(|| info::dump(vmid))
}

/// `mnx_setpriv`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_setpriv(vmid: c_int, ep: c_int, record: *const PrivUsr) -> c_int {
    // SAFETY: C lends `record` for this call.
    let record = unsafe { ReadPtr::new(record) };
    call(|| privileges::set(vmid, Address(ep), record))
}

/// `mnx_getpriv`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getpriv(vmid: c_int, ep: c_int, record: *mut PrivUsr) -> c_int {
    // SAFETY: C lends `record` for this call.
    let record = unsafe { WritePtr::new(record) };
    call(|| {
        record.write(privileges::get(vmid, Address(ep))?)?;
        Ok(0)
    })
}

/// `m3_name_attach`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_name_attach(name: *const c_char) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    call(|| names::attach(name))
}

/// `m3_name_locate`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_name_locate(name: *const c_char) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    call(|| names::locate(name))
}

/// `m3_wait4name`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_wait4name(name: *const c_char) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    call(|| names::wait(name, Timeout::Never))
}

/// `m3_wait4name_T`: see `m3ipc/endpoint.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_wait4name_T(name: *const c_char, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    call(|| names::wait(name, limit(timeout_ms)?))
}

/// `m3_set_receive_limit`: see `m3ipc/endpoint.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_set_receive_limit(bytes: usize) -> c_int {
    call(|| watch::set_receive_limit(bytes))
}
