//! Socket options.
//!
//! # Safety
//! The value and its length are the program's, valid as getsockopt(2) demands. The value is read
//! only where the option may concern a socket of ours, and where it is readable.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{c_int, c_void};
use libc::socklen_t;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::options::{self, Setting};

/// The integer in the program's memory, where the memory is long enough.
///
/// # Safety
/// `value` is null or valid for `length` bytes.
unsafe fn integer(value: *const c_void, length: socklen_t) -> Option<c_int> {
    let fits = length as usize >= size_of::<c_int>() && is_readable(value.cast::<c_int>(), 1);
    // SAFETY: readable and long enough (just checked).
    fits.then(|| unsafe { value.cast::<c_int>().read_unaligned() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if let Some(code) = options::refusal(fd, level, name) {
        return errno::fail(code);
    }
    // SAFETY: setsockopt(2) gets `length` bytes.
    let integer = || unsafe { integer(value, length) };
    let setting = options::setting(fd, level, name, integer);
    if matches!(setting, Setting::Done) {
        return 0;
    }
    // SAFETY: the program keeps the contract of setsockopt(2).
    let result = unsafe { next::setsockopt(fd, level, name, value, length) };
    if let Setting::MayChange(before) = setting
        && result == 0
    {
        before.pin_if_changed(fd, level, name);
    }
    result
}

/// An option whose value is bytes of the stream; Linux 4.18.
const TCP_ZEROCOPY_RECEIVE: c_int = 35;
/// Offsets in `struct tcp_zerocopy_receive`: bytes that were mapped, bytes that the program must
/// receive by other calls, bytes that were copied.
const MAPPED_AT: usize = 8;
const LEFT_AT: usize = 12;
const COPIED_AT: usize = 32;

/// Answers [`TCP_ZEROCOPY_RECEIVE`] while `bytes` lie in the ring: nothing was mapped or copied,
/// and so many bytes must be received by other calls. `None` where the kernel must refuse.
///
/// # Safety
/// As getsockopt(2) demands.
unsafe fn receive_none(value: *mut c_void, length: *mut socklen_t, bytes: usize) -> Option<c_int> {
    if !is_readable(length, 1) {
        return None;
    }
    // SAFETY: readable (just checked).
    let room = unsafe { *length } as usize;
    if room < LEFT_AT + size_of::<u32>() || !is_readable(value.cast::<u8>(), room) {
        return None;
    }
    let left = u32::try_from(bytes).unwrap_or(u32::MAX);
    for (at, word) in [(MAPPED_AT, 0), (LEFT_AT, left), (COPIED_AT, 0)] {
        if at + size_of::<u32>() <= room {
            // SAFETY: getsockopt(2) may write `room` bytes here.
            unsafe { value.byte_add(at).cast::<u32>().write_unaligned(word) };
        }
    }
    Some(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if (level, name) == (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE)
        && let Some(bytes) = options::bytes_of_ring(fd)
    {
        // SAFETY: the program keeps the contract of getsockopt(2).
        if let Some(result) = unsafe { receive_none(value, length, bytes) } {
            return result;
        }
    }
    // SAFETY: the program keeps the contract of getsockopt(2).
    let result = unsafe { next::getsockopt(fd, level, name, value, length) };
    if result == 0
        // SAFETY: getsockopt(2) succeeded, so the length is valid.
        && unsafe { *length } as usize == size_of::<c_int>()
    {
        // SAFETY: the kernel has just written an integer here.
        let found = unsafe { value.cast::<c_int>().read_unaligned() };
        if let Some(kept) = options::value_of(fd, level, name, found) {
            // SAFETY: as above.
            unsafe { value.cast::<c_int>().write_unaligned(kept) };
        }
    }
    result
}
