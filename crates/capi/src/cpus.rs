//! The CPUs on which a process may run.
//!
//! # Safety
//! The one system call writes to a buffer of ours, of the given size.
#![allow(unsafe_code)]

use crate::records::CpuMask;
use core::ffi::c_int;

/// The CPUs on which a process may run; empty if the process has ended.
///
/// # Source
/// sched_setaffinity(2)
pub(crate) fn of_process(pid: c_int) -> CpuMask {
    let mut mask = CpuMask::default();
    // SAFETY: the kernel writes at most the given size to the live mask.
    let _bytes =
        unsafe { libc::sched_getaffinity(pid, size_of::<CpuMask>(), (&raw mut mask).cast()) };
    mask
}
