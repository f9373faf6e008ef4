//! The functions of `m3ipc.h` that return texts.
//!
//! # Safety
//! No function takes a pointer.
#![allow(unsafe_code)]

use crate::info;
use core::ffi::{c_char, c_int};

/// `m3_strerror`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_strerror(code: c_int) -> *const c_char {
    info::text_of(code).as_ptr()
}

/// `m3_version`: see `m3ipc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
