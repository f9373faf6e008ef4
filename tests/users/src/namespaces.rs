//! Namespaces of a process of one thread.
//!
//! # Safety
//! `unshare` changes neither memory nor descriptors for the flags used here.
#![allow(unsafe_code)]

use m3ipc_sys::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::path::Path;

/// Enters a user namespace that maps this user alone.
pub fn enter_user_namespace() -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    enter_mapped(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"))
}

/// Enters a PID namespace: the next child is its first process.
pub fn enter_pid_namespace() -> Result<(), Errno> {
    // SAFETY: one thread; see the head of this file.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }
}

fn enter_mapped(users: &str, groups: &str) -> Result<(), Errno> {
    // SAFETY: one thread; see the head of this file.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    for (file, text) in [("setgroups", "deny"), ("uid_map", users), ("gid_map", groups)] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|_refused| Errno::PERM)?;
    }
    Ok(())
}

/// Enters a mount namespace in which /run and /var/log are empty.
pub fn hide_run() -> Result<(), Errno> {
    // SAFETY: one thread; see the head of this file.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    ["/run", "/var/log"].into_iter().try_for_each(|place| {
        mount("tmpfs", Path::new(place), "tmpfs", MountFlags::empty(), c"mode=755")
    })
}
