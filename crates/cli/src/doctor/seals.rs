//! The self-test of the seals: on them rests that a reader stays a reader.
//!
//! The writer maps first; then the memory is sealed against new writers; from
//! then on every way to a second writable view must fail, and reading must go on.

use super::Finding;
use m3ipc_sys::{Mapping, create_memory, seal_against_new_writers};
use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::io::{Errno, write};
use std::os::fd::AsRawFd;

const BYTES: usize = 4096;

pub fn examine() -> Vec<Finding> {
    match tried() {
        Ok(findings) => findings,
        Err(errno) => vec![Finding::missing(
            "seals",
            format!("could not be tried: {errno}"),
            "allow memfd_create, fcntl and mmap in the seccomp filter",
        )],
    }
}

fn tried() -> Result<Vec<Finding>, Errno> {
    let memory = create_memory("m3-doctor", BYTES as u64)?;
    let first = Mapping::new(&memory, BYTES, true)?;
    seal_against_new_writers(&memory)?;
    let again = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let reopened = open(again.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let through_proc = reopened.and_then(|reopened| Mapping::new(&reopened, BYTES, true).map(drop));
    let findings = vec![
        granted("the writer maps", first.is_writable()),
        refused("second writer", Mapping::new(&memory, BYTES, true).map(drop)),
        refused("writer through /proc", through_proc),
        refused("write(2)", write(&memory, b"x").map(drop)),
        refused("shrink", ftruncate(&memory, 0)),
        refused("grow", ftruncate(&memory, 2 * BYTES as u64)),
        refused("unseal", m3ipc_sys::seal_size(&memory)),
        granted("a reader maps", Mapping::new(&memory, BYTES, false).is_ok()),
    ];
    drop(first);
    Ok(findings)
}

fn granted(name: &'static str, works: bool) -> Finding {
    if works {
        Finding::ok(name, "works")
    } else {
        Finding::missing(
            name,
            "refused",
            "this kernel's memfd is not what m3ipc relies on; use a stock kernel",
        )
    }
}

fn refused(name: &'static str, tried: Result<(), Errno>) -> Finding {
    match tried {
        Err(errno) => Finding::ok(name, format!("refused ({errno})")),
        Ok(()) => Finding::missing(
            name,
            "WORKED, and must not",
            "do not use m3ipc on this kernel against hostile members",
        ),
    }
}
