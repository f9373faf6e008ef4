//! Sockets: data calls, options, names.
//!
//! # Safety
//! The kernel reads and writes live locals of their size. Memory of the program comes as
//! [`Buffers`], whose maker has vouched for it.
#![allow(unsafe_code)]

use super::call::{Errno, call, descriptor, register};
use crate::buffers::Buffers;
use core::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// The C library's own data calls, which may sleep and in which a thread may be cancelled.
#[derive(Clone, Copy, Debug)]
pub struct SleepingCalls {
    /// recvmsg(2)
    pub recvmsg: unsafe extern "C-unwind" fn(c_int, *mut libc::msghdr, c_int) -> isize,
    /// sendmsg(2)
    pub sendmsg: unsafe extern "C-unwind" fn(c_int, *const libc::msghdr, c_int) -> isize,
    /// poll(2)
    pub poll: unsafe extern "C-unwind" fn(*mut libc::pollfd, libc::nfds_t, c_int) -> c_int,
}

static SLEEPING_CALLS: OnceLock<SleepingCalls> = OnceLock::new();

/// Sets the calls to sleep in, once, in the constructor. Without them a bare system call sleeps.
pub fn set_sleeping_calls(calls: SleepingCalls) {
    let _ = SLEEPING_CALLS.set(calls);
}

/// Makes a call of the C library. `errno` stays as it was: the program's call may still succeed.
fn checked(call: impl FnOnce() -> isize) -> Result<usize, Errno> {
    // SAFETY: the location of `errno` is always valid for the calling thread.
    let errno = || unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno() };
    usize::try_from(call()).map_err(|_negative| {
        // SAFETY: as above.
        unsafe { core::mem::replace(&mut *errno(), before) }
    })
}

fn header(buffers: &Buffers<'_>) -> libc::msghdr {
    // SAFETY: plain pointers and integers, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    let runs = buffers.runs();
    header.msg_iov = runs.as_ptr().cast_mut();
    header.msg_iovlen = runs.len() as _;
    header
}

/// Receives by a bare system call.
///
/// # Errors
/// Of recvmsg(2).
pub fn receive(fd: RawFd, buffers: &Buffers<'_>, flags: i32) -> Result<usize, Errno> {
    let mut header = header(buffers);
    let at = (&raw mut header) as usize;
    // SAFETY: the header is live; the kernel checks the addresses of the runs.
    unsafe { call(libc::SYS_recvmsg, [register(fd), at, register(flags), 0, 0, 0]) }
}

/// Sends by a bare system call.
///
/// # Errors
/// Of sendmsg(2).
pub fn send(fd: RawFd, buffers: &Buffers<'_>, flags: i32) -> Result<usize, Errno> {
    let header = header(buffers);
    let at = (&raw const header) as usize;
    // SAFETY: the header is live; the kernel checks the addresses of the runs.
    unsafe { call(libc::SYS_sendmsg, [register(fd), at, register(flags), 0, 0, 0]) }
}

/// Receives and may sleep: through the C library where a thread may be cancelled in it.
///
/// # Errors
/// Of recvmsg(2).
pub fn receive_sleeping(fd: RawFd, buffers: &Buffers<'_>, flags: i32) -> Result<usize, Errno> {
    let Some(calls) = SLEEPING_CALLS.get() else { return receive(fd, buffers, flags) };
    let mut header = header(buffers);
    // SAFETY: the header is live; the kernel checks the addresses of the runs.
    checked(|| unsafe { (calls.recvmsg)(fd, &raw mut header, flags) })
}

/// Sends and may sleep: through the C library where a thread may be cancelled in it.
///
/// # Errors
/// Of sendmsg(2).
pub fn send_sleeping(fd: RawFd, buffers: &Buffers<'_>, flags: i32) -> Result<usize, Errno> {
    let Some(calls) = SLEEPING_CALLS.get() else { return send(fd, buffers, flags) };
    let header = header(buffers);
    // SAFETY: the header is live; the kernel checks the addresses of the runs.
    checked(|| unsafe { (calls.sendmsg)(fd, &raw const header, flags) })
}

/// Waits until a socket is readable, for so many nanoseconds at most, through the C library where a
/// thread may be cancelled in it; 0 where it is not.
///
/// # Errors
/// Of poll(2).
pub fn wait_sleeping(fd: RawFd, limit_ns: u64) -> Result<usize, Errno> {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let limit_ms = c_int::try_from(limit_ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
    let Some(calls) = SLEEPING_CALLS.get() else {
        let mut time = libc::timespec {
            tv_sec: (limit_ms / 1000).into(),
            tv_nsec: (limit_ms % 1000 * 1_000_000).into(),
        };
        let words = [(&raw mut one) as usize, 1, (&raw mut time) as usize, 0, 0, 0];
        // SAFETY: entry and time are live; no mask.
        return unsafe { call(libc::SYS_ppoll, words) };
    };
    // SAFETY: the one entry is live.
    checked(|| unsafe { (calls.poll)(&raw mut one, 1, limit_ms) } as isize)
}

/// Receives into memory of this library.
///
/// # Errors
/// Of recvmsg(2).
pub fn receive_bytes(fd: RawFd, bytes: &mut [u8], flags: i32) -> Result<usize, Errno> {
    receive(fd, &Buffers::from_mut(&mut [Buffers::run(bytes)]), flags)
}

/// Sends memory of this library.
///
/// # Errors
/// Of sendmsg(2).
pub fn send_bytes(fd: RawFd, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    let words = [register(fd), bytes.as_ptr() as usize, bytes.len(), register(flags), 0, 0];
    // SAFETY: the kernel reads the length of the slice.
    unsafe { call(libc::SYS_sendto, words) }
}

/// An option of a socket.
///
/// # Errors
/// Of getsockopt(2).
pub fn option(fd: RawFd, level: i32, name: i32) -> Result<i32, Errno> {
    option_bytes(fd, level, name).map(i32::from_ne_bytes)
}

/// The first bytes of an option of a socket, in the kernel's own form; how many there are.
///
/// # Errors
/// Of getsockopt(2).
pub fn option_into(fd: RawFd, level: i32, name: i32, value: &mut [u8]) -> Result<usize, Errno> {
    let mut length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let (at, length_at) = (value.as_mut_ptr() as usize, (&raw mut length) as usize);
    let words = [register(fd), register(level), register(name), at, length_at, 0];
    // SAFETY: the kernel writes at most the length of the slice, and the length itself.
    unsafe { call(libc::SYS_getsockopt, words) }?;
    Ok((length as usize).min(value.len()))
}

/// The cookie of a socket: a number that no other socket ever has.
///
/// # Errors
/// Of getsockopt(2), `SO_COOKIE`.
pub fn cookie(fd: RawFd) -> Result<u64, Errno> {
    option_bytes(fd, libc::SOL_SOCKET, libc::SO_COOKIE).map(u64::from_ne_bytes)
}

/// A time limit of a socket in nanoseconds; 0 is none.
///
/// # Errors
/// Of getsockopt(2).
pub fn time_option_ns(fd: RawFd, name: i32) -> Result<u64, Errno> {
    let value: [u8; 16] = option_bytes(fd, libc::SOL_SOCKET, name)?;
    let part = |at: usize| {
        let bytes = value.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |chunk| u64::from_ne_bytes(*chunk))
    };
    // A structure of two words: seconds, microseconds.
    Ok(part(0).saturating_mul(1_000_000_000).saturating_add(part(8).saturating_mul(1_000)))
}

fn option_bytes<const N: usize>(fd: RawFd, level: i32, name: i32) -> Result<[u8; N], Errno> {
    let mut value = [0; N];
    let mut length = libc::socklen_t::try_from(N).unwrap_or(0);
    let (at, size) = (value.as_mut_ptr() as usize, (&raw mut length) as usize);
    // SAFETY: both are live, and `length` is the size of the value.
    unsafe {
        let words = [register(fd), register(level), register(name), at, size, 0];
        call(libc::SYS_getsockopt, words)?;
    }
    Ok(value)
}

/// Sets an option that is an integer.
///
/// # Errors
/// Of setsockopt(2).
pub fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> Result<(), Errno> {
    set_option_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Lets the next close of the socket reset the connection (`SO_LINGER` of 0 seconds).
pub fn reset_on_close(fd: RawFd) {
    let mut linger = [0; 8];
    linger[..4].copy_from_slice(&1_i32.to_ne_bytes());
    let _ = set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}

fn set_option_bytes(fd: RawFd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    let at = value.as_ptr() as usize;
    let words = [register(fd), register(level), register(name), at, value.len(), 0];
    // SAFETY: the kernel reads the length of the slice.
    unsafe { call(libc::SYS_setsockopt, words) }.map(drop)
}

/// A number that an `ioctl` answers.
///
/// # Errors
/// Of ioctl(2).
pub fn ioctl_number(fd: RawFd, request: u64) -> Result<i32, Errno> {
    let mut answer = 0_i32;
    let request = usize::try_from(request).unwrap_or(0);
    // SAFETY: the answer is live; the requests of this crate write one integer.
    unsafe {
        call(libc::SYS_ioctl, [register(fd), request, (&raw mut answer) as usize, 0, 0, 0])?;
    }
    Ok(answer)
}

/// Shuts both directions of a connection down.
pub fn shut_down(fd: RawFd) {
    // SAFETY: no pointers.
    let _ =
        unsafe { call(libc::SYS_shutdown, [register(fd), register(libc::SHUT_RDWR), 0, 0, 0, 0]) };
}

/// One end of a socket, of which the name is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOf {
    /// getsockname(2)
    Own,
    /// getpeername(2)
    Peer,
}

/// Writes the name of one end; its length in bytes, which may exceed the room.
///
/// # Errors
/// Of getsockname(2) and getpeername(2).
pub fn name(fd: RawFd, of: NameOf, bytes: &mut [u8]) -> Result<usize, Errno> {
    let number = match of {
        NameOf::Own => libc::SYS_getsockname,
        NameOf::Peer => libc::SYS_getpeername,
    };
    let mut length = libc::socklen_t::try_from(bytes.len()).unwrap_or(0);
    let (at, size) = (bytes.as_mut_ptr() as usize, (&raw mut length) as usize);
    // SAFETY: both are live, and `length` is the length of the slice.
    unsafe { call(number, [register(fd), at, size, 0, 0, 0])? };
    usize::try_from(length).map_err(|_| libc::EINVAL)
}

/// A netlink socket that answers for sockets.
///
/// # Errors
/// Of socket(2).
///
/// # Source
/// sock_diag(7)
pub fn open_diag() -> Result<RawFd, Errno> {
    let kind = register(libc::SOCK_RAW | libc::SOCK_CLOEXEC);
    let (family, protocol) = (register(libc::AF_NETLINK), register(libc::NETLINK_SOCK_DIAG));
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0]) }.and_then(descriptor)
}
