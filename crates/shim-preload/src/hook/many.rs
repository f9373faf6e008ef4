//! Many messages in one call, files sent as they lie, and bytes that move between descriptors inside the kernel.

use super::data;
use crate::look;
use crate::watch::now_ns;
use crate::{errno, next, set_errno};
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, mmsghdr, off_t, size_t, ssize_t, timespec};
use m3ipc_shim::engine::Pin;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if messages.is_null() || look::talk(fd).is_none() {
        for index in 0..count.min(1024) as usize * usize::from(!messages.is_null()) {
            crate::carry::leaving(&raw const (*messages.add(index)).msg_hdr);
        }
        return next::sendmmsg(fd, messages, count, flags);
    }
    for index in 0..count.min(1024) {
        let message = messages.add(index as usize);
        let sent = data::sendmsg(fd, &raw const (*message).msg_hdr, flags);
        if sent < 0 {
            return if index == 0 { -1 } else { index as c_int };
        }
        (*message).msg_len = sent as c_uint;
    }
    count.min(1024) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if messages.is_null() || look::talk(fd).is_none() {
        let got = next::recvmmsg(fd, messages, count, flags, timeout);
        for index in 0..got.max(0) as usize {
            crate::carry::arrived(&raw const (*messages.add(index)).msg_hdr);
        }
        return got;
    }
    let sound = |time: &timespec| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    if !timeout.is_null() && !sound(&*timeout) {
        set_errno(libc::EINVAL);
        return -1;
    }
    // As in the kernel, the time is looked at between messages only.
    let end = (!timeout.is_null()).then(|| {
        now_ns()
            .saturating_add((*timeout).tv_sec as u64 * 1_000_000_000 + (*timeout).tv_nsec as u64)
    });
    let mut flags = flags;
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    flags &= !libc::MSG_WAITFORONE;
    for index in 0..count {
        let message = messages.add(index as usize);
        let got = data::recvmsg(fd, &raw mut (*message).msg_hdr, flags);
        if got < 0 {
            return if index == 0 { -1 } else { index as c_int };
        }
        (*message).msg_len = got as c_uint;
        if wait_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        if end.is_some_and(|end| now_ns() >= end) {
            return index as c_int + 1;
        }
    }
    count as c_int
}

/// Bytes that are taken from the file at once, on the stack.
const CHUNK: usize = 32 * 1024;

unsafe fn send_file(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let seek = |to: off_t, whence: c_int| {
        crate::raw(libc::SYS_lseek, [from as usize, to as usize, whence as usize, 0, 0, 0])
    };
    let begin = if offset.is_null() { seek(0, libc::SEEK_CUR) } else { Ok(*offset as usize) };
    // What has no position cannot be read ahead of what can be sent.
    let Ok(begin) = begin else { return in_kernel(out, from, offset, count) };
    let mut chunk = [core::mem::MaybeUninit::<u8>::uninit(); CHUNK];
    let mut sent = 0_usize;
    let failed = loop {
        let wanted = (count - sent).min(CHUNK);
        let at = chunk.as_mut_ptr() as usize;
        let got =
            match crate::raw(libc::SYS_pread64, [from as usize, at, wanted, begin + sent, 0, 0]) {
                Ok(got) => got,
                Err(code) => break Some(code),
            };
        if got == 0 {
            break None;
        }
        let part = iovec { iov_base: at as *mut c_void, iov_len: got };
        let gone = data::send_parts(out, 1, &raw const part, 0, || {
            next::write(out, at as *const c_void, got)
        });
        if gone < 0 {
            break Some(errno());
        }
        sent += gone as usize;
        if (gone as usize) < got || sent == count {
            break None;
        }
    };
    if let (Some(code), 0) = (failed, sent) {
        set_errno(code);
        return -1;
    }
    if offset.is_null() {
        let _ = seek((begin + sent) as off_t, libc::SEEK_SET);
    } else {
        *offset = (begin + sent) as off_t;
    }
    sent as ssize_t
}

unsafe fn in_kernel(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    look::pin(out, Pin::Splice, true);
    next::sendfile(out, from, offset, count)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    if look::talk(from).is_some() {
        look::pin(from, Pin::Splice, true);
    }
    if look::talk(out).is_none() || count == 0 {
        return next::sendfile(out, from, offset, count);
    }
    send_file(out, from, offset, count.min(0x7fff_f000))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    sendfile(out, from, offset, count)
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
    for fd in [from, to] {
        if look::talk(fd).is_some() {
            look::pin(fd, Pin::Splice, true);
        }
    }
    next::splice(from, from_offset, to, to_offset, bytes, flags)
}

/// The descriptor of a block of asynchronous I/O stands first in it.
unsafe fn pin_block(block: *mut c_void) {
    if !block.is_null() {
        let fd = block.cast::<c_int>().read();
        if look::talk(fd).is_some() {
            look::pin(fd, Pin::Asynchronous, true);
        }
    }
}

macro_rules! asynchronous {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(block: *mut c_void) -> c_int {
            pin_block(block);
            next::$name(block)
        }
    )*};
}
asynchronous!(aio_read aio_read64 aio_write aio_write64);

macro_rules! lists {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int {
            for index in 0..if list.is_null() { 0 } else { count.max(0) as usize } {
                pin_block(*list.add(index));
            }
            next::$name(mode, list, count, event)
        }
    )*};
}
lists!(lio_listio lio_listio64);
