//! Programs that are started in one call.

use super::{process, target};
use crate::look;
use crate::next;
use core::ffi::{c_char, c_int, c_void};
use libc::pid_t;
use m3ipc_shim::engine::Pin;

type Envp = *const *const c_char;

/// No environment is an empty one: it is passed on as it is.
unsafe fn spawn(
    envp: Envp,
    ours: impl FnOnce() -> bool,
    call: impl FnOnce(Envp) -> c_int,
) -> c_int {
    if envp.is_null() {
        return call(envp);
    }
    process::with(envp, ours, call)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Envp,
    envp: Envp,
) -> c_int {
    let ours = || target::is_ours(libc::AT_FDCWD, path);
    spawn(envp, ours, |envp| next::posix_spawn(pid, path, actions, attributes, argv, envp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Envp,
    envp: Envp,
) -> c_int {
    let ours = || target::is_ours_in_path(file);
    spawn(envp, ours, |envp| next::posix_spawnp(pid, file, actions, attributes, argv, envp))
}

/// The socket becomes another program's input or output; which program's, nobody knows yet.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    to: c_int,
) -> c_int {
    if look::known(fd).is_some() {
        look::pin(fd, Pin::Exec, false);
    }
    next::posix_spawn_file_actions_adddup2(actions, fd, to)
}
