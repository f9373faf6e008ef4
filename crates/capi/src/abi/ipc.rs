//! The functions of `m3ipc/ipc.h` without `_long`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`].
#![allow(unsafe_code)]

use crate::guard::{call, limit};
use crate::memory::{ReadPtr, WritePtr};
use crate::payload::Delivery;
use crate::records::M3Peer;
use crate::{fast, info, ipc, pulse, watch};
use core::ffi::{c_int, c_long};
use m3ipc::{Address, Message, Timeout};

/// Runs a call with the time limit of its `_T` form.
#[inline]
fn with_limit(timeout_ms: c_long, body: impl FnOnce(Timeout) -> c_int) -> c_int {
    match limit(timeout_ms) {
        Ok(limit) => body(limit),
        Err(failure) => failure.tell(),
    }
}

/// `mnx_send`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_send(dst: c_int, m: *const Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    fast::send(Address(dst), m, Timeout::Never)
}

/// `mnx_send_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_send_T(dst: c_int, m: *const Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    with_limit(timeout_ms, |limit| fast::send(Address(dst), m, limit))
}

/// `mnx_receive`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_receive(src: c_int, m: *mut Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    fast::receive(Address(src), m, Timeout::Never)
}

/// `mnx_receive_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_receive_T(src: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    with_limit(timeout_ms, |limit| fast::receive(Address(src), m, limit))
}

/// `mnx_sendrec`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_sendrec(dst: c_int, m: *mut Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    fast::sendrec(Address(dst), m, Timeout::Never)
}

/// `mnx_sendrec_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_sendrec_T(dst: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    with_limit(timeout_ms, |limit| fast::sendrec(Address(dst), m, limit))
}

/// `mnx_rcvrqst`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_rcvrqst(m: *mut Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    call(|| ipc::receive_request(Delivery::plain(m), Timeout::Never))
}

/// `mnx_rcvrqst_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_rcvrqst_T(m: *mut Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    call(|| ipc::receive_request(Delivery::plain(m), limit(timeout_ms)?))
}

/// `mnx_reply`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_reply(dst: c_int, m: *const Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    fast::reply(Address(dst), m)
}

/// `mnx_reply_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_reply_T(dst: c_int, m: *const Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    // The call never waits: the limit is only checked.
    with_limit(timeout_ms, |_limit| fast::reply(Address(dst), m))
}

/// `m3_reply_receive`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_reply_receive(
    dst: c_int,
    m: *mut Message,
    answered: *mut c_int,
) -> c_int {
    // SAFETY: C lends `m` and `answered` for this call.
    let (m, answered) = unsafe { (WritePtr::new(m), WritePtr::new(answered)) };
    fast::reply_receive(Address(dst), m, answered, Timeout::Never)
}

/// `m3_reply_receive_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_reply_receive_T(
    dst: c_int,
    m: *mut Message,
    answered: *mut c_int,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` and `answered` for this call.
    let (m, answered) = unsafe { (WritePtr::new(m), WritePtr::new(answered)) };
    match limit(timeout_ms) {
        Ok(limit) => fast::reply_receive(Address(dst), m, answered, limit),
        // `answered` comes before any check that may fail.
        Err(failure) => call(|| ipc::tell_answered(answered, false).and(Err(failure))),
    }
}

/// `mnx_relay`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_relay(dst: c_int, m: *const Message) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| ipc::relay(Address(dst), m, Timeout::Never))
}

/// `mnx_relay_T`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_relay_T(dst: c_int, m: *const Message, timeout_ms: c_long) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { ReadPtr::new(m) };
    call(|| ipc::relay(Address(dst), m, limit(timeout_ms)?))
}

/// `mnx_notify`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_notify(dst: c_int) -> c_int {
    fast::notify(Address(dst))
}

/// `mnx_src_notify`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_src_notify(src_nr: c_int, dst: c_int) -> c_int {
    call(|| ipc::notify_as(src_nr, Address(dst)))
}

/// `mnx_ntfy_value`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_ntfy_value(src_nr: c_int, dst: c_int, value: c_int) -> c_int {
    call(|| ipc::notify_with(src_nr, Address(dst), u64::from(value.cast_unsigned())))
}

/// `mnx_hdw_notify`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_hdw_notify(vmid: c_int, dst: c_int) -> c_int {
    call(|| ipc::notify_as_hardware(vmid, Address(dst)))
}

/// `mnx_wakeup`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wakeup(vmid: c_int, ep: c_int) -> c_int {
    call(|| ipc::wake(vmid, Address(ep)))
}

/// `m3_pulse_send`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_pulse_send(dst: c_int, code: c_int, value: u64) -> c_int {
    call(|| pulse::send(Address(dst), code, value))
}

/// `m3_pulse_pending`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_pulse_pending(dst: c_int) -> c_int {
    call(|| pulse::pending(Address(dst)))
}

/// `m3_timer`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_timer(code: c_int, value: u64, first_ns: u64, period_ns: u64) -> c_int {
    call(|| pulse::set_timer(code, value, first_ns, period_ns))
}

/// `m3_timer_cancel`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_timer_cancel(timer: c_int) -> c_int {
    call(|| pulse::cancel_timer(timer))
}

/// `m3_watch`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_watch(ep: c_int) -> c_int {
    call(|| watch::watch(Address(ep)))
}

/// `m3_unwatch`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_unwatch(ep: c_int) -> c_int {
    call(|| watch::unwatch(Address(ep)))
}

/// `m3_watch_all`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_watch_all(on: c_int) -> c_int {
    call(|| watch::watch_all(on))
}

/// `m3_kind`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_kind() -> c_int {
    call(watch::kind)
}

/// `m3_set_wait`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_set_wait(wait: c_int) -> c_int {
    call(|| watch::set_wait(wait))
}

/// `m3_set_priority`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_set_priority(priority: c_int) -> c_int {
    call(|| watch::set_priority(priority))
}

/// `m3_priority`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_priority() -> c_int {
    call(watch::priority)
}

/// `m3_set_inheritance`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_set_inheritance(inheritance: c_int) -> c_int {
    call(|| watch::set_inheritance(inheritance))
}

/// `m3_peer`: see `m3ipc/ipc.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_peer(peer: *mut M3Peer) -> c_int {
    // SAFETY: C lends `peer` for this call.
    let peer = unsafe { WritePtr::new(peer) };
    call(|| {
        peer.write(info::peer()?)?;
        Ok(0)
    })
}

/// `m3_fd`: see `m3ipc/ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_fd() -> c_int {
    call(info::poll_fd)
}
