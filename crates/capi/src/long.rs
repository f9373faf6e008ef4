//! Long messages: up to 1,792 bytes beside the 48 in the link, up to 1 GiB as a block.
//!
//! The bytes go through a buffer of the library, up to 1,792 of them on the stack, in both
//! directions: memory of C is then touched by a copy only, and `out` and `in` of one
//! call may be the same.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::guard::{Answer, FOREVER, Refused, call};
use crate::{memory, message};
use core::ffi::{c_int, c_long, c_void};
use core::ptr::{null, null_mut};
use m3ipc::{Code, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message};

/// Bytes of C that go out with a message.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing {
    from: *const c_void,
    bytes: usize,
}

impl Outgoing {
    pub(crate) const NONE: Self = Self { from: null(), bytes: 0 };

    /// Does something with a copy of the bytes.
    #[inline]
    pub(crate) fn with<T>(
        self,
        body: impl FnOnce(&[u8]) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        if self.bytes == 0 { body(&[]) } else { self.with_copy(body) }
    }

    fn with_copy<T>(self, body: impl FnOnce(&[u8]) -> Result<T, Refused>) -> Result<T, Refused> {
        with_room(self.bytes, |room| {
            let room = room.get_mut(..self.bytes).ok_or(Code::MsgSize)?;
            memory::read_bytes(self.from, room)?;
            body(room)
        })
    }
}

/// Does something with a buffer of so many bytes, or of as many as a message can have.
fn with_room<T>(bytes: usize, body: impl FnOnce(&mut [u8]) -> T) -> T {
    if bytes > LONG_MAX_BYTES {
        return body(&mut vec![0; bytes.min(LARGE_MAX_BYTES)]);
    }
    let mut room = [0; LONG_MAX_BYTES];
    body(&mut room[..bytes])
}

/// Where bytes that come with a message go to.
#[derive(Clone, Copy)]
pub(crate) struct Incoming {
    to: *mut c_void,
    capacity: usize,
    /// Where their number goes to, if anywhere.
    len: *mut usize,
}

impl Incoming {
    pub(crate) const NONE: Self = Self { to: null_mut(), capacity: 0, len: null_mut() };
}

/// Takes a message by `take`, which gets room for its bytes and tells how many there are.
#[inline]
pub(crate) fn deliver(
    m: *mut Message,
    into: Incoming,
    take: impl FnOnce(&mut [u8]) -> Result<(Message, usize), Refused>,
) -> Answer {
    // Before it is taken: what cannot be delivered would be lost.
    memory::check_write(m)?;
    if into.capacity == 0 && into.len.is_null() {
        let (message, bytes) = take(&mut [])?;
        memory::write(m, message)?;
        return if bytes == 0 { Ok(0) } else { Err(Code::MsgSize.into()) };
    }
    deliver_long(m, into, take)
}

fn deliver_long(
    m: *mut Message,
    into: Incoming,
    take: impl FnOnce(&mut [u8]) -> Result<(Message, usize), Refused>,
) -> Answer {
    // What a link holds; to look at each page of more would cost every call more than it saves.
    memory::check_room(into.to, into.capacity.min(LONG_MAX_BYTES))?;
    let tell = |bytes| if into.len.is_null() { Ok(()) } else { memory::write(into.len, bytes) };
    tell(0)?;
    with_room(into.capacity, |room| {
        let (message, bytes) = take(room)?;
        memory::write(m, message)?;
        memory::write_bytes(into.to, &room[..bytes.min(room.len())])?;
        tell(bytes)?;
        if bytes <= into.capacity { Ok(0) } else { Err(Code::MsgSize.into()) }
    })
}

/// `m3_send_long`: send with `len` bytes beside the message.
///
/// # Safety
/// `m` is a message, `buf` memory of `len` bytes, that nobody else writes
/// meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send_long(
    dst: c_int,
    m: *mut Message,
    buf: *const c_void,
    len: usize,
) -> c_int {
    call(|| message::send(dst, m, Outgoing { from: buf, bytes: len }, FOREVER))
}

/// `m3_send_long_T`: the same with a limit.
///
/// # Safety
/// As [`m3_send_long`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_send_long_T(
    dst: c_int,
    m: *mut Message,
    buf: *const c_void,
    len: usize,
    timeout_ms: c_long,
) -> c_int {
    call(|| message::send(dst, m, Outgoing { from: buf, bytes: len }, timeout_ms))
}

/// `m3_reply_long`: reply with `len` bytes beside the message.
///
/// # Safety
/// As [`m3_send_long`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_reply_long(
    dst: c_int,
    m: *mut Message,
    buf: *const c_void,
    len: usize,
) -> c_int {
    call(|| message::reply(dst, m, Outgoing { from: buf, bytes: len }))
}

/// `m3_receive_long`: receive; the bytes beside the message go to `buf`.
///
/// # Safety
/// `m` is a message, `buf` memory of `cap` bytes, `len` null or a number, that
/// nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_receive_long(
    src: c_int,
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    call(|| message::receive(src, m, Incoming { to: buf, capacity: cap, len }, FOREVER))
}

/// `m3_receive_long_T`: the same with a limit.
///
/// # Safety
/// As [`m3_receive_long`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_receive_long_T(
    src: c_int,
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    call(|| message::receive(src, m, Incoming { to: buf, capacity: cap, len }, timeout_ms))
}

/// `m3_rcvrqst_long`: rcvrqst; the bytes beside the message go to `buf`.
///
/// # Safety
/// As [`m3_receive_long`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_rcvrqst_long(
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    call(|| message::rcvrqst(m, Incoming { to: buf, capacity: cap, len }, FOREVER))
}

/// `m3_rcvrqst_long_T`: the same with a limit.
///
/// # Safety
/// As [`m3_receive_long`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_rcvrqst_long_T(
    m: *mut Message,
    buf: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    call(|| message::rcvrqst(m, Incoming { to: buf, capacity: cap, len }, timeout_ms))
}

/// `m3_sendrec_long`: sendrec with bytes both ways; `out` and `into` may be the same memory.
///
/// # Safety
/// As [`m3_send_long`] and [`m3_receive_long`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_long(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
) -> c_int {
    let (out, into) =
        (Outgoing { from: out, bytes: out_len }, Incoming { to: into, capacity: cap, len });
    call(|| message::sendrec(dst, m, out, into, FOREVER))
}

/// `m3_sendrec_long_T`: the same with a limit.
///
/// # Safety
/// As [`m3_sendrec_long`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn m3_sendrec_long_T(
    dst: c_int,
    m: *mut Message,
    out: *const c_void,
    out_len: usize,
    into: *mut c_void,
    cap: usize,
    len: *mut usize,
    timeout_ms: c_long,
) -> c_int {
    let (out, into) =
        (Outgoing { from: out, bytes: out_len }, Incoming { to: into, capacity: cap, len });
    call(|| message::sendrec(dst, m, out, into, timeout_ms))
}
