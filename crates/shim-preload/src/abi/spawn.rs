//! posix_spawn, and the functions that start the shell.
//!
//! # Safety
//! All arguments go on to the C library unchanged, but for the environment (see `exec`).
#![allow(unsafe_code)]

use super::exec::{Strings, exec, loads_name, loads_path};
use crate::next;
use core::ffi::{CStr, c_char, c_int, c_void};
use libc::{FILE, pid_t};
use m3ipc_shim::exec::{Starter, before_exec, duplicated_in_spawn};
use m3ipc_shim::lifecycle::opened_plain;
use m3ipc_shim::process::library_files;

/// Runs a spawn. A null environment is an empty one; its program inherits sockets all the same.
///
/// # Safety
/// As posix_spawn(3) demands of an environment.
unsafe fn spawn(
    environment: Strings,
    loads: impl FnOnce() -> bool,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller promises the environment.
    unsafe { exec(Starter::Stays, environment, loads, call) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program keeps the contract of posix_spawn(3).
    let loads = || unsafe { loads_path(libc::AT_FDCWD, path) };
    // SAFETY: as above.
    unsafe {
        spawn(environment, loads, |environment| {
            next::posix_spawn(pid, path, actions, attributes, argv, environment)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program keeps the contract of posix_spawnp(3).
    let loads = || unsafe { loads_name(file) };
    // SAFETY: as above.
    unsafe {
        spawn(environment, loads, |environment| {
            next::posix_spawnp(pid, file, actions, attributes, argv, environment)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    to: c_int,
) -> c_int {
    duplicated_in_spawn(fd);
    // SAFETY: the program keeps the contract of the function.
    unsafe { next::posix_spawn_file_actions_adddup2(actions, fd, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    if !command.is_null() {
        before_exec(Starter::Stays, || false);
    }
    // SAFETY: the program keeps the contract of system(3).
    unsafe { next::system(command) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    before_exec(Starter::Stays, || false);
    // SAFETY: the program keeps the contract of popen(3).
    let file = unsafe { next::popen(command, mode) };
    if !file.is_null() {
        // SAFETY: the C library has read the mode, and returned this file.
        let (fd, mode) = unsafe { (libc::fileno(file), CStr::from_ptr(mode)) };
        opened_plain(fd);
        library_files::note(fd, mode.to_bytes());
    }
    file
}

/// The flag of `wordexp` that forbids commands, and so the shell.
const WRDE_NOCMD: c_int = 1 << 2;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn wordexp(
    words: *const c_char,
    into: *mut c_void,
    flags: c_int,
) -> c_int {
    if flags & WRDE_NOCMD == 0 {
        before_exec(Starter::Stays, || false);
    }
    // SAFETY: the program keeps the contract of wordexp(3).
    unsafe { next::wordexp(words, into, flags) }
}
