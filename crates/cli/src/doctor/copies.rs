//! Copies between processes of this user, tried on a child.

use super::finding::Finding;
use m3ipc_sys::{CopyTarget, Errno};
use std::process::{Command, Stdio};

const NAME: &str = "copies between processes of one user";
const FALLBACK: &str =
    "the other process copies through a bounce buffer of 128 KiB: the same bytes, slower";

/// Runs the checks of this group.
pub fn examine() -> Vec<Finding> {
    vec![match read_of_child() {
        Ok(()) => {
            Finding::ok(NAME, "process_vm_readv and process_vm_writev: one system call per copy")
        }
        Err(errno) => {
            Finding::off(NAME, format!("the kernel refuses process_vm_readv: {errno}"), FALLBACK)
        }
    }]
}

/// Reads a few bytes of the memory of a child.
fn read_of_child() -> Result<(), Errno> {
    let piped = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = piped.map_err(|_none| Errno::CHILD)?;
    let read = read_of(child.id().cast_signed());
    drop(child.stdin.take());
    let _ = child.wait();
    read
}

fn read_of(pid: i32) -> Result<(), Errno> {
    let mut failed = Errno::SRCH;
    let mut bytes = [0; 16];
    for range in m3ipc_sys::memory_ranges(pid)?.iter().filter(|range| range.never_blocks) {
        match m3ipc_sys::copy_from_process(pid, range.start, &CopyTarget::from(&mut bytes[..])) {
            Ok(_) => return Ok(()),
            Err(errno) => failed = errno,
        }
    }
    Err(failed)
}
