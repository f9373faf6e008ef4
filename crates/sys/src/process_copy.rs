//! Copies between the memory of two processes, by the kernel.
//!
//! The kernel checks every address. An unmapped address ends the copy, with `FAULT` or with the
//! number of bytes before it. No code here reads or writes memory through a reference.
//!
//! # Safety
//! The own side is a [`CopySource`] or [`CopyTarget`], for which a party vouched. The other side is
//! the memory of a process that waits in a call by agreement; the caller ensures that.
#![allow(unsafe_code)]

use crate::copy_range::{CopySource, CopyTarget};
use crate::errno::last_error;
use rustix::io::Errno;

fn remote(address: u64, bytes: usize) -> Result<libc::iovec, Errno> {
    let address = usize::try_from(address).map_err(|_beyond| Errno::FAULT)?;
    Ok(libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(address), iov_len: bytes })
}

pub(crate) fn copied(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_negative| last_error())
}

/// Copies into another process, up to its first unmapped byte. Returns the copied bytes.
///
/// # Errors
/// `FAULT` if no byte could be copied; `SRCH`, `PERM`; the errors of a seccomp filter.
///
/// # Source
/// process_vm_writev(2)
#[inline]
pub fn copy_to_process(pid: i32, address: u64, from: &CopySource<'_>) -> Result<usize, Errno> {
    let (local, remote) = (from.local(), remote(address, from.bytes())?);
    // SAFETY: the kernel checks both ranges. A party vouched for the local range; the call only
    // reads it.
    copied(unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Copies out of another process, up to its first unmapped byte. Returns the copied bytes.
///
/// # Errors
/// Those of [`copy_to_process`].
///
/// # Source
/// process_vm_readv(2)
#[inline]
pub fn copy_from_process(pid: i32, address: u64, into: &CopyTarget<'_>) -> Result<usize, Errno> {
    let (local, remote) = (into.local(), remote(address, into.bytes())?);
    // SAFETY: the kernel checks both ranges. A party vouched for the local range, which the call
    // writes.
    copied(unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Whether a process still has memory. An ending process loses it at some point and copies no more.
/// `true` if the kernel does not say.
///
/// # Source
/// process_vm_readv(2): ESRCH
#[must_use]
pub fn has_memory(pid: i32) -> bool {
    let mut byte = [0];
    // No process has a mapping at address 8.
    copy_from_process(pid, 8, &CopyTarget::from(&mut byte[..])) != Err(Errno::SRCH)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_has_memory() {
        assert!(has_memory(crate::process_id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        // A zombie is a process without memory.
        while has_memory(pid) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(!has_memory(i32::MAX));
    }

    #[test]
    fn an_unmapped_address_is_an_error() {
        let sent = [7; 64];
        let pid = crate::process_id();
        assert_eq!(copy_to_process(pid, 8, &CopySource::from(&sent[..])), Err(Errno::FAULT));
        assert_eq!(copy_from_process(pid, 8, &crate::lent_target(8, 100)), Err(Errno::FAULT));
        let mut got = [0; 64];
        let address = sent.as_ptr().expose_provenance() as u64;
        assert_eq!(copy_from_process(pid, address, &CopyTarget::from(&mut got[..])), Ok(64));
        assert_eq!(got, sent);
    }
}
