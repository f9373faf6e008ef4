//! process_vm_readv(2), process_vm_writev(2) and vmsplice(2), which rustix does not wrap safely.
//!
//! # Safety
//! The local side of each call is a slice of this process. The kernel checks the remote side
//! against the memory of the other process. A page in a pipe stays unchanged until its reader has
//! confirmed the bytes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

/// The location of a block in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The process.
    pub pid: libc::pid_t,
    /// The address of its first byte.
    pub address: usize,
}

/// Copies all of `from` into another process.
pub fn write_to(to: Remote, from: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let remote = libc::iovec { iov_base: to.address as *mut libc::c_void, iov_len: from.len() };
    // SAFETY: `local` is the slice, which this call only reads. The kernel checks the remote range.
    let done =
        unsafe { libc::process_vm_writev(to.pid, &raw const local, 1, &raw const remote, 1, 0) };
    whole(done, from.len())
}

/// Fills `to` from another process.
pub fn read_from(from: Remote, to: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from.address as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: `local` is the exclusive slice. The kernel checks the remote range.
    let done =
        unsafe { libc::process_vm_readv(from.pid, &raw const local, 1, &raw const remote, 1, 0) };
    whole(done, to.len())
}

fn whole(done: isize, bytes: usize) -> io::Result<()> {
    match usize::try_from(done) {
        Ok(done) if done == bytes => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Puts the pages of `bytes` into a pipe without a copy.
///
/// The pages must stay unchanged until the reader has them.
pub fn splice_to(pipe: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let slices = [IoSliceRaw::from_slice(rest)];
        // SAFETY: vmsplice into the write end of a pipe only reads the memory of the slice.
        match unsafe { vmsplice(pipe, &slices, SpliceFlags::empty()) } {
            Ok(done) => rest = &rest[done..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
