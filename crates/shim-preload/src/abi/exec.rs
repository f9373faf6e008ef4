//! exec, and the environment of the next program.
//!
//! # Safety
//! Paths, arguments and environments are the program's: strings that end with a zero, in arrays
//! that end with a null pointer, as execve(2) demands.
#![allow(unsafe_code)]

use crate::next;
use core::ffi::{CStr, c_char, c_int};
use m3ipc_shim::exec::environment::{Additions, NAMES, additions};
use m3ipc_shim::exec::{before_exec, target};

/// An array of strings, as execve(2) has it.
pub type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

/// The environment of this process.
pub fn own_environment() -> Strings {
    // SAFETY: the C library keeps the variable valid.
    unsafe { environ }
}

/// Strings of an environment.
///
/// # Safety
/// `strings` is null or an array as execve(2) has it, which stays for `'a`.
unsafe fn each<'a>(strings: Strings) -> impl Iterator<Item = &'a CStr> {
    let mut at = strings;
    core::iter::from_fn(move || {
        // SAFETY: the caller promises an array that ends with a null pointer.
        if at.is_null() || unsafe { *at }.is_null() {
            return None;
        }
        // SAFETY: as above, and each string ends with a zero.
        let string = unsafe { CStr::from_ptr(*at) };
        // SAFETY: the element was not the last.
        at = unsafe { at.add(1) };
        Some(string)
    })
}

/// The value of a variable in an environment.
///
/// # Safety
/// As execve(2) demands of an environment, for `'a`.
pub unsafe fn variable<'a>(environment: Strings, name: &str) -> Option<&'a CStr> {
    // SAFETY: the caller promises the environment.
    unsafe { each(environment) }.find_map(|entry| {
        let rest = entry.to_bytes_with_nul().strip_prefix(name.as_bytes())?;
        CStr::from_bytes_with_nul(rest.strip_prefix(b"=")?).ok()
    })
}

/// Variables of an environment to which others can be added.
const VARIABLES_MAX: usize = 512;

/// An environment with additions, on the stack of an exec.
struct Environment {
    pointers: [*const c_char; VARIABLES_MAX + NAMES.len() + 1],
}

impl Environment {
    const fn new() -> Self {
        Self { pointers: [core::ptr::null(); VARIABLES_MAX + NAMES.len() + 1] }
    }

    /// The environment with the additions; the same environment where it is too large.
    ///
    /// # Safety
    /// As execve(2) demands of an environment.
    unsafe fn extended(&mut self, environment: Strings, additions: &Additions) -> Strings {
        // SAFETY: the caller promises the environment.
        if unsafe { each(environment) }.count() > VARIABLES_MAX {
            return environment;
        }
        // SAFETY: as above.
        let kept = unsafe { each(environment) }
            .filter(|entry| !entry.to_bytes().starts_with(b"LD_PRELOAD="));
        // The last pointer stays null.
        for (to, from) in self.pointers.iter_mut().zip(kept.chain(additions.variables())) {
            *to = from.as_ptr();
        }
        self.pointers.as_ptr()
    }
}

/// Runs an exec with an environment that names this library, after the sockets were given up that
/// its program cannot use. `loads` says whether the program loads the library.
///
/// # Safety
/// As execve(2) demands of an environment.
pub unsafe fn exec(
    environment: Strings,
    loads: impl FnOnce() -> bool,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    before_exec(loads);
    // SAFETY: the caller promises the environment.
    let Some(additions) = additions(|name| unsafe { variable(environment, name) }) else {
        return call(environment);
    };
    let mut room = Environment::new();
    // SAFETY: as above.
    call(unsafe { room.extended(environment, &additions) })
}

/// A string of the program; `None` for null, which the kernel refuses.
///
/// # Safety
/// `string` is null or ends with a zero, for `'a`.
unsafe fn string<'a>(string: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null (just checked), and the caller promises the rest.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) })
}

/// Whether the program at a path loads the library.
///
/// # Safety
/// `path` is null or ends with a zero.
pub unsafe fn loads_path(directory: c_int, path: *const c_char) -> bool {
    // SAFETY: the caller promises the path.
    unsafe { string(path) }.is_none_or(|path| target::loads_path(directory, path))
}

/// Whether the program of a name, found in `PATH`, loads the library.
///
/// # Safety
/// `name` is null or ends with a zero.
pub unsafe fn loads_name(name: *const c_char) -> bool {
    // SAFETY: the environment of this process is valid.
    let search = unsafe { variable(own_environment(), "PATH") }.map(CStr::to_bytes);
    // SAFETY: the caller promises the name.
    unsafe { string(name) }.is_none_or(|name| target::loads_name(name, search))
}

/// Before the C library starts the shell by itself, with the environment of this process.
pub fn before_shell() {
    before_exec(|| {
        // SAFETY: the environment of this process is valid.
        let lacks = additions(|name| unsafe { variable(own_environment(), name) }).is_some();
        !lacks && target::loads_path(libc::AT_FDCWD, c"/bin/sh")
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program keeps the contract of execve(2).
    let loads = || unsafe { loads_path(libc::AT_FDCWD, path) };
    // SAFETY: as above.
    unsafe { exec(environment, loads, |environment| next::execve(path, argv, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the program keeps the contract of execv(3).
    unsafe { execve(path, argv, own_environment()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program keeps the contract of execvpe(3).
    let loads = || unsafe { loads_name(file) };
    // SAFETY: as above.
    unsafe { exec(environment, loads, |environment| next::execvpe(file, argv, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the program keeps the contract of execvp(3).
    unsafe { execvpe(file, argv, own_environment()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fexecve(fd: c_int, argv: Strings, environment: Strings) -> c_int {
    let loads = || target::loads_fd(fd);
    // SAFETY: the program keeps the contract of fexecve(3).
    unsafe { exec(environment, loads, |environment| next::fexecve(fd, argv, environment)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execveat(
    directory: c_int,
    path: *const c_char,
    argv: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    let loads = || {
        // SAFETY: the program keeps the contract of execveat(2).
        let is_empty = unsafe { string(path) }.is_some_and(CStr::is_empty);
        if flags & libc::AT_EMPTY_PATH != 0 && is_empty {
            return target::loads_fd(directory);
        }
        // SAFETY: as above.
        unsafe { loads_path(directory, path) }
    };
    // SAFETY: as above.
    unsafe {
        exec(environment, loads, |environment| {
            next::execveat(directory, path, argv, environment, flags)
        })
    }
}
