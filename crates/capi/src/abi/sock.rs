//! The functions of `m3ipc/sock.h` that pass no bytes.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`].
#![allow(unsafe_code)]

use crate::memory::{ReadBytes, ReadPtr, ReadText, WriteBytes, WritePtr};
use crate::sock::address::{ADDRESS_BYTES, AddressOut, read_domain_name};
use crate::sock::posix::{fault, int_call};
use crate::sock::{connection, domain, event_loop, options, table};
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use libc::{epoll_event, in_addr, sockaddr, socklen_t};
use m3ipc_sockets::Errno;

fn size(length: socklen_t) -> usize {
    usize::try_from(length).unwrap_or(0)
}

/// An address that a call reads.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
pub(super) unsafe fn address_in(address: *const sockaddr, length: socklen_t) -> ReadBytes {
    // SAFETY: the caller of this function vouches for the pointer.
    unsafe { ReadBytes::new(address.cast(), size(length)) }
}

/// An address that a call writes.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
pub(super) unsafe fn address_out(address: *mut sockaddr, length: *mut socklen_t) -> AddressOut {
    // SAFETY: the caller of this function vouches for the pointers. A call writes at most `*length`
    // bytes of the address.
    unsafe {
        AddressOut {
            address: WriteBytes::new(address.cast(), ADDRESS_BYTES),
            length: WritePtr::new(length),
        }
    }
}

/// `m3_domain`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_domain(vmid: c_int, domain: c_int) -> c_int {
    int_call(|| domain::join(vmid, domain))
}

/// `m3_domain_named`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_domain_named(vmid: c_int, name: *const c_char) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    int_call(|| domain::join_named(vmid, &read_domain_name(name)?))
}

/// `m3_domain_address`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_domain_address(
    vmid: c_int,
    name: *const c_char,
    address: *mut in_addr,
) -> c_int {
    // SAFETY: C lends `name` for this call.
    let name = unsafe { ReadText::new(name) };
    // SAFETY: C lends `address` for this call.
    let address = unsafe { WriteBytes::new(address.cast(), size_of::<in_addr>()) };
    int_call(|| {
        let found = domain::address_of(vmid, &read_domain_name(name)?)?;
        address.write(&found.octets()).map_err(fault)?;
        Ok(0)
    })
}

/// `m3_socket`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    int_call(|| table::open(domain, kind, protocol))
}

/// `m3_bind`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: C lends `length` bytes at `address` for this call.
    let address = unsafe { address_in(address, length) };
    int_call(|| connection::bind(fd, address))
}

/// `m3_listen`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_listen(fd: c_int, backlog: c_int) -> c_int {
    int_call(|| connection::listen(fd, backlog))
}

/// `m3_accept`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: C lends both pointers for this call.
    let peer = unsafe { address_out(address, length) };
    int_call(|| connection::accept(fd, peer, 0))
}

/// `m3_accept4`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: C lends both pointers for this call.
    let peer = unsafe { address_out(address, length) };
    int_call(|| connection::accept(fd, peer, flags))
}

/// `m3_connect`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: C lends `length` bytes at `address` for this call.
    let address = unsafe { address_in(address, length) };
    int_call(|| connection::connect(fd, address))
}

/// `m3_shutdown`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_shutdown(fd: c_int, how: c_int) -> c_int {
    int_call(|| connection::shut_down(fd, how))
}

/// `m3_close`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_close(fd: c_int) -> c_int {
    int_call(|| if event_loop::close(fd) { Ok(0) } else { table::close(fd) })
}

/// `m3_getsockname`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: C lends both pointers for this call.
    let own = unsafe { address_out(address, length) };
    int_call(|| {
        own.write(table::find(fd)?.own_address()?)?;
        Ok(0)
    })
}

/// `m3_getpeername`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: C lends both pointers for this call.
    let peer = unsafe { address_out(address, length) };
    int_call(|| {
        peer.write(table::find(fd)?.peer_address().ok_or(Errno::NOTCONN)?)?;
        Ok(0)
    })
}

/// `m3_getsockopt`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: C lends `*length` bytes at `value` for this call, and no more are written.
    let value = unsafe { WriteBytes::new(value, usize::MAX) };
    // SAFETY: C lends `length` for this call.
    let length = unsafe { WritePtr::new(length) };
    int_call(|| options::get(fd, level, option, value, length))
}

/// `m3_setsockopt`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: C lends `length` bytes at `value` for this call.
    let value = unsafe { ReadBytes::new(value, size(length)) };
    int_call(|| options::set(fd, level, option, value))
}

/// `m3_fcntl`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    int_call(|| options::flags(fd, command, argument))
}

/// `m3_ioctl`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // SAFETY: C lends `argument` for this call.
    let argument = unsafe { WritePtr::new(argument) };
    int_call(|| options::control(fd, request, argument))
}

/// `m3_epoll_create1`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_epoll_create1(flags: c_int) -> c_int {
    int_call(|| event_loop::create(flags))
}

/// `m3_epoll_ctl`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_epoll_ctl(
    epfd: c_int,
    command: c_int,
    fd: c_int,
    event: *const epoll_event,
) -> c_int {
    // SAFETY: C lends `event` for this call.
    let event = unsafe { ReadPtr::new(event) };
    int_call(|| event_loop::control(epfd, command, fd, event))
}

/// `m3_epoll_wait`: see `m3ipc/sock.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: C lends `most` events at `events` for this call.
    let events = unsafe { WritePtr::new(events) };
    int_call(|| event_loop::wait(epfd, events, most, timeout_ms))
}

/// `m3_epoll_prepare`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_epoll_prepare(epfd: c_int) -> c_int {
    int_call(|| event_loop::prepare(epfd))
}

/// `m3_epoll_notify`: see `m3ipc/sock.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_epoll_notify(epfd: c_int) -> c_int {
    int_call(|| event_loop::notify(epfd))
}
