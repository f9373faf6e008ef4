//! The functions of `m3ipc/ipc.h` with `_long`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`]. A request and its answer may use the same memory:
//! the code behind copies the request before it writes the answer.
#![allow(unsafe_code)]

use crate::guard::{call, limit};
use crate::ipc;
use crate::memory::{ReadBytes, ReadPtr, WriteBytes, WritePtr};
use crate::payload::Delivery;
use core::ffi::{c_int, c_long, c_void};
use m3ipc::{Address, Message, Timeout};

/// `m3_send_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send_long(
    dst: c_int,
    m: *const Message,
    buf: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // SAFETY: C lends `len` bytes at `buf` for this call.
    let bytes = unsafe { ReadBytes::new(buf, len) };
    call(|| ipc::send(Address(dst), m, bytes, Timeout::Never))
}

/// `m3_send_long_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_send_long_T(
    dst: c_int,
    m: *const Message,
    buf: *const c_void,
    len: usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // SAFETY: C lends `len` bytes at `buf` for this call.
    let bytes = unsafe { ReadBytes::new(buf, len) };
    call(|| ipc::send(Address(dst), m, bytes, limit(timeout_ms)?))
}

/// `m3_reply_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_reply_long(
    dst: c_int,
    m: *const Message,
    buf: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // SAFETY: C lends `len` bytes at `buf` for this call.
    let bytes = unsafe { ReadBytes::new(buf, len) };
    call(|| ipc::reply(Address(dst), m, bytes))
}

/// `m3_reply_receive_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn m3_reply_receive_long(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
    answered: *mut c_int,
) -> c_int {
    // SAFETY: C lends `m` and `answered` for this call.
    let (m, answered) = unsafe { (WritePtr::new(m), WritePtr::new(answered)) };
    // SAFETY: C lends `out_len` bytes at `out` for this call. They may overlap `into`.
    let out = unsafe { ReadBytes::new(out, out_len) };
    // SAFETY: C lends `cap` bytes at `into` for this call.
    let into = unsafe { WriteBytes::new(into, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    let into = Delivery::long(m, into, len);
    call(|| ipc::tell_and_reply_receive_long(Address(dst), out, into, answered, Timeout::Never))
}

/// `m3_reply_receive_long_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn m3_reply_receive_long_T(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
    answered: *mut c_int,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` and `answered` for this call.
    let (m, answered) = unsafe { (WritePtr::new(m), WritePtr::new(answered)) };
    // SAFETY: C lends `out_len` bytes at `out` for this call. They may overlap `into`.
    let out = unsafe { ReadBytes::new(out, out_len) };
    // SAFETY: C lends `cap` bytes at `into` for this call.
    let into = unsafe { WriteBytes::new(into, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    let into = Delivery::long(m, into, len);
    call(|| match limit(timeout_ms) {
        Ok(limit) => ipc::tell_and_reply_receive_long(Address(dst), out, into, answered, limit),
        // `answered` comes before any check that may fail.
        Err(failure) => ipc::tell_answered(answered, false).and(Err(failure)),
    })
}

/// `m3_receive_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_receive_long(
    src: c_int,
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `cap` bytes at `buf` for this call.
    let bytes = unsafe { WriteBytes::new(buf, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::receive(Address(src), Delivery::long(m, bytes, len), Timeout::Never))
}

/// `m3_receive_long_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_receive_long_T(
    src: c_int,
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `cap` bytes at `buf` for this call.
    let bytes = unsafe { WriteBytes::new(buf, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::receive(Address(src), Delivery::long(m, bytes, len), limit(timeout_ms)?))
}

/// `m3_rcvrqst_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_rcvrqst_long(
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `cap` bytes at `buf` for this call.
    let bytes = unsafe { WriteBytes::new(buf, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::receive_request(Delivery::long(m, bytes, len), Timeout::Never))
}

/// `m3_rcvrqst_long_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_rcvrqst_long_T(
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `cap` bytes at `buf` for this call.
    let bytes = unsafe { WriteBytes::new(buf, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::receive_request(Delivery::long(m, bytes, len), limit(timeout_ms)?))
}

/// `m3_sendrec_long`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_long(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `out_len` bytes at `out` for this call. They may overlap `into`.
    let out = unsafe { ReadBytes::new(out, out_len) };
    // SAFETY: C lends `cap` bytes at `into` for this call.
    let into = unsafe { WriteBytes::new(into, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::sendrec(Address(dst), m, out, Delivery::long(m, into, len), Timeout::Never))
}

/// `m3_sendrec_long_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn m3_sendrec_long_T(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `out_len` bytes at `out` for this call. They may overlap `into`.
    let out = unsafe { ReadBytes::new(out, out_len) };
    // SAFETY: C lends `cap` bytes at `into` for this call.
    let into = unsafe { WriteBytes::new(into, cap) };
    // SAFETY: C lends `len` for this call.
    let len = unsafe { WritePtr::new(len) };
    call(|| ipc::sendrec(Address(dst), m, out, Delivery::long(m, into, len), limit(timeout_ms)?))
}
