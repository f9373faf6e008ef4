//! The functions of `m3ipc.h` that return texts, and what is known of a failed call.
//!
//! # Safety
//! No function takes a pointer.
#![allow(unsafe_code)]

use crate::{info, reason};
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
    crate::guard::enclosed(reason::last)
}

/// `m3_last_delivery`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_last_delivery() -> c_int {
    crate::guard::enclosed(|| match reason::delivery() {
        Delivery::NotTaken => 0,
        Delivery::Taken => 1,
        Delivery::Unknown => 2,
    })
}

/// `m3_version`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
