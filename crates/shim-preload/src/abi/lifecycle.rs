//! How descriptors of sockets begin, get a second number, and end.
//!
//! # Safety
//! Addresses and pairs of descriptors are the program's, valid as the manual page demands.
#![allow(unsafe_code)]

use super::limits::parting;
use super::{errno, stdio};
use crate::next;
use core::ffi::{c_int, c_uint};
use libc::{sockaddr, socklen_t};
use m3ipc_shim::connection::unannounced::announce;
use m3ipc_shim::lifecycle;
use m3ipc_shim::process::limits;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: socket(2) takes integers.
    let fd = unsafe { next::socket(domain, kind, protocol) };
    lifecycle::opened_socket(fd, kind);
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    pair: *mut c_int,
) -> c_int {
    // SAFETY: the program keeps the contract of socketpair(2).
    let result = unsafe { next::socketpair(domain, kind, protocol, pair) };
    if result == 0 {
        // SAFETY: socketpair(2) wrote two descriptors.
        let ends = unsafe { [*pair, *pair.add(1)] };
        lifecycle::opened_pair(ends, kind);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the program keeps the contract of accept(2).
    let accepted = unsafe { next::accept(fd, address, length) };
    lifecycle::accepted(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the program keeps the contract of accept4(2).
    let accepted = unsafe { next::accept4(fd, address, length, flags) };
    lifecycle::accepted(accepted);
    accepted
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn listen(fd: c_int, waiting: c_int) -> c_int {
    // SAFETY: listen(2) takes integers.
    let result = unsafe { next::listen(fd, waiting) };
    if result == 0 {
        lifecycle::listening(fd);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    announce();
    // SAFETY: the program keeps the contract of connect(2).
    let result = unsafe { next::connect(fd, address, length) };
    // SAFETY: the call succeeded, so the kernel has read the family.
    if result == 0 && c_int::from(unsafe { (*address).sa_family }) == libc::AF_UNSPEC {
        lifecycle::disconnected(fd);
    } else if result == 0
        || matches!(errno::get(), libc::EINPROGRESS | libc::EINTR | libc::EALREADY)
    {
        lifecycle::connected(fd);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the same function.
    unsafe { connect(fd, address, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    announce();
    let is_known = lifecycle::closing(fd);
    // SAFETY: close(2) takes an integer.
    let result = unsafe { next::close(fd) };
    if is_known {
        lifecycle::closed(fd);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __close(fd: c_int) -> c_int {
    // SAFETY: the same function.
    unsafe { close(fd) }
}

fn duplicated(fd: c_int, to: c_int) -> c_int {
    lifecycle::duplicated(fd, to);
    if to == 0 {
        stdio::replace_input();
    }
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: dup(2) takes an integer.
    duplicated(fd, unsafe { next::dup(fd) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    lifecycle::replacing(fd, to);
    // SAFETY: dup2(2) takes integers.
    duplicated(fd, unsafe { next::dup2(fd, to) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the same function.
    unsafe { dup2(fd, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC == 0 {
        lifecycle::replacing(fd, to);
    }
    // SAFETY: dup3(2) takes integers.
    duplicated(fd, unsafe { next::dup3(fd, to, flags) })
}

/// Makes a call of `fcntl`.
///
/// # Safety
/// The arguments are valid as for fcntl(2); `real` is one of its forms.
unsafe fn control(
    fd: c_int,
    command: c_int,
    argument: usize,
    real: unsafe fn(c_int, c_int, usize) -> c_int,
) -> c_int {
    let duplicates = lifecycle::controlling(fd, command, argument);
    // SAFETY: the caller promises the arguments.
    let result = unsafe { real(fd, command, argument) };
    if duplicates { duplicated(fd, result) } else { result }
}

// In C the last argument of these may be missing. The kernel ignores the register then.

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the program keeps the contract of fcntl(2).
    unsafe { control(fd, command, argument, next::fcntl) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the same function.
    unsafe { fcntl(fd, command, argument) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the program keeps the contract of fcntl(2).
    unsafe { control(fd, command, argument, next::fcntl64) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
    let readable = lifecycle::device_control(fd, request, argument);
    // SAFETY: the program keeps the contract of ioctl(2).
    let result = unsafe { next::ioctl(fd, request, argument) };
    if let Some(bytes) = readable
        && result == 0
        && argument != 0
    {
        // SAFETY: the kernel has just written an integer at the address of these requests.
        unsafe { core::ptr::with_exposed_provenance_mut::<c_int>(argument).write(bytes) };
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOSE_RANGE_UNSHARE: c_int = 2;
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    let parts = flags & CLOSE_RANGE_UNSHARE != 0;
    // SAFETY: close_range(2) takes integers.
    let real = || unsafe { next::close_range(first, last, flags) };
    if parts && !limits::is_single_threaded() {
        return parting(parts, real, |result| *result != 0);
    }
    if flags & CLOSE_RANGE_CLOEXEC != 0 || first > last {
        return real();
    }
    lifecycle::closing_range(first as usize, last as usize);
    let result = real();
    lifecycle::closed_range();
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    lifecycle::closing_range(usize::try_from(first).unwrap_or(0), usize::MAX);
    // SAFETY: closefrom(3) takes an integer.
    unsafe { next::closefrom(first) };
    lifecycle::closed_range();
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    announce();
    lifecycle::shutting_down(fd, how);
    // SAFETY: shutdown(2) takes integers.
    unsafe { next::shutdown(fd, how) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int {
    // SAFETY: pidfd_getfd(2) takes integers.
    let copy = unsafe { next::pidfd_getfd(pidfd, fd, flags) };
    lifecycle::arrived(copy);
    copy
}
