//! `recvmsg` and `sendmsg`, and descriptors in messages.
//!
//! # Safety
//! Header, runs, name and control data of a message are the program's, valid as recvmsg(2) and
//! sendmsg(2) demand. They are read only where the message may concern a socket of ours, and where
//! they are readable. Control data is read within `msg_controllen`.
#![allow(unsafe_code)]

use super::errno;
use super::stream::{finish, program_runs, write_name};
use crate::next;
use core::ffi::c_int;
use libc::{cmsghdr, msghdr, ssize_t};
use m3ipc_shim::buffers::{Buffers, IovCursor, no_runs};
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::connection::unannounced::announce;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::process::policy;
use m3ipc_shim::{lifecycle, sockets};

/// The length of control data, which has another type in each C library.
#[cfg(target_env = "musl")]
type ControlLength = libc::socklen_t;
#[cfg(not(target_env = "musl"))]
type ControlLength = usize;

/// Calls `visit` with each descriptor in the control data of a message.
///
/// # Safety
/// The message is valid as for sendmsg(2), or as recvmsg(2) left it.
unsafe fn each_descriptor(message: *const msghdr, mut visit: impl FnMut(c_int)) {
    // SAFETY: the caller promises the header.
    let msghdr { msg_control, msg_controllen, .. } = unsafe { *message };
    #[allow(clippy::unnecessary_cast, reason = "the length has another type in musl")]
    if msg_control.is_null() || !is_readable(msg_control.cast::<u8>(), msg_controllen as usize) {
        return;
    }
    // SAFETY: the header is valid, so the macros stay within its control data.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the macros return headers inside of the control data only.
        let cmsghdr { cmsg_len, cmsg_level, cmsg_type } = unsafe { *header };
        if cmsg_level == libc::SOL_SOCKET && cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: pure arithmetic on a length.
            let head = usize::try_from(unsafe { libc::CMSG_LEN(0) }).unwrap_or(0);
            // SAFETY: the data begin behind a header inside of the control data.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<c_int>();
            for index in 0..cmsg_len.saturating_sub(head) / size_of::<c_int>() {
                // SAFETY: the sender of the message says that it has so many descriptors.
                visit(unsafe { data.add(index).read_unaligned() });
            }
        }
        // The C library's macro does not stop at a length that is too short.
        if cmsg_len < size_of::<cmsghdr>() {
            return;
        }
        // SAFETY: as for the first header.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// Says that the descriptors of messages leave.
///
/// # Safety
/// Each message is null or valid as for sendmsg(2).
pub unsafe fn descriptors_leave(messages: impl Iterator<Item = *const msghdr>) {
    if !policy::is_on() {
        return;
    }
    for message in messages.filter(|message| is_readable(*message, 1)) {
        // SAFETY: readable, and the caller promises the message.
        unsafe { each_descriptor(message, lifecycle::leaving) };
    }
}

/// Says that the descriptors of a message arrived.
///
/// # Safety
/// recvmsg(2) filled the message.
pub unsafe fn descriptors_arrived(message: *const msghdr) {
    if !policy::is_on() {
        return;
    }
    // SAFETY: the caller promises the message.
    unsafe { each_descriptor(message, lifecycle::arrived) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let real = move || {
        // SAFETY: the program keeps the contract of recvmsg(2).
        let got = unsafe { next::recvmsg(fd, message, flags) };
        // SAFETY: recvmsg(2) succeeded, so the header is valid.
        if got >= 0 && unsafe { (*message).msg_controllen } > 0 {
            // SAFETY: recvmsg(2) filled the message.
            unsafe { descriptors_arrived(message) };
        }
        got
    };
    let Some(socket) = sockets::find(fd).filter(|_socket| is_readable(message, 1)) else {
        return real();
    };
    // SAFETY: readable, and valid by the contract of recvmsg(2).
    let header = unsafe { &mut *message };
    // SAFETY: recvmsg(2) gets `msg_iovlen` runs, which it may write.
    let buffers = unsafe { program_runs(header.msg_iov, header.msg_iovlen) };
    let control = header.msg_controllen;
    let has_control = !header.msg_control.is_null() && control > 0;
    let outcome = socket.receive_message(buffers, flags, has_control);
    if let Outcome::Done(got) = outcome {
        if !header.msg_name.is_null() {
            let (name, room) = (header.msg_name, header.msg_namelen);
            // SAFETY: recvmsg(2): the name has `msg_namelen` bytes.
            header.msg_namelen = unsafe { write_name(socket, got, name, room) };
        }
        header.msg_controllen = 0;
        header.msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
    }
    if let (Outcome::Done(bytes @ 1..), Some(buffers)) = (outcome, buffers)
        && flags & libc::MSG_PEEK == 0
        && has_control
        && bytes < buffers.total()
        && socket.goes_on_in_kernel(flags & libc::MSG_WAITALL != 0)
    {
        // SAFETY: the program keeps the contract of recvmsg(2).
        return unsafe { receive_rest(socket, header, &buffers, bytes, (control, flags)) };
    }
    finish(outcome, real)
}

/// Receives what follows `done` bytes of a pinned ring in the kernel, which may pass control data
/// with it: one call of the kernel. A call for all its bytes waits for them.
///
/// # Safety
/// As for recvmsg(2); `control` is the room that the program gave for control data.
unsafe fn receive_rest(
    socket: Socket,
    header: &mut msghdr,
    buffers: &Buffers<'_>,
    done: usize,
    (control, flags): (ControlLength, c_int),
) -> ssize_t {
    let mut cursor = IovCursor::new(buffers);
    cursor.skip(done);
    let mut copies = no_runs();
    let rest = cursor.remaining(&mut copies);
    let mut next = *header;
    next.msg_iov = rest.runs().as_ptr().cast_mut();
    next.msg_iovlen = rest.runs().len() as _;
    next.msg_controllen = control;
    let waits = flags & libc::MSG_WAITALL != 0;
    let flags = if waits { flags } else { flags | libc::MSG_DONTWAIT };
    let errno_before = errno::get();
    // SAFETY: the runs are a part of the program's.
    let got = unsafe { next::recvmsg(socket.fd(), &raw mut next, flags) };
    if got < 0 {
        // The bytes that came before are this call's answer.
        socket.keep_error(errno::get());
        errno::set(errno_before);
    }
    if got > 0 {
        (header.msg_controllen, header.msg_flags) = (next.msg_controllen, next.msg_flags);
        // SAFETY: recvmsg(2) filled the message.
        unsafe { descriptors_arrived(&raw const next) };
    }
    errno::bytes(done + usize::try_from(got).unwrap_or(0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    let real = || {
        announce();
        // SAFETY: the program keeps the contract of sendmsg(2).
        unsafe { next::sendmsg(fd, message, flags) }
    };
    // SAFETY: the program keeps the contract of sendmsg(2).
    unsafe { descriptors_leave(core::iter::once(message)) };
    let Some(socket) = sockets::find(fd).filter(|_socket| is_readable(message, 1)) else {
        return real();
    };
    // SAFETY: readable, and valid by the contract of sendmsg(2).
    let header = unsafe { &*message };
    if header.msg_controllen > 0 {
        socket.pin(PinReason::Ancillary);
        return real();
    }
    // A Unix socket fails with the right error, see `sendto`.
    let is_addressed = !header.msg_name.is_null() && header.msg_namelen > 0;
    if is_addressed && socket.is_unix() {
        return real();
    }
    // SAFETY: sendmsg(2) gets `msg_iovlen` runs, which it may read.
    let buffers = unsafe { program_runs(header.msg_iov, header.msg_iovlen) };
    finish(socket.send(buffers, flags), real)
}
