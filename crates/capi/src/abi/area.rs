//! The functions of `m3ipc/area.h`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`]. The library looks the address of a block up in a
//! table and never follows it.
#![allow(unsafe_code)]

use crate::area;
use crate::block::{self, address_of};
use crate::guard::{call, limit};
use crate::memory::{ReadPtr, WritePtr};
use core::ffi::{c_int, c_long, c_uint, c_void};
use m3ipc::{Address, Message, Timeout};

/// `m3_area_create`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_create(limit: u64, audience: c_int, flags: c_uint) -> c_int {
    call(|| area::create(limit, audience, flags))
}

/// `m3_area_create_set`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_area_create_set(
    limit: u64,
    others: *const c_int,
    count: c_int,
    flags: c_uint,
) -> c_int {
    // SAFETY: C lends `count` endpoints at `others` for this call.
    let others = unsafe { ReadPtr::new(others) };
    call(|| area::create_set(limit, others, count, flags))
}

/// `m3_area_attach`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_attach(number: c_int) -> c_int {
    call(|| area::attach(number))
}

/// `m3_area_detach`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_detach(number: c_int) -> c_int {
    call(|| area::detach(number))
}

/// `m3_area_renounce`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_renounce(number: c_int) -> c_int {
    call(|| area::renounce(number))
}

/// `m3_area_seal`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_seal(number: c_int) -> c_int {
    call(|| area::seal(number))
}

/// `m3_block_alloc`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_block_alloc(
    number: c_int,
    bytes: usize,
    flags: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    // SAFETY: C lends `block` for this call.
    let block = unsafe { WritePtr::new(block) };
    call(|| area::allocate(number, bytes, flags, block))
}

/// `m3_block_free`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_block_free(block: *mut c_void) -> c_int {
    call(|| area::free(address_of(block)))
}

/// `m3_block_take`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_block_take(block: *mut *mut c_void, bytes: *mut usize) -> c_int {
    // SAFETY: C lends `block` for this call.
    let block = unsafe { WritePtr::new(block) };
    // SAFETY: C lends `bytes` for this call.
    let bytes = unsafe { WritePtr::new(bytes) };
    call(|| block::take(block, bytes))
}

/// `m3_send_block`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send_block(dst: c_int, m: *const Message, block: *mut c_void) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| block::send(Address(dst), m, address_of(block), Timeout::Never))
}

/// `m3_send_block_T`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_send_block_T(
    dst: c_int,
    m: *const Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| block::send(Address(dst), m, address_of(block), limit(timeout_ms)?))
}

/// `m3_sendrec_block`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_block(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    call(|| block::sendrec(Address(dst), m, address_of(block), Timeout::Never))
}

/// `m3_sendrec_block_T`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_sendrec_block_T(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    call(|| block::sendrec(Address(dst), m, address_of(block), limit(timeout_ms)?))
}

/// `m3_reply_block`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_reply_block(
    dst: c_int,
    m: *const Message,
    block: *mut c_void,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| block::reply(Address(dst), m, address_of(block)))
}

/// `m3_share_block`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_share_block(
    dst: c_int,
    m: *const Message,
    block: *mut c_void,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| block::share(Address(dst), m, address_of(block), Timeout::Never))
}

/// `m3_share_block_T`: see `m3ipc/area.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_share_block_T(
    dst: c_int,
    m: *const Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| block::share(Address(dst), m, address_of(block), limit(timeout_ms)?))
}

/// `m3_block_reclaim`: see `m3ipc/area.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_block_reclaim(block: *mut c_void) -> c_int {
    call(|| block::reclaim(address_of(block)))
}
