//! The self-test of the seals, which keep readers of shared memory from writing.
//!
//! The writer maps the memory and seals it against new writers. From then on every attempt at a
//! second writable mapping must fail, and reading must work.

use super::finding::Finding;
use m3ipc_sys::{Mapping, create_sealable_memory, seal_against_new_writers};
use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::io::{Errno, write};
use std::os::fd::AsRawFd;

const BYTES: usize = 4096;

/// Runs the checks of this group.
pub fn examine() -> Vec<Finding> {
    match attempts() {
        Ok(findings) => findings,
        Err(errno) => vec![Finding::missing(
            "seals",
            format!("the trial failed: {errno}"),
            "allow memfd_create, fcntl and mmap in the seccomp filter",
        )],
    }
}

fn attempts() -> Result<Vec<Finding>, Errno> {
    let memory = create_sealable_memory("m3-doctor", BYTES as u64)?;
    let writer = Mapping::new(&memory, BYTES, true)?;
    seal_against_new_writers(&memory)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let reopened = open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let through_proc = reopened.and_then(|reopened| Mapping::new(&reopened, BYTES, true).map(drop));
    let findings = vec![
        must_work("the writer maps", writer.is_writable()),
        must_fail("second writer", Mapping::new(&memory, BYTES, true).map(drop)),
        must_fail("writer through /proc", through_proc),
        must_fail("write(2)", write(&memory, b"x").map(drop)),
        must_fail("shrink", ftruncate(&memory, 0)),
        must_fail("grow", ftruncate(&memory, 2 * BYTES as u64)),
        must_fail("unseal", m3ipc_sys::seal_size(&memory)),
        must_work("a reader maps", Mapping::new(&memory, BYTES, false).is_ok()),
    ];
    drop(writer);
    Ok(findings)
}

fn must_work(name: &'static str, works: bool) -> Finding {
    if works {
        Finding::ok(name, "works")
    } else {
        Finding::missing(
            name,
            "refused",
            "memfd differs from the one that m3ipc relies on; use an unmodified Linux kernel",
        )
    }
}

fn must_fail(name: &'static str, attempt: Result<(), Errno>) -> Finding {
    match attempt {
        Err(errno) => Finding::ok(name, format!("refused ({errno})")),
        Ok(()) => Finding::missing(
            name,
            "WORKED, but must fail",
            "do not use m3ipc on this kernel against hostile members",
        ),
    }
}
