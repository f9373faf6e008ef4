//! Bytes of one socket: read and write, send and recv, and what the C library calls them else.

use crate::look::{self, Name};
use crate::{carry, next, set_errno};
use core::ffi::{c_int, c_void};
use libc::{iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use m3ipc_shim::engine::{Outcome, Pin, Talk};

/// Parts that one call may have.
const PARTS: usize = 1024;

const SEND_FLAGS: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_CONFIRM;
const RECEIVE_FLAGS: c_int = libc::MSG_DONTWAIT
    | libc::MSG_NOSIGNAL
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_TRUNC
    | libc::MSG_CMSG_CLOEXEC;

/// The parts of a call, where there is at least one byte in them and the kernel would take them.
unsafe fn parts<'a>(parts: *const iovec, count: usize) -> Option<&'a [iovec]> {
    if parts.is_null() || count == 0 || count > PARTS {
        return None;
    }
    let parts = core::slice::from_raw_parts(parts, count);
    let total = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len))?;
    let sound = parts.iter().all(|part| part.iov_len == 0 || !part.iov_base.is_null());
    (sound && total > 0 && total <= isize::MAX as usize).then_some(parts)
}

fn one(buffer: *const c_void, bytes: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: bytes }]
}

/// What the program is told; the real call where the engine says so.
fn told(outcome: Outcome, real: impl FnOnce() -> ssize_t) -> ssize_t {
    match outcome {
        Outcome::Done(bytes) => bytes as ssize_t,
        Outcome::Failed(code) => {
            set_errno(code);
            -1
        }
        Outcome::Kernel => real(),
    }
}

/// The talk that sends with these flags; a flag that is not known pins.
fn sender(fd: c_int, flags: c_int) -> Option<&'static Talk> {
    let talk = look::talk(fd)?;
    if flags & !SEND_FLAGS != 0 {
        look::pin(fd, Pin::Flag, false);
        return None;
    }
    Some(talk)
}

/// The same for receiving. The error queue is no part of the stream.
fn receiver(fd: c_int, flags: c_int) -> Option<&'static Talk> {
    let talk = look::talk(fd)?;
    if flags & libc::MSG_ERRQUEUE != 0 {
        return None;
    }
    if flags & !RECEIVE_FLAGS != 0 {
        look::pin(fd, Pin::Flag, false);
        return None;
    }
    Some(talk)
}

pub unsafe fn send_parts(
    fd: c_int,
    count: usize,
    at: *const iovec,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(talk) = sender(fd, flags) else { return real() };
    match parts(at, count) {
        Some(parts) => told(talk.send(fd, parts, flags), real),
        None => real(),
    }
}

pub unsafe fn receive_parts(
    fd: c_int,
    count: usize,
    at: *const iovec,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(talk) = receiver(fd, flags) else { return real() };
    match parts(at, count) {
        Some(parts) => told(talk.receive(fd, parts, flags), real),
        None => real(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    receive_parts(fd, 1, one(buffer, bytes).as_ptr(), 0, || next::read(fd, buffer, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    send_parts(fd, 1, one(buffer, bytes).as_ptr(), 0, || next::write(fd, buffer, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    receive_parts(fd, usize::try_from(count).unwrap_or(0), at, 0, || next::readv(fd, at, count))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    send_parts(fd, usize::try_from(count).unwrap_or(0), at, 0, || next::writev(fd, at, count))
}

/// The current position of a socket is its stream; any other is the kernel's error to tell.
unsafe fn read_at(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let real = || next::preadv2(fd, at, count, offset, flags);
    if offset != -1 || flags & !libc::RWF_NOWAIT != 0 {
        return real();
    }
    let flags = if flags == 0 { 0 } else { libc::MSG_DONTWAIT };
    receive_parts(fd, usize::try_from(count).unwrap_or(0), at, flags, real)
}

unsafe fn write_at(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let real = || next::pwritev2(fd, at, count, offset, flags);
    if offset != -1 || flags & !libc::RWF_NOWAIT != 0 {
        return real();
    }
    let flags = if flags == 0 { 0 } else { libc::MSG_DONTWAIT };
    send_parts(fd, usize::try_from(count).unwrap_or(0), at, flags, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    read_at(fd, at, count, offset, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    read_at(fd, at, count, offset, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    write_at(fd, at, count, offset, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    write_at(fd, at, count, offset, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    receive_parts(fd, 1, one(buffer, bytes).as_ptr(), flags, || {
        next::recv(fd, buffer, bytes, flags)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    send_parts(fd, 1, one(buffer, bytes).as_ptr(), flags, || next::send(fd, buffer, bytes, flags))
}

/// What `recvfrom` says about where bytes of a stream came from: a TCP socket nothing, a Unix socket its peer's name.
unsafe fn tell_name(fd: c_int, to: *mut c_void, room: socklen_t) -> socklen_t {
    if look::domain(fd) != libc::AF_UNIX {
        return 0;
    }
    let mut name = Name::new();
    // Two bytes are a family without a name: then nothing is told.
    if !name.of_raw(libc::SYS_getpeername, fd) || name.length <= 2 {
        return 0;
    }
    let copied = (name.length.min(room) as usize).min(name.bytes.len());
    core::ptr::copy_nonoverlapping(name.bytes.as_ptr(), to.cast(), copied);
    name.length
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
    let mut kernel = false;
    let got = receive_parts(fd, 1, one(buffer, bytes).as_ptr(), flags, || {
        kernel = true;
        next::recvfrom(fd, buffer, bytes, flags, from, length)
    });
    if !kernel && got >= 0 && !from.is_null() && !length.is_null() {
        *length = tell_name(fd, from.cast(), *length);
    }
    got
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
    let real = || next::sendto(fd, buffer, bytes, flags, to, length);
    // A connected TCP socket ignores an address; a Unix one says what is wrong.
    if !to.is_null() && length > 0 && look::known(fd).is_some() && look::domain(fd) == libc::AF_UNIX
    {
        return real();
    }
    send_parts(fd, 1, one(buffer, bytes).as_ptr(), flags, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if message.is_null() || receiver(fd, flags).is_none() {
        return from_kernel(fd, message, flags);
    }
    let (mut at, mut count) = ((*message).msg_iov, (*message).msg_iovlen);
    let mut kernel = false;
    let byte;
    if !(*message).msg_control.is_null()
        && (*message).msg_controllen > 0
        && look::domain(fd) == libc::AF_UNIX
    {
        // Descriptors may come: only the kernel can hand them over, and they come behind what the ring holds.
        if look::pin(fd, Pin::Ancillary, false) {
            return from_kernel(fd, message, flags);
        }
        let Some(first) = parts(at, count).and_then(|all| all.iter().find(|part| part.iov_len > 0))
        else {
            return from_kernel(fd, message, flags);
        };
        byte = iovec { iov_base: first.iov_base, iov_len: 1 };
        (at, count) = ((&raw const byte).cast_mut(), 1);
    }
    let got = receive_parts(fd, count, at, flags, || {
        kernel = true;
        from_kernel(fd, message, flags)
    });
    if !kernel && got >= 0 {
        if !(*message).msg_name.is_null() {
            (*message).msg_namelen = tell_name(fd, (*message).msg_name, (*message).msg_namelen);
        }
        (*message).msg_controllen = 0;
        (*message).msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
    }
    got
}

unsafe fn from_kernel(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let got = next::recvmsg(fd, message, flags);
    if got >= 0 && (*message).msg_controllen > 0 {
        carry::arrived(message);
    }
    got
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    let real = || next::sendmsg(fd, message, flags);
    if message.is_null() {
        return real();
    }
    if (*message).msg_controllen > 0 {
        carry::leaving(message);
        if look::talk(fd).is_some() {
            look::pin(fd, Pin::Ancillary, false);
        }
        return real();
    }
    let named = !(*message).msg_name.is_null() && (*message).msg_namelen > 0;
    if named && look::known(fd).is_some() && look::domain(fd) == libc::AF_UNIX {
        return real();
    }
    send_parts(fd, (*message).msg_iovlen, (*message).msg_iov, flags, real)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    read(fd, buffer, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __write(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
) -> ssize_t {
    write(fd, buffer, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __send(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> ssize_t {
    send(fd, buffer, bytes, flags)
}

/// More than the buffer holds: the C library ends the program with its message.
unsafe fn checked(bytes: size_t, room: size_t) {
    if bytes > room {
        next::__chk_fail();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    checked(bytes, room);
    read(fd, buffer, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    checked(bytes, room);
    recv(fd, buffer, bytes, flags)
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
    checked(bytes, room);
    recvfrom(fd, buffer, bytes, flags, from, length)
}
