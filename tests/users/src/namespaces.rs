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
    // SAFETY: one thread; see the head of this file.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|_refused| Errno::PERM)?;
    }
    Ok(())
}

/// Enters a mount namespace in which /run is empty.
pub fn hide_run() -> Result<(), Errno> {
    // SAFETY: one thread; see the head of this file.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount("tmpfs", Path::new("/run"), "tmpfs", MountFlags::empty(), c"mode=755")
}
