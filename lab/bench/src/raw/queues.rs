//! POSIX and System V message queues, which rustix does not wrap.
//!
//! # Safety
//! Each call passes a buffer with its true length and a C string that outlives the call. The
//! kernel checks descriptors and ids.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Creates a POSIX queue of `depth` messages of `bytes` each and removes its name at once.
///
/// The queue lives as long as its descriptors.
pub fn posix_create(name: &CStr, depth: i64, bytes: i64) -> io::Result<OwnedFd> {
    // SAFETY: mq_attr has integers only, for which all zeroes is a value.
    let mut shape: libc::mq_attr = unsafe { std::mem::zeroed() };
    shape.mq_maxmsg = depth;
    shape.mq_msgsize = bytes;
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    // SAFETY: `name` is a C string. Mode and attributes have the types that O_CREAT takes.
    let number =
        unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw const shape) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: on Linux a queue is a descriptor. This one is new and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: `name` is a C string.
    if unsafe { libc::mq_unlink(name.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// Sends one message to a POSIX queue, waiting while it is full.
pub fn posix_send(queue: &OwnedFd, message: &[u8]) -> io::Result<()> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let sent =
            unsafe { libc::mq_send(queue.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent == 0 {
            return Ok(());
        }
        again(io::Error::last_os_error())?;
    }
}

/// Takes one message from a POSIX queue, waiting while it is empty; returns its length.
pub fn posix_receive(queue: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is valid and writable for its length.
        let got = unsafe {
            libc::mq_receive(
                queue.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                std::ptr::null_mut(),
            )
        };
        if let Ok(length) = usize::try_from(got) {
            return Ok(length);
        }
        again(io::Error::last_os_error())?;
    }
}

/// A System V message as the kernel takes it: its type, then its bytes.
#[repr(C)]
pub struct SystemVMessage {
    /// Positive; the receiver selects by it.
    pub message_type: libc::c_long,
    /// The message.
    pub words: [u64; 6],
}

/// Creates a private System V queue; it lives until [`system_v_remove`].
pub fn system_v_create() -> io::Result<i32> {
    // SAFETY: takes integers only.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    if queue < 0 { Err(io::Error::last_os_error()) } else { Ok(queue) }
}

/// Removes a System V queue; its waiters get EIDRM.
pub fn system_v_remove(queue: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID ignores the buffer.
    let done = unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends the first `bytes` bytes (at most 48) of a message.
pub fn system_v_send(queue: i32, message: &SystemVMessage, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(size_of_val(&message.words));
    loop {
        // SAFETY: `message` begins with its type and holds at least `bytes` bytes after it.
        if unsafe { libc::msgsnd(queue, std::ptr::from_ref(message).cast(), bytes, 0) } == 0 {
            return Ok(());
        }
        again(io::Error::last_os_error())?;
    }
}

/// Takes the first message of this type; returns its length.
pub fn system_v_receive(
    queue: i32,
    message_type: libc::c_long,
    message: &mut SystemVMessage,
) -> io::Result<usize> {
    let room = size_of_val(&message.words);
    loop {
        // SAFETY: `message` has room for a type and `room` bytes. Any bytes are valid words.
        let got = unsafe {
            libc::msgrcv(queue, std::ptr::from_mut(message).cast(), room, message_type, 0)
        };
        if let Ok(length) = usize::try_from(got) {
            return Ok(length);
        }
        again(io::Error::last_os_error())?;
    }
}

/// Drops the error of an interrupted call, which is then repeated.
fn again(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
