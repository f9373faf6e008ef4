//! Several messages in one call, `sendfile`, `splice`, and asynchronous I/O.
//!
//! # Safety
//! Lists and offsets are the program's, valid as the manual page of each function demands. They are
//! read only where the call concerns a socket of ours, and where they are readable.
#![allow(unsafe_code)]

use super::errno;
use super::message::{self, recvmsg, sendmsg};
use super::stream::finish;
use crate::next;
use core::ffi::{c_int, c_long, c_uint, c_void};
use libc::{mmsghdr, msghdr, off_t, size_t, ssize_t, timespec};
use m3ipc_shim::connection::unannounced::announce;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::monotonic_ns;
use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::process::descriptors;
use m3ipc_shim::readiness::time_left_ns;
use m3ipc_shim::send_file::{Offset, SentFile, send_file};
use m3ipc_shim::sockets;
use m3ipc_shim::splice::splice_from_ring;

/// Messages of one call at most, as in the kernel.
const MESSAGES_MAX: c_uint = 1024;

/// Message `index` of a list; `None` where the kernel must refuse it.
///
/// # Safety
/// `messages` has this message, as sendmmsg(2) and recvmmsg(2) demand, and no other reference to it
/// is live.
unsafe fn message_at<'a>(messages: *mut mmsghdr, index: c_uint) -> Option<&'a mut mmsghdr> {
    let message = messages.wrapping_add(index as usize);
    // SAFETY: readable, and the caller promises the rest.
    is_readable(message, 1).then(|| unsafe { &mut *message })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let sent_max = count.min(MESSAGES_MAX);
    if sockets::find(fd).is_none() || !is_readable(messages, 1) {
        // Addresses alone; the header is the first field.
        let headers = (0..sent_max as usize).map(|index| messages.wrapping_add(index).cast_const());
        // SAFETY: the program keeps the contract of sendmmsg(2).
        unsafe { message::descriptors_leave(headers.map(<*const mmsghdr>::cast)) };
        announce();
        // SAFETY: the program keeps the contract of sendmmsg(2).
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    }
    // SAFETY: as above.
    if let Some(sent) = unsafe { send_as_given(fd, messages, count, flags) } {
        return sent;
    }
    let errno_before = errno::get();
    for index in 0..sent_max {
        // SAFETY: sendmmsg(2) gets `count` messages, of which each is used once.
        let Some(message) = (unsafe { message_at(messages, index) }) else {
            return partial(index, errno_before);
        };
        // SAFETY: the program keeps the contract of sendmmsg(2) for each message.
        let sent = unsafe { sendmsg(fd, &raw const message.msg_hdr, flags) };
        let Ok(sent) = c_uint::try_from(sent) else { return partial(index, errno_before) };
        message.msg_len = sent;
        // SAFETY: `sendmsg` took the message, so its runs are readable.
        if (sent as usize) < unsafe { bytes_in(&message.msg_hdr) } {
            return errno::count(index as usize + 1);
        }
    }
    errno::count(sent_max as usize)
}

/// Bytes that a message has in its runs.
///
/// # Safety
/// The message is valid as for sendmsg(2).
unsafe fn bytes_in(message: &msghdr) -> usize {
    let run = |at| {
        // SAFETY: the caller promises `msg_iovlen` runs.
        unsafe { (*message.msg_iov.add(at)).iov_len }
    };
    (0..message.msg_iovlen).map(run).sum()
}

/// Bytes of the first messages of a list, as a call left them; its error where it failed.
///
/// # Safety
/// The call returned `count`, and filled so many messages.
unsafe fn bytes_of(messages: *const mmsghdr, count: c_int) -> Result<usize, c_int> {
    let count = usize::try_from(count).map_err(|_negative| errno::get())?;
    // SAFETY: the caller promises the messages.
    Ok((0..count).map(|index| unsafe { (*messages.add(index)).msg_len } as usize).sum())
}

/// Sends messages in one call of the kernel, where the socket has no ring and no message has
/// control data.
///
/// # Safety
/// As for sendmmsg(2).
unsafe fn send_as_given(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Option<c_int> {
    let socket = sockets::find(fd)?;
    let has_control = |index: c_uint| {
        // SAFETY: the caller promises the messages.
        unsafe { message_at(messages, index) }
            .is_none_or(|message| message.msg_hdr.msg_controllen > 0)
    };
    if (0..count.min(MESSAGES_MAX)).any(has_control) {
        return None;
    }
    let outcome = socket.kernel_route_of_send()?;
    announce();
    // SAFETY: the caller keeps the contract of sendmmsg(2).
    let sent = unsafe { next::sendmmsg(fd, messages, count, flags) };
    if let Outcome::Counted(call) = outcome {
        // SAFETY: sendmmsg(2) filled the first `sent` messages.
        call.end(unsafe { bytes_of(messages, sent) });
    }
    Some(sent)
}

/// The result of a call that failed at this message. After others it succeeds, and leaves `errno`.
fn partial(index: c_uint, errno_before: c_int) -> c_int {
    if index == 0 {
        return -1;
    }
    errno::set(errno_before);
    errno::count(index as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let is_ours = sockets::find(fd).is_some()
        && is_readable(messages, 1)
        && (timeout.is_null() || is_readable(timeout, 1));
    if !is_ours {
        // SAFETY: the program keeps the contract of recvmmsg(2).
        let got = unsafe { next::recvmmsg(fd, messages, count, flags, timeout) };
        for index in 0..usize::try_from(got).unwrap_or(0) {
            // SAFETY: recvmmsg(2) filled the first `got` messages.
            unsafe { message::descriptors_arrived(&raw const (*messages.add(index)).msg_hdr) };
        }
        return got;
    }
    // SAFETY: as above.
    if let Some(got) = unsafe { receive_as_given(fd, messages, count, flags, timeout) } {
        return got;
    }
    // SAFETY: null, or readable and valid by the contract of recvmmsg(2).
    let limit_ns = match unsafe { timeout.as_ref() }.map(nanoseconds) {
        Some(None) => return errno::fail(libc::EINVAL),
        Some(limit) => limit,
        None => None,
    };
    let start_ns = monotonic_ns();
    let took_ns = || monotonic_ns().saturating_sub(start_ns);
    let is_over = || limit_ns.is_some_and(|limit_ns| took_ns() >= limit_ns);
    // SAFETY: the program keeps the contract of recvmmsg(2).
    let got = unsafe { receive_many(fd, messages, count, flags, is_over) };
    // The kernel reports the time that is left after at least one message.
    let left_ns = limit_ns.and_then(|limit_ns| time_left_ns(limit_ns, took_ns(), false));
    if let Some(left_ns) = left_ns.filter(|_left| got > 0) {
        // SAFETY: a limit exists only for a timeout that is not null.
        unsafe { timeout.write(time(left_ns)) };
    }
    got
}

/// Receives messages in one call of the kernel, where the socket has no ring.
///
/// # Safety
/// As for recvmmsg(2).
unsafe fn receive_as_given(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Option<c_int> {
    let has_control = |index: c_uint| {
        // SAFETY: the caller promises the messages.
        unsafe { message_at(messages, index) }
            .is_none_or(|message| message.msg_hdr.msg_controllen > 0)
    };
    if (0..count.min(MESSAGES_MAX)).any(has_control) {
        return None;
    }
    let outcome = sockets::find(fd)?.kernel_route_of_receive()?;
    // SAFETY: the caller keeps the contract of recvmmsg(2).
    let got = unsafe { next::recvmmsg(fd, messages, count, flags, timeout) };
    if let Outcome::Counted(call) = outcome {
        // SAFETY: recvmmsg(2) filled the first `got` messages.
        call.end(unsafe { bytes_of(messages, got) });
    }
    Some(got)
}

/// Receives messages until one fails, or the time is over after one.
///
/// # Safety
/// As for recvmmsg(2).
unsafe fn receive_many(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    is_over: impl Fn() -> bool,
) -> c_int {
    let errno_before = errno::get();
    let mut call_flags = flags & !libc::MSG_WAITFORONE;
    for index in 0..count {
        // SAFETY: recvmmsg(2) gets `count` messages, of which each is used once.
        let Some(message) = (unsafe { message_at(messages, index) }) else {
            return partial(index, errno_before);
        };
        // SAFETY: the caller keeps the contract of recvmmsg(2) for each message.
        let got = unsafe { recvmsg(fd, &raw mut message.msg_hdr, call_flags) };
        let Ok(got) = c_uint::try_from(got) else {
            if index > 0
                && let Some(socket) = sockets::known(fd)
            {
                socket.keep_error(errno::get());
            }
            return partial(index, errno_before);
        };
        message.msg_len = got;
        if flags & libc::MSG_WAITFORONE != 0 {
            call_flags |= libc::MSG_DONTWAIT;
        }
        // The call checks the time between messages only, as the kernel does.
        if is_over() {
            return errno::count(index as usize + 1);
        }
    }
    errno::count(count as usize)
}

/// A time of so many nanoseconds.
fn time(ns: u64) -> timespec {
    let part = |ns: u64| c_long::try_from(ns).unwrap_or(c_long::MAX);
    timespec { tv_sec: part(ns / 1_000_000_000), tv_nsec: part(ns % 1_000_000_000) }
}

/// A time in nanoseconds; `None` for a time that the kernel refuses.
pub fn nanoseconds(time: &timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u64::try_from(time.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    if offset.is_null()
        && let Some(moved) = from_ring(from, out, count, true)
    {
        return moved;
    }
    let errno_before = errno::get();
    let begin = || {
        if offset.is_null() {
            return Offset::OfFile;
        }
        if !is_readable(offset, 1) {
            return Offset::Unreadable;
        }
        // SAFETY: readable, and valid by the contract of sendfile(2).
        let begin = unsafe { *offset };
        // The kernel refuses a negative offset when it is used; the value stays the same.
        Offset::At(usize::try_from(begin).unwrap_or(usize::MAX))
    };
    let write = |bytes: &[u8]| {
        // SAFETY: the slice is live.
        errno::result(unsafe { next::write(out, bytes.as_ptr().cast(), bytes.len()) })
    };
    match send_file(out, from, begin, count, write) {
        SentFile::Sent(bytes, end) => {
            // A write after others may have failed.
            errno::set(errno_before);
            if !offset.is_null() {
                // SAFETY: not null, and valid by the contract of sendfile(2).
                unsafe { *offset = off_t::try_from(end).unwrap_or(off_t::MAX) };
            }
            errno::bytes(bytes)
        }
        SentFile::Failed(code) => {
            errno::set(code);
            -1
        }
        SentFile::Kernel(outcome) => finish(outcome, || {
            announce();
            // SAFETY: the program keeps the contract of sendfile(2).
            unsafe { next::sendfile(out, from, offset, count) }
        }),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the same function.
    unsafe { sendfile(out, from, offset, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    bytes: size_t,
    flags: c_uint,
) -> ssize_t {
    const FLAGS: c_uint = 0xf;
    // Bytes for the program, which lie in a ring, are received all the same.
    sockets::pin_found(to, PinReason::Splice);
    if from_offset.is_null()
        && to_offset.is_null()
        && flags & !FLAGS == 0
        && let Some(moved) = from_ring(from, to, bytes, flags & libc::SPLICE_F_NONBLOCK == 0)
    {
        return moved;
    }
    announce();
    // SAFETY: the program keeps the contract of splice(2).
    unsafe { next::splice(from, from_offset, to, to_offset, bytes, flags) }
}

/// Moves bytes of a ring into a pipe; `None` where there are none.
fn from_ring(from: c_int, to: c_int, bytes: size_t, waits: bool) -> Option<ssize_t> {
    let write = |bytes: &[u8]| {
        announce();
        // SAFETY: the slice is live.
        errno::result(unsafe { next::write(to, bytes.as_ptr().cast(), bytes.len()) })
    };
    let moved = splice_from_ring(from, to, bytes, waits, write)?;
    Some(moved.map_or_else(|code| errno::fail(code) as ssize_t, errno::bytes))
}

/// Pins the descriptor of an asynchronous operation, which is the first field of its block.
///
/// # Safety
/// `block` is null or points to an `aiocb`.
unsafe fn pin_block(block: *const c_void) {
    // SAFETY: null, or an `aiocb`, which begins with an aligned descriptor.
    if let Some(fd) = unsafe { block.cast::<c_int>().as_ref() } {
        sockets::pin_found_or_shut_down(*fd, PinReason::Asynchronous);
    }
}

macro_rules! asynchronous {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(block: *mut c_void) -> c_int {
            // SAFETY: the program keeps the contract of aio_read(3).
            unsafe {
                pin_block(block);
                next::$name(block)
            }
        }
    )*};
}
asynchronous!(aio_read aio_read64 aio_write aio_write64);

/// The operation and the descriptor in a block of the kernel's asynchronous I/O (`struct iocb`).
const OPERATION_AT: usize = 16;
const DESCRIPTOR_AT: usize = 20;
/// `IOCB_CMD_POLL`, which moves no bytes: the kernel knows what is readable.
const POLL: u16 = 5;

/// Pins the descriptors of operations that the kernel makes by itself.
///
/// # Safety
/// As io_submit(2) demands, but any address may be bad.
pub unsafe fn pin_submitted(count: c_long, blocks: *const *mut c_void) {
    let count = usize::try_from(count).unwrap_or(0);
    if !descriptors::any_ours() || !is_readable(blocks, count) {
        return;
    }
    for index in 0..count {
        // SAFETY: readable (just checked).
        let block = unsafe { blocks.add(index).read_unaligned() }.cast::<u8>();
        if !is_readable(block, DESCRIPTOR_AT + size_of::<c_int>()) {
            return;
        }
        // SAFETY: readable (just checked).
        let (operation, fd) = unsafe {
            (
                block.add(OPERATION_AT).cast::<u16>().read_unaligned(),
                block.add(DESCRIPTOR_AT).cast::<c_int>().read_unaligned(),
            )
        };
        if operation != POLL {
            sockets::pin_found_or_shut_down(fd, PinReason::Asynchronous);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_submit(
    context: *mut c_void,
    count: c_long,
    blocks: *mut *mut c_void,
) -> c_int {
    // SAFETY: the program keeps the contract of io_submit(2).
    unsafe {
        pin_submitted(count, blocks);
        next::io_submit(context, count, blocks)
    }
}

macro_rules! lists {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            mode: c_int,
            list: *const *mut c_void,
            count: c_int,
            event: *mut c_void,
        ) -> c_int {
            let blocks = if list.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
            // SAFETY: the program keeps the contract of lio_listio(3): `count` blocks.
            unsafe {
                (0..blocks).for_each(|index| pin_block(*list.add(index)));
                next::$name(mode, list, count, event)
            }
        }
    )*};
}
lists!(lio_listio lio_listio64);
