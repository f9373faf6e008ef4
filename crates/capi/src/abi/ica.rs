//! The functions of `m3ipc/ica.h`.
//!
//! # Safety
//! The library looks the address of a block up in a table and never follows it.
#![allow(unsafe_code)]

use crate::area;
use crate::block::address_of;
use crate::guard::call;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// The address of a new block, or NULL.
fn allocate(size: usize, flag: c_int) -> *mut c_void {
    let mut pointer = null_mut();
    call::<c_int>(|| {
        pointer = area::allocate_ica(size, flag)?;
        Ok(0)
    });
    pointer
}

/// `createica`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn createica(size: usize, flag: c_int) -> *mut c_void {
    allocate(size, flag)
}

/// `deleteica`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn deleteica(vaddr: *mut c_void) -> c_int {
    call(|| area::free(address_of(vaddr)))
}

/// `attachica`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn attachica(vmid: c_int, vaddr: *mut c_void, prot: c_int) -> c_int {
    call(|| area::attach_ica(vmid, address_of(vaddr), prot))
}

/// `detachica`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn detachica(vmid: c_int, vaddr: *mut c_void) -> c_int {
    call(|| area::detach_ica(vmid, address_of(vaddr)))
}

/// `getmem`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn getmem(op: c_int, size: usize, flag: c_int) -> *mut c_void {
    if op == 0 { allocate(size, flag) } else { null_mut() }
}

/// `freemem`: see `m3ipc/ica.h`.
#[unsafe(no_mangle)]
pub extern "C" fn freemem(raddr: *mut c_void) -> c_int {
    call(|| area::free(address_of(raddr)))
}
