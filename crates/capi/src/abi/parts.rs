//! The functions of `m3ipc/ipc.h` with parts, as readv(2) and writev(2) name them.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`]; so do those in the arrays of parts.
#![allow(unsafe_code)]

use crate::guard::{FOREVER, call, limit};
use crate::memory::{ReadBytes, ReadPtr, WriteBytes, WritePtr};
use crate::parts::{self, PartArray};
use core::ffi::{c_int, c_long};
use m3ipc::{Address, Message};

/// Wraps an array of parts that a call reads.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
unsafe fn sources(
    iov: *const libc::iovec,
    count: c_int,
) -> PartArray<impl Fn(&libc::iovec) -> ReadBytes> {
    // SAFETY: C lends `iov` for this call.
    let iov = unsafe { ReadPtr::new(iov) };
    // SAFETY: C lends the memory of each part for this call.
    let part = |part: &libc::iovec| unsafe { ReadBytes::new(part.iov_base, part.iov_len) };
    PartArray { iov, count, part }
}

/// Wraps an array of parts that a call writes.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
unsafe fn targets(
    iov: *const libc::iovec,
    count: c_int,
) -> PartArray<impl Fn(&libc::iovec) -> WriteBytes> {
    // SAFETY: C lends `iov` for this call.
    let iov = unsafe { ReadPtr::new(iov) };
    // SAFETY: C lends the memory of each part for this call.
    let part = |part: &libc::iovec| unsafe { WriteBytes::new(part.iov_base, part.iov_len) };
    PartArray { iov, count, part }
}

/// `m3_sendv`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendv(
    dst: c_int,
    m: *const Message,
    iov: *const libc::iovec,
    count: c_int,
) -> c_int {
    // SAFETY: as for this function.
    unsafe { m3_sendv_T(dst, m, iov, count, FOREVER) }
}

/// `m3_sendv_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_sendv_T(
    dst: c_int,
    m: *const Message,
    iov: *const libc::iovec,
    count: c_int,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // SAFETY: C lends `iov` and its parts for this call.
    let parts = unsafe { sources(iov, count) };
    call(|| parts::send(Address(dst), m, &parts, limit(timeout_ms)?))
}

/// `m3_replyv`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_replyv(
    dst: c_int,
    m: *const Message,
    iov: *const libc::iovec,
    count: c_int,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // SAFETY: C lends `iov` and its parts for this call.
    let parts = unsafe { sources(iov, count) };
    call(|| parts::reply(Address(dst), m, &parts))
}

/// `m3_receivev`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_receivev(
    src: c_int,
    m: *mut Message,
    iov: *const libc::iovec,
    count: c_int,
    len: *mut usize,
) -> c_int {
    // SAFETY: as for this function.
    unsafe { m3_receivev_T(src, m, iov, count, len, FOREVER) }
}

/// `m3_receivev_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_receivev_T(
    src: c_int,
    m: *mut Message,
    iov: *const libc::iovec,
    count: c_int,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` and `len` for this call.
    let (m, len) = unsafe { (WritePtr::new(m), WritePtr::new(len)) };
    // SAFETY: C lends `iov` and its parts for this call.
    let parts = unsafe { targets(iov, count) };
    call(|| parts::receive(Address(src), m, &parts, len, limit(timeout_ms)?))
}

/// `m3_sendrecv`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrecv(
    dst: c_int,
    m: *mut Message,
    out: *const libc::iovec,
    out_count: c_int,
    into: *const libc::iovec,
    in_count: c_int,
    len: *mut usize,
) -> c_int {
    // SAFETY: as for this function.
    unsafe { m3_sendrecv_T(dst, m, out, out_count, into, in_count, len, FOREVER) }
}

/// `m3_sendrecv_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn m3_sendrecv_T(
    dst: c_int,
    m: *mut Message,
    out: *const libc::iovec,
    out_count: c_int,
    into: *const libc::iovec,
    in_count: c_int,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` and `len` for this call.
    let (m, len) = unsafe { (WritePtr::new(m), WritePtr::new(len)) };
    // SAFETY: C lends both arrays and their parts for this call. The parts may overlap.
    let (out, into) = unsafe { (sources(out, out_count), targets(into, in_count)) };
    call(|| parts::sendrec(Address(dst), m, &out, &into, len, limit(timeout_ms)?))
}
