//! Bytes of C, sent and received.
//!
//! # Safety
//! A slice is made of memory that was checked to be there, for one call; that no other thread changes
//! it meanwhile is the caller's duty, as with send(2).
#![allow(unsafe_code)]

use super::answer::{Answer, fault};
use super::name;
use super::table::{self, State};
use crate::memory;
use core::ffi::{c_int, c_void};
use libc::{iovec, msghdr, sockaddr, socklen_t};
use m3ipc_sockets::{Errno, How, Stream};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Pieces that one message may have.
const PIECES_MAX: usize = 1024;
/// Bytes that an iovec is copied in with.
const PIECE_BYTES: usize = size_of::<iovec>();

/// Flags of a call.
#[derive(Clone, Copy)]
pub(super) struct Flags(pub(super) c_int);

impl Flags {
    fn has(self, flag: c_int) -> bool {
        self.0 & flag != 0
    }

    fn wait(self) -> bool {
        !self.has(libc::MSG_DONTWAIT)
    }
}

/// Bytes somewhere in memory of C.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    at: usize,
    length: usize,
}

impl Bytes {
    pub(super) fn at(first: *const c_void, length: usize) -> Self {
        Self { at: first.expose_provenance(), length: length.min(isize::MAX as usize) }
    }

    /// To be read.
    fn get<'a>(self) -> Answer<&'a [u8]> {
        if self.length == 0 {
            return Ok(&[]);
        }
        let first: *const u8 = core::ptr::with_exposed_provenance(self.at);
        memory::check_bytes(first.cast(), self.length).map_err(fault)?;
        // SAFETY: every page of it can be read; used for this call alone.
        Ok(unsafe { core::slice::from_raw_parts(first, self.length) })
    }

    /// To be written.
    fn get_mut<'a>(self) -> Answer<&'a mut [u8]> {
        if self.length == 0 {
            return Ok(&mut []);
        }
        let first: *mut u8 = core::ptr::with_exposed_provenance_mut(self.at);
        memory::check_room(first.cast(), self.length).map_err(fault)?;
        // SAFETY: every page of it can be written; used for this call alone.
        Ok(unsafe { core::slice::from_raw_parts_mut(first, self.length) })
    }
}

/// Raises SIGPIPE where the program did not ask for silence.
fn told(failed: Errno, flags: Flags) -> Errno {
    if failed == Errno::PIPE && !flags.has(libc::MSG_NOSIGNAL) {
        // SAFETY: an integer; what the signal does is the program's own choice.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    failed
}

pub(super) fn send(
    fd: c_int,
    pieces: &[Bytes],
    to: Option<SocketAddrV4>,
    flags: Flags,
) -> Answer<usize> {
    if flags.has(libc::MSG_OOB) {
        return Err(Errno::OPNOTSUPP);
    }
    let entry = table::find(fd)?;
    let mut state = entry.state();
    let socket = match &*state {
        State::Connected(stream, _) => {
            let stream = Arc::clone(stream);
            // The call may sleep.
            drop(state);
            return send_stream(&stream, pieces, flags);
        }
        State::Fresh | State::Datagrams(_) if entry.kind == m3ipc_sockets::SockKind::Datagram => {
            entry.with_datagrams(fd, &mut state, |socket| Ok(Arc::clone(socket)))?
        }
        _ => return Err(told(Errno::PIPE, flags)),
    };
    drop(state);
    let whole;
    let bytes = match pieces {
        [one] => one.get()?,
        several => {
            let gathered: Answer<Vec<&[u8]>> = several.iter().map(|piece| piece.get()).collect();
            whole = gathered?.concat();
            &whole
        }
    };
    let sent = match to {
        Some(to) => socket.send_to(bytes, to, flags.wait()),
        None => socket.send(bytes, flags.wait()),
    };
    Ok(sent?)
}

fn send_stream(stream: &Stream, pieces: &[Bytes], flags: Flags) -> Answer<usize> {
    let mut done = 0;
    for piece in pieces {
        let bytes = piece.get()?;
        match stream.send(bytes, flags.wait()) {
            Ok(sent) => {
                done += sent;
                if sent < bytes.len() {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(told(errno, flags)),
        }
    }
    Ok(done)
}

/// What a receiving call got.
pub(super) struct Got {
    pub(super) answer: usize,
    pub(super) from: Option<SocketAddrV4>,
    cut: bool,
}

pub(super) fn receive(fd: c_int, pieces: &[Bytes], flags: Flags) -> Answer<Got> {
    if flags.has(libc::MSG_OOB) {
        return Err(Errno::INVAL);
    }
    let entry = table::find(fd)?;
    let mut state = entry.state();
    let how = How { wait: flags.wait(), peek: flags.has(libc::MSG_PEEK) };
    let socket = match &*state {
        State::Connected(stream, _) => {
            let stream = Arc::clone(stream);
            drop(state);
            let answer = receive_stream(&stream, pieces, how, flags)?;
            return Ok(Got { answer, from: None, cut: false });
        }
        State::Fresh | State::Datagrams(_) if entry.kind == m3ipc_sockets::SockKind::Datagram => {
            entry.with_datagrams(fd, &mut state, |socket| Ok(Arc::clone(socket)))?
        }
        _ => return Err(Errno::NOTCONN),
    };
    drop(state);
    let room = pieces
        .iter()
        .map(|piece| piece.length)
        .sum::<usize>()
        .min(m3ipc_sockets::DATAGRAM_MAX_BYTES);
    let mut whole = Vec::new();
    let bytes = match pieces {
        [one] => one.get_mut()?,
        _ => {
            whole.resize(room, 0);
            &mut whole[..]
        }
    };
    let got = socket.receive(bytes, how)?;
    if pieces.len() != 1 {
        let mut rest = &whole[..got.taken];
        for piece in pieces {
            let part = piece.get_mut()?;
            let count = part.len().min(rest.len());
            part[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
    }
    let answer = if flags.has(libc::MSG_TRUNC) { got.sent } else { got.taken };
    Ok(Got { answer, from: Some(got.from), cut: got.sent > got.taken })
}

fn receive_stream(stream: &Stream, pieces: &[Bytes], how: How, flags: Flags) -> Answer<usize> {
    // All of it, where the call may wait: but a peek has what lies there.
    let all = flags.has(libc::MSG_WAITALL) && how.wait && !how.peek && !stream.is_nonblocking();
    let mut done = 0;
    for piece in pieces {
        let bytes = piece.get_mut()?;
        let mut at = 0;
        while at < bytes.len() {
            // What came first ends a call that does not want all.
            let wait = how.wait && (done == 0 || all);
            match stream.receive(&mut bytes[at..], How { wait, peek: how.peek }) {
                Ok(0) => return Ok(done),
                Ok(got) => {
                    done += got;
                    at += got;
                    // A second look would see the same again.
                    if how.peek || (!all && at < bytes.len()) {
                        return Ok(done);
                    }
                }
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
        }
    }
    if pieces.iter().all(|piece| piece.length == 0) {
        stream.receive(&mut [], how)?;
    }
    Ok(done)
}

/// The header of a message, and its pieces.
fn header(message: *const msghdr) -> Answer<(msghdr, Vec<Bytes>)> {
    memory::check_bytes(message.cast(), size_of::<msghdr>()).map_err(fault)?;
    // SAFETY: checked; plain numbers and pointers, of which any pattern is one.
    let header = unsafe { message.read_unaligned() };
    let count = header.msg_iovlen;
    if count > PIECES_MAX {
        return Err(Errno::MSGSIZE);
    }
    if count > 0 {
        memory::check_bytes(header.msg_iov.cast(), count * PIECE_BYTES).map_err(fault)?;
    }
    let pieces = (0..count).map(|at| {
        // SAFETY: checked to be memory of so many.
        let piece = unsafe { header.msg_iov.wrapping_add(at).read_unaligned() };
        Bytes::at(piece.iov_base, piece.iov_len)
    });
    Ok((header, pieces.collect()))
}

pub(super) fn send_message(fd: c_int, message: *const msghdr, flags: Flags) -> Answer<usize> {
    let (header, pieces) = header(message)?;
    if header.msg_controllen != 0 {
        // Nothing of it is known here; to drop it in silence would be worse.
        return Err(Errno::INVAL);
    }
    let to = if header.msg_name.is_null() {
        None
    } else {
        Some(name::read(header.msg_name.cast::<sockaddr>(), header.msg_namelen)?)
    };
    send(fd, &pieces, to, flags)
}

pub(super) fn receive_message(fd: c_int, message: *mut msghdr, flags: Flags) -> Answer<usize> {
    let (mut header, pieces) = header(message)?;
    memory::check_room(message.cast(), size_of::<msghdr>()).map_err(fault)?;
    let got = receive(fd, &pieces, flags)?;
    let mut length: socklen_t = header.msg_namelen;
    match got.from {
        Some(from) => name::write(header.msg_name.cast(), &raw mut length, from)?,
        None => length = 0,
    }
    header.msg_namelen = length;
    header.msg_controllen = 0;
    header.msg_flags = if got.cut { libc::MSG_TRUNC } else { 0 };
    // SAFETY: checked to be memory that can be written.
    unsafe { message.write_unaligned(header) };
    Ok(got.answer)
}
