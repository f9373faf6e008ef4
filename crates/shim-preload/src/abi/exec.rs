//! exec, and the environment of the next program.
//!
//! # Safety
//! Paths, arguments and environments are the program's: strings that end with a zero, in arrays
//! that end with a null pointer, as execve(2) demands.
#![allow(unsafe_code)]

use crate::next;
use core::ffi::{CStr, c_char, c_int};
use m3ipc_shim::exec::environment::{Additions, NAMES, PRELOAD, additions, take_out};
use m3ipc_shim::exec::{Starter, before_exec, target};

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

/// Takes the library and its variables out of the environment of this process, in place: programs
/// that it executes do not get them.
///
/// # Safety
/// The constructor calls this, while there is one thread. The array and its strings are those that
/// the kernel gave to the program, or a library in its place.
pub unsafe fn leave_environment() {
    let array = own_environment().cast_mut().cast::<*mut c_char>();
    let (mut from, mut to) = (array, array);
    // SAFETY: the array ends with a null pointer, and `to` is never behind `from`.
    unsafe {
        while !from.is_null() && !(*from).is_null() {
            if stays_in_environment(*from) {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        if !to.is_null() {
            *to = core::ptr::null_mut();
        }
    }
}

/// Whether a variable stays. The list of preloaded libraries loses this one.
///
/// # Safety
/// The string ends with a zero, and may be written.
unsafe fn stays_in_environment(entry: *mut c_char) -> bool {
    // SAFETY: the caller promises the string.
    let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
    let Some(equals) = bytes.iter().position(|byte| *byte == b'=') else { return true };
    let (name, length) = (&bytes[..equals], bytes.len() - equals - 1);
    if name != PRELOAD.as_bytes() {
        return !NAMES.iter().any(|own| own.as_bytes() == name);
    }
    // SAFETY: the value of the string, of which no other reference lives.
    let list = unsafe { core::slice::from_raw_parts_mut(entry.add(equals + 1).cast(), length) };
    let left = take_out(list);
    // SAFETY: at most the end of the string.
    unsafe { *entry.add(equals + 1 + left) = 0 };
    left > 0
}

/// Variables of an environment to which others can be added.
const VARIABLES_MAX: usize = 512;

/// An environment with additions, on the stack of an exec.
struct Environment {
    pointers: [*const c_char; VARIABLES_MAX + NAMES.len() + 2],
}

impl Environment {
    /// The environment with what a program with the library needs.
    ///
    /// # Safety
    /// As execve(2) demands of an environment. The result lives as long as this room.
    #[inline(never)]
    unsafe fn extended(&mut self, environment: Strings, additions: &Additions) -> Strings {
        // SAFETY: the caller promises the environment.
        let kept = unsafe { each(environment) }
            .filter(|entry| !entry.to_bytes().starts_with(b"LD_PRELOAD="));
        // The last pointer stays null.
        for (to, from) in self.pointers.iter_mut().zip(kept.chain(additions.variables())) {
            *to = from.as_ptr();
        }
        self.pointers.as_ptr()
    }
}

/// Whether an environment has room for what a program with the library needs.
///
/// # Safety
/// As execve(2) demands of an environment.
#[inline(never)]
unsafe fn can_be_extended(environment: Strings) -> bool {
    // SAFETY: the caller promises the environment.
    unsafe {
        each(environment).count() <= VARIABLES_MAX
            && additions(|name| variable(environment, name)).is_some()
    }
}

/// Runs an exec after the sockets were given up that its program cannot use. A program that is to
/// load the library gets an environment that names it. `loads` says whether it would.
/// A program whose environment has no room for that runs without the library.
///
/// # Safety
/// As execve(2) demands of an environment.
pub unsafe fn exec(
    starter: Starter,
    environment: Strings,
    loads: impl FnOnce() -> bool,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller promises the environment.
    let loads = || loads() && unsafe { can_be_extended(environment) };
    if !before_exec(starter, loads) {
        return call(environment);
    }
    // SAFETY: the caller promises the environment.
    unsafe { exec_with(environment, call) }
}

/// Runs an exec of a program that loads the library.
///
/// # Safety
/// As execve(2) demands of an environment.
#[inline(never)]
unsafe fn exec_with(environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: the caller promises the environment.
    let Some(additions) = additions(|name| unsafe { variable(environment, name) }) else {
        return call(environment);
    };
    let mut room = Environment { pointers: [core::ptr::null(); VARIABLES_MAX + NAMES.len() + 2] };
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

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program keeps the contract of execve(2).
    let loads = || unsafe { loads_path(libc::AT_FDCWD, path) };
    // SAFETY: as above.
    unsafe {
        exec(Starter::Ends, environment, loads, |environment| next::execve(path, argv, environment))
    }
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
    unsafe {
        exec(Starter::Ends, environment, loads, |environment| {
            next::execvpe(file, argv, environment)
        })
    }
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
    unsafe {
        exec(Starter::Ends, environment, loads, |environment| next::fexecve(fd, argv, environment))
    }
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
        exec(Starter::Ends, environment, loads, |environment| {
            next::execveat(directory, path, argv, environment, flags)
        })
    }
}
