//! Bytes of one socket: read and write, send and recv, and their other names.
//!
//! # Safety
//! A buffer of a program goes to [`Buffers`] and to the C library, and nowhere else.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::{c_int, c_void};
use libc::{iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use m3ipc_shim::buffers::{Buffers, RUNS_MAX};
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::connection::unannounced::{announce, announce_unless_regular};
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::process::descriptors::{self, Entry};
use m3ipc_shim::sockets;

/// The result of a data call; `real` makes the program's own call where the kernel must do it.
pub fn finish(outcome: Outcome, real: impl FnOnce() -> ssize_t) -> ssize_t {
    match outcome {
        Outcome::Done(bytes) => errno::bytes(bytes),
        Outcome::Failed(code) => {
            errno::set(code);
            -1
        }
        Outcome::Kernel => real(),
        Outcome::Counted(call) => {
            let result = real();
            call.end(errno::result(result));
            result
        }
    }
}

/// One buffer as a run.
pub fn run(buffer: *const c_void, bytes: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: bytes }]
}

/// The runs of a call; `None` where the kernel must refuse them.
///
/// # Safety
/// As for [`Buffers::from_raw`], but `runs` may be any address.
pub unsafe fn program_runs<'a>(runs: *const iovec, count: usize) -> Option<Buffers<'a>> {
    let are_readable = count <= RUNS_MAX && is_readable(runs, count);
    // SAFETY: readable, and the caller promises the rest.
    are_readable.then(|| unsafe { Buffers::from_raw(runs, count) }).flatten()
}

/// The runs that a call names.
enum Runs {
    /// The one buffer of the call.
    One([iovec; 1]),
    /// An array of the program, of so many runs.
    Array(*const iovec, usize),
}

impl Runs {
    /// # Safety
    /// An array is null or points to its runs. They are valid as for [`Buffers::from_raw`].
    unsafe fn buffers(&self) -> Option<Buffers<'_>> {
        match self {
            // SAFETY: the run is live, and the caller promises its bytes.
            Self::One(run) => unsafe { Buffers::from_raw(run.as_ptr(), 1) },
            // SAFETY: the caller promises the runs.
            Self::Array(runs, count) => unsafe { program_runs(*runs, *count) },
        }
    }
}

/// Before a send past a ring, which other processes learn from the kernel; not of a
/// regular file.
pub fn announce_for(fd: c_int) {
    if descriptors::get(fd) == Entry::File {
        announce_unless_regular(fd);
    } else {
        announce();
    }
}

/// Sends the runs of a call.
///
/// # Safety
/// As for [`Runs::buffers`]; writev(2) may read the runs.
unsafe fn send_runs(
    fd: c_int,
    runs: &Runs,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let real = || {
        announce_for(fd);
        real()
    };
    let Some(socket) = sockets::find(fd) else { return real() };
    // SAFETY: the caller promises the runs.
    let buffers = unsafe { runs.buffers() };
    finish(socket.send(buffers, flags), real)
}

/// Receives into the runs of a call.
///
/// # Safety
/// As for [`Runs::buffers`]; readv(2) may write the runs.
unsafe fn receive_runs(
    fd: c_int,
    runs: &Runs,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(socket) = sockets::find(fd) else { return real() };
    // SAFETY: the caller promises the runs.
    let buffers = unsafe { runs.buffers() };
    finish(socket.receive(buffers, flags), real)
}

/// The bytes of a receive with one buffer: the kernel moves no more at once, whatever it is given.
fn bounded(bytes: size_t) -> size_t {
    bytes.min(0x7fff_f000)
}

fn length(count: c_int) -> usize {
    usize::try_from(count).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    // SAFETY: the program keeps the contract of read(2).
    let real = || unsafe { next::read(fd, buffer, bytes) };
    // SAFETY: one run, which read(2) may write.
    unsafe { receive_runs(fd, &Runs::One(run(buffer, bytes)), 0, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    // SAFETY: the program keeps the contract of write(2).
    let real = || unsafe { next::write(fd, buffer, bytes) };
    // SAFETY: one run, which write(2) may read.
    unsafe { send_runs(fd, &Runs::One(run(buffer, bytes)), 0, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, runs: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program keeps the contract of readv(2).
    let real = || unsafe { next::readv(fd, runs, count) };
    // SAFETY: readv(2) gets `count` runs.
    unsafe { receive_runs(fd, &Runs::Array(runs, length(count)), 0, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, runs: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program keeps the contract of writev(2).
    let real = || unsafe { next::writev(fd, runs, count) };
    // SAFETY: writev(2) gets `count` runs.
    unsafe { send_runs(fd, &Runs::Array(runs, length(count)), 0, real) }
}

/// The flags of a stream call for `RWF_` flags at the current position; `None` where the kernel
/// must answer. A socket that gets flags which not all kernels have is pinned first.
fn flags_of(fd: c_int, offset: off_t, flags: c_int) -> Option<c_int> {
    const IGNORED: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
    if offset != -1 {
        return None;
    }
    if flags & !(IGNORED | libc::RWF_NOWAIT) != 0 {
        // Bytes of the ring are received all the same.
        return sockets::has_bytes_after_pin(fd, PinReason::Flag).then_some(0);
    }
    Some(if flags & libc::RWF_NOWAIT == 0 { 0 } else { libc::MSG_DONTWAIT })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    runs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program keeps the contract of preadv2(2).
    let real = || unsafe { next::preadv2(fd, runs, count, offset, flags) };
    let Some(flags) = flags_of(fd, offset, flags) else { return real() };
    // SAFETY: preadv2(2) gets `count` runs.
    unsafe { receive_runs(fd, &Runs::Array(runs, length(count)), flags, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    runs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same function.
    unsafe { preadv2(fd, runs, count, offset, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    runs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program keeps the contract of pwritev2(2).
    let real = || unsafe { next::pwritev2(fd, runs, count, offset, flags) };
    let Some(flags) = flags_of(fd, offset, flags) else { return real() };
    // SAFETY: pwritev2(2) gets `count` runs.
    unsafe { send_runs(fd, &Runs::Array(runs, length(count)), flags, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    runs: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same function.
    unsafe { pwritev2(fd, runs, count, offset, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program keeps the contract of recv(2).
    let real = || unsafe { next::recv(fd, buffer, bytes, flags) };
    // SAFETY: one run, which recv(2) may write.
    unsafe { receive_runs(fd, &Runs::One(run(buffer, bounded(bytes))), flags, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program keeps the contract of send(2).
    let real = || unsafe { next::send(fd, buffer, bytes, flags) };
    // SAFETY: one run, which send(2) may read.
    unsafe { send_runs(fd, &Runs::One(run(buffer, bytes)), flags, real) }
}

/// Writes the peer's name as `recvfrom` reports it with so many bytes; the length of the name. The
/// end of a stream has none.
///
/// # Safety
/// `to` is valid for `room` bytes.
pub unsafe fn write_name(
    socket: Socket,
    bytes: usize,
    to: *mut c_void,
    room: socklen_t,
) -> socklen_t {
    let name = (bytes > 0).then(|| socket.peer_name()).flatten();
    let name = name.as_ref().and_then(|name| name.copied(usize::try_from(room).unwrap_or(0)));
    let Some((name, length)) = name else { return 0 };
    // SAFETY: `copied` gives at most `room` bytes, for which the caller promises `to`.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), to.cast(), name.len()) };
    socklen_t::try_from(length).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the program keeps the contract of recvfrom(2).
    let real = move || unsafe { next::recvfrom(fd, buffer, bytes, flags, from, length) };
    let Some(socket) = sockets::find(fd) else { return real() };
    let runs = run(buffer, bounded(bytes));
    // SAFETY: one run, which recvfrom(2) may write.
    let buffers = unsafe { Buffers::from_raw(runs.as_ptr(), 1) };
    let outcome = socket.receive(buffers, flags);
    if let Outcome::Done(got) = outcome
        && !from.is_null()
        && !length.is_null()
    {
        // SAFETY: recvfrom(2): `from` has as many bytes as `length` says.
        unsafe { *length = write_name(socket, got, from.cast(), *length) };
    }
    finish(outcome, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    // SAFETY: the program keeps the contract of sendto(2).
    let real = || unsafe { next::sendto(fd, buffer, bytes, flags, to, length) };
    // A connected TCP socket ignores an address. A Unix socket fails with the right error.
    let is_addressed = !to.is_null() && length > 0;
    if is_addressed && sockets::known(fd).is_some_and(|socket| socket.is_unix()) {
        announce();
        return real();
    }
    // SAFETY: one run, which sendto(2) may read.
    unsafe { send_runs(fd, &Runs::One(run(buffer, bytes)), flags, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    // SAFETY: the same function.
    unsafe { read(fd, buffer, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __write(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the same function.
    unsafe { write(fd, buffer, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __send(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same function.
    unsafe { send(fd, buffer, bytes, flags) }
}

/// Lets the C library end the program with its message where a call exceeds its buffer.
pub fn check_room(bytes: size_t, room: size_t) {
    if bytes > room {
        // SAFETY: the function takes nothing and does not return.
        unsafe { next::__chk_fail() };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    check_room(bytes, room);
    // SAFETY: the same function, with `bytes` checked.
    unsafe { read(fd, buffer, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check_room(bytes, room);
    // SAFETY: the same function, with `bytes` checked.
    unsafe { recv(fd, buffer, bytes, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    check_room(bytes, room);
    // SAFETY: the same function, with `bytes` checked.
    unsafe { recvfrom(fd, buffer, bytes, flags, from, length) }
}
