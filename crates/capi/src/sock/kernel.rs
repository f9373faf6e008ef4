//! The system calls of sockets.
//!
//! # Safety
//! Each call gets integers, descriptors, and buffers of ours with their size. Only [`close`] closes
//! a descriptor.
#![allow(unsafe_code)]

use super::posix::{PosixResult, errno_of};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use libc::socklen_t;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

fn last_errno() -> m3ipc_sockets::Errno {
    errno_of(&std::io::Error::last_os_error())
}

fn checked(result: c_int) -> PosixResult {
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

/// A Unix socket of the type SOCK_STREAM or SOCK_DGRAM. `cloexec` is 0 or SOCK_CLOEXEC.
///
/// # Source
/// socket(2)
pub(super) fn socket(kind: c_int, cloexec: c_int) -> PosixResult<OwnedFd> {
    // SAFETY: three integers.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, kind | cloexec, 0) })?;
    // SAFETY: the kernel has just made the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lends a descriptor of the program to a body that passes it to the kernel alone.
pub(super) fn with_descriptor<T>(
    fd: c_int,
    body: impl FnOnce(BorrowedFd<'_>) -> PosixResult<T>,
) -> PosixResult<T> {
    descriptor_flags(fd, libc::F_GETFD, 0)?;
    // SAFETY: the number is not -1: the kernel has just found it open. A program that closes it
    // meanwhile gets an error of the kernel, as from epoll_ctl(2).
    body(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// F_GETFD or F_SETFD.
///
/// # Source
/// fcntl(2)
pub(super) fn descriptor_flags(fd: c_int, command: c_int, flags: c_int) -> PosixResult {
    // SAFETY: three integers.
    checked(unsafe { libc::fcntl(fd, command, flags) })
}

/// The device and the number of the file behind a descriptor. Sockets that exist at the same time
/// have different numbers.
///
/// # Source
/// fstat(2)
pub(super) fn identity(fd: c_int) -> PosixResult<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes one record into `status`, which has room for it.
    checked(unsafe { libc::fstat(fd, status.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so the kernel has written the record.
    let status = unsafe { status.assume_init() };
    Ok((status.st_dev, status.st_ino))
}

/// Closes a number that no object of this process owns.
///
/// # Source
/// close(2)
pub(super) fn close(fd: c_int) -> PosixResult {
    // SAFETY: an integer; the caller has found that the number is its parent's socket.
    checked(unsafe { libc::close(fd) })
}

/// Makes the number `fd` a duplicate of `new`. `cloexec` is 0 or O_CLOEXEC.
///
/// # Source
/// dup(2)
pub(super) fn replace(fd: c_int, new: c_int, cloexec: c_int) -> PosixResult {
    // SAFETY: three integers; the caller owns the number `fd`.
    checked(unsafe { libc::dup3(new, fd, cloexec) })
}

/// Reads an option into `buffer`. Returns the bytes that the kernel wrote.
///
/// # Source
/// getsockopt(2)
pub(super) fn get_option(
    fd: c_int,
    level: c_int,
    name: c_int,
    buffer: &mut [u8],
) -> PosixResult<usize> {
    let mut size = socklen_t::try_from(buffer.len()).unwrap_or(socklen_t::MAX);
    // SAFETY: the kernel writes at most `size` bytes, which is at most the length of the buffer.
    checked(unsafe {
        libc::getsockopt(fd, level, name, buffer.as_mut_ptr().cast(), &raw mut size)
    })?;
    Ok(usize::try_from(size).unwrap_or(0).min(buffer.len()))
}

/// Sets an option.
///
/// # Source
/// setsockopt(2)
pub(super) fn set_option(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> PosixResult {
    let size = socklen_t::try_from(value.len()).unwrap_or(0);
    // SAFETY: the kernel reads at most `size` bytes of the live buffer.
    checked(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), size) })
}

/// Sleeps; EINTR if a handler of a signal ran.
///
/// # Source
/// nanosleep(2)
pub(super) fn pause(pause: core::time::Duration) -> PosixResult<()> {
    let pause = libc::timespec {
        tv_sec: pause.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads one live timespec, and writes no rest.
    checked(unsafe { libc::nanosleep(&raw const pause, core::ptr::null_mut()) }).map(drop)
}

/// Raises SIGPIPE in the calling thread.
///
/// # Source
/// raise(3)
pub(super) fn raise_sigpipe() {
    // SAFETY: an integer. The program chooses what the signal does.
    unsafe { libc::raise(libc::SIGPIPE) };
}
