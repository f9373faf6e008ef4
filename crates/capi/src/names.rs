//! Names of endpoints.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::guard::{FOREVER, Refused, call, limit};
use crate::{current, memory};
use core::ffi::{c_char, c_int, c_long};
use m3ipc::Code;

/// `M3_NAME_MAX`.
const NAME_MAX_BYTES: usize = 63;

/// `m3_name_attach`: the caller's endpoint gets a name.
///
/// # Safety
/// `name` is a text that ends with a zero; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_name_attach(name: *const c_char) -> c_int {
    call(|| {
        current::with(|member| {
            member.endpoint.name_attach(&text(name)?)?;
            Ok(0)
        })
    })
}

/// `m3_name_locate`: the endpoint that has a name.
///
/// # Safety
/// As [`m3_name_attach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_name_locate(name: *const c_char) -> c_int {
    call(|| current::with(|member| Ok(member.endpoint.name_locate(&text(name)?)?.0)))
}

/// `m3_wait4name`: waits until an endpoint has a name.
///
/// # Safety
/// As [`m3_name_attach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_wait4name(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { m3_wait4name_T(name, FOREVER) }
}

/// `m3_wait4name_T`: the same with a limit.
///
/// # Safety
/// As [`m3_name_attach`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_wait4name_T(name: *const c_char, timeout_ms: c_long) -> c_int {
    call(|| {
        let limit = limit(timeout_ms)?;
        current::with(|member| Ok(member.endpoint.wait_name(&text(name)?, limit)?.0))
    })
}

/// A name of C: 1 to 63 bytes of UTF-8.
fn text(name: *const c_char) -> Result<String, Refused> {
    let text = memory::read_text(name, NAME_MAX_BYTES)?.map_err(|_too_long| Code::NameSize)?;
    let text = String::from_utf8(text).map_err(|_no_text| Code::Inval)?;
    if text.is_empty() { Err(Code::Inval.into()) } else { Ok(text) }
}
