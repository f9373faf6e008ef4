//! The numbers of descriptors: none of the library lies on 0, 1 or 2.
//!
//! A program may start with a closed standard stream. The kernel gives that number to the next
//! descriptor, and the program then prints into it. So each function of this crate that makes or
//! receives a descriptor moves it above the standard streams.
//!
//! # Safety
//! The calls take integers only.
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// The first number that belongs to no standard stream.
const FIRST: i32 = 3;
/// The descriptors that a system without close_range(2) looks at.
const LOOKED_AT: i32 = 1 << 16;

/// The same descriptor, close-on-exec and above the standard streams.
///
/// # Errors
/// `MFILE`.
///
/// # Source
/// fcntl(2), `F_DUPFD_CLOEXEC`
pub fn above_standard(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { fcntl_dupfd_cloexec(&fd, FIRST) }
}

/// Closes all descriptors but the standard streams at the next exec of this process.
///
/// # Source
/// close_range(2), `CLOSE_RANGE_CLOEXEC`
pub(crate) fn close_at_exec() {
    // SAFETY: three integers.
    let closed =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if closed != 0 {
        for number in FIRST..LOOKED_AT {
            // SAFETY: the flag changes nothing before the exec; a number without a descriptor is
            // an error of the call.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}
