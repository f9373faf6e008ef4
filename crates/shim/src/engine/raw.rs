//! System calls as the kernel has them: this library stands in front of the C library's wrappers, so the engine cannot call
//! those. Nothing here allocates, locks or touches `errno`.
//!
//! # Safety
//! Structures that the kernel reads or writes are live locals of their size; buffers of the program are checked by the kernel.
#![allow(unsafe_code)]

use core::ffi::CStr;
use libc::{c_long, iovec};
use std::os::fd::RawFd;

/// An `errno`.
pub(crate) type Errno = i32;

/// One system call.
///
/// # Safety
/// The arguments must be what the call asks for; pointers must be good for it, or the call must answer `EFAULT`.
#[inline]
pub(crate) unsafe fn call(number: c_long, a: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    told(unsafe { crate::real::call(number, a) })
}

/// The kernel gives small negative numbers for errors.
fn told(result: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&result) {
        Err(i32::try_from(-result).unwrap_or(libc::EIO))
    } else {
        Ok(result.cast_unsigned())
    }
}

/// A number as a register holds it.
#[inline]
pub(crate) fn reg(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

fn header(parts: &[iovec]) -> libc::msghdr {
    // SAFETY: plain pointers and integers, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = parts.as_ptr().cast_mut();
    header.msg_iovlen = parts.len() as _;
    header
}

/// The kernel's own receive.
pub(crate) fn receive(fd: RawFd, parts: &[iovec], flags: i32) -> Result<usize, Errno> {
    let mut header = header(parts);
    let at = (&raw mut header) as usize;
    // SAFETY: the header is live; the program's buffers are checked by the kernel.
    unsafe { call(libc::SYS_recvmsg, [reg(fd), at, reg(flags), 0, 0, 0]) }
}

/// The kernel's own send.
pub(crate) fn send(fd: RawFd, parts: &[iovec], flags: i32) -> Result<usize, Errno> {
    let header = header(parts);
    let at = (&raw const header) as usize;
    // SAFETY: the header is live; the program's buffers are checked by the kernel.
    unsafe { call(libc::SYS_sendmsg, [reg(fd), at, reg(flags), 0, 0, 0]) }
}

/// A receive that may sleep: through the C library where that is in front of us, as a thread may be cancelled in it.
pub(crate) fn receive_waiting(fd: RawFd, parts: &[iovec], flags: i32) -> Result<usize, Errno> {
    let Some(waiting) = crate::real::waiting() else { return receive(fd, parts, flags) };
    let mut header = header(parts);
    // SAFETY: the header is live; the program's buffers are checked by the kernel.
    crate::real::told(unsafe { (waiting.recvmsg)(fd, &raw mut header, flags) })
}

/// A send that may sleep.
pub(crate) fn send_waiting(fd: RawFd, parts: &[iovec], flags: i32) -> Result<usize, Errno> {
    let Some(waiting) = crate::real::waiting() else { return send(fd, parts, flags) };
    let header = header(parts);
    // SAFETY: the header is live; the program's buffers are checked by the kernel.
    crate::real::told(unsafe { (waiting.sendmsg)(fd, &raw const header, flags) })
}

/// A run of bytes of ours.
pub(crate) fn part(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Receives into memory of ours.
pub(crate) fn receive_bytes(fd: RawFd, bytes: &mut [u8], flags: i32) -> Result<usize, Errno> {
    receive(fd, &[part(bytes)], flags)
}

/// Sends memory of ours.
pub(crate) fn send_bytes(fd: RawFd, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    send(fd, &[iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }], flags)
}

/// Closes a descriptor of ours.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_close, [reg(fd), 0, 0, 0, 0, 0]) };
}

/// Opens a file; a new descriptor.
pub(crate) fn open(path: &CStr, flags: i32, mode: u32) -> Result<RawFd, Errno> {
    let at = path.as_ptr() as usize;
    // SAFETY: the path is live and ends with a zero.
    let got = unsafe {
        call(
            libc::SYS_openat,
            [reg(libc::AT_FDCWD), at, reg(flags | libc::O_CLOEXEC), mode as usize, 0, 0],
        )
    };
    got.map(|fd| RawFd::try_from(fd).unwrap_or(-1))
}

/// What the file system says of an open file.
pub(crate) fn stat(fd: RawFd) -> Result<libc::stat, Errno> {
    // SAFETY: plain integers, for which zeros are valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let at = (&raw mut stat) as usize;
    // SAFETY: the structure is live, and as the kernel writes it on 64-bit machines.
    unsafe { call(libc::SYS_fstat, [reg(fd), at, 0, 0, 0, 0])? };
    Ok(stat)
}

/// An option of a socket, of a type that is valid for any bits.
pub(crate) fn option<T: Default + Copy>(fd: RawFd, level: i32, name: i32) -> Result<T, Errno> {
    let mut value = T::default();
    let mut bytes = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    let (at, length) = ((&raw mut value) as usize, (&raw mut bytes) as usize);
    // SAFETY: both are live, and `bytes` is the value's size.
    unsafe { call(libc::SYS_getsockopt, [reg(fd), reg(level), reg(name), at, length, 0])? };
    Ok(value)
}

/// Sets an option that is a number.
pub(crate) fn set_option<T: Copy>(fd: RawFd, level: i32, name: i32, value: T) -> Result<(), Errno> {
    let at = (&raw const value) as usize;
    // SAFETY: the value is live, and as long as is said.
    unsafe { call(libc::SYS_setsockopt, [reg(fd), reg(level), reg(name), at, size_of::<T>(), 0]) }
        .map(drop)
}

/// An `ioctl` that answers a number.
pub(crate) fn ask(fd: RawFd, request: u64) -> Result<i32, Errno> {
    let mut answer = 0_i32;
    let at = (&raw mut answer) as usize;
    let request = usize::try_from(request).unwrap_or(0);
    // SAFETY: the answer is live, and the requests made here write four bytes.
    unsafe { call(libc::SYS_ioctl, [reg(fd), request, at, 0, 0, 0])? };
    Ok(answer)
}

/// Whether calls on this descriptor fail rather than sleep.
pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: no pointers.
    let flags = unsafe { call(libc::SYS_fcntl, [reg(fd), reg(libc::F_GETFL), 0, 0, 0, 0]) };
    flags.is_ok_and(|flags| flags & reg(libc::O_NONBLOCK) != 0)
}

/// What poll(2) says of a descriptor at once.
pub(crate) fn poll_now(fd: RawFd, events: i16) -> i16 {
    let mut one = libc::pollfd { fd, events, revents: 0 };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (at, time) = ((&raw mut one) as usize, (&raw const now) as usize);
    // SAFETY: one entry and the time are live; no mask of signals.
    let _ = unsafe { call(libc::SYS_ppoll, [at, 1, time, 0, 8, 0]) };
    one.revents
}

/// Ends both ways of a connection.
pub(crate) fn end(fd: RawFd) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_shutdown, [reg(fd), reg(libc::SHUT_RDWR), 0, 0, 0, 0]) };
}

/// This process, as the kernel knows it now (it may be a child by fork).
pub(crate) fn process() -> i32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_getpid, [0; 6]) };
    got.ok().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0)
}

/// This thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_gettid, [0; 6]) };
    got.ok().and_then(|tid| u32::try_from(tid).ok()).unwrap_or(0)
}

/// The user this process acts as.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_geteuid, [0; 6]) };
    got.ok().and_then(|uid| u32::try_from(uid).ok()).unwrap_or(u32::MAX)
}

/// Whether there is a process of this number (a dead one that was not waited for counts).
pub(crate) fn exists(pid: i32) -> bool {
    // SAFETY: no pointers; signal 0 is none.
    pid > 0 && unsafe { call(libc::SYS_kill, [reg(pid), 0, 0, 0, 0, 0]) } != Err(libc::ESRCH)
}

/// Whether a thread of this number runs: not one that has ended and was not waited for.
pub(crate) fn thread_runs(tid: u32) -> bool {
    const PIDFD_THREAD: i32 = libc::O_EXCL; // Linux 6.9
    let Ok(number) = i32::try_from(tid) else { return false };
    if !exists(number) {
        return false;
    }
    // SAFETY: no pointers.
    let opened =
        unsafe { call(libc::SYS_pidfd_open, [reg(number), reg(PIDFD_THREAD), 0, 0, 0, 0]) };
    match opened {
        Ok(fd) => {
            let fd = RawFd::try_from(fd).unwrap_or(-1);
            let ended = poll_now(fd, libc::POLLIN) != 0;
            close(fd);
            !ended
        }
        Err(libc::ESRCH) => false,
        // An older kernel, or no descriptor free: taken for alive.
        Err(_) => true,
    }
}

/// Sleeps so long, or until a signal.
pub(crate) fn pause_us(us: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: us * 1000 };
    let at = (&raw const time) as usize;
    // SAFETY: the time is live.
    let _ = unsafe { call(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]) };
}
