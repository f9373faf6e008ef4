//! The environment, as far as a program may obey it.
//!
//! A program with more rights than its caller (set-user-ID, set-group-ID, file capabilities) takes
//! no orders from the caller's environment.
//!
//! # Safety
//! `getauxval` takes an integer.
#![allow(unsafe_code)]

use std::ffi::OsString;

/// Whether this program has more rights than the program that started it.
///
/// # Source
/// getauxval(3), `AT_SECURE`
#[must_use]
pub fn is_privileged_program() -> bool {
    // SAFETY: the call takes an integer, and returns one.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of an environment variable. `None` for an empty value, and always in a program with
/// more rights than its caller.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if is_privileged_program() {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value of an environment variable as text, as [`variable`] gives it.
#[must_use]
pub fn text_variable(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}
