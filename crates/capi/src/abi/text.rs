//! The functions of `m3ipc.h` that return texts, and what a thread knows of its last calls.
//!
//! # Safety
//! No function takes a pointer.
#![allow(unsafe_code)]

use crate::guard::{call, enclosed};
use crate::{info, reason, received};
use core::ffi::{c_char, c_int};
use m3ipc::Delivery;

/// `m3_strerror`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_strerror(code: c_int) -> *const c_char {
    info::text_of(code).as_ptr()
}

/// `m3_last_reason`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_last_reason() -> *const c_char {
    enclosed(reason::last)
}

/// `m3_last_delivery`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_last_delivery() -> c_int {
    enclosed(|| match reason::delivery() {
        Delivery::NotTaken => 0,
        Delivery::Taken => 1,
        Delivery::Unknown => 2,
    })
}

/// `m3_last_block_kept`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_last_block_kept() -> c_int {
    enclosed(|| c_int::from(reason::has_block()))
}

/// `m3_last_kind`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_last_kind() -> c_int {
    call(received::last)
}

/// `m3_version`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
