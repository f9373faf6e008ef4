//! Bytes, sent and received.

use super::kernel;
use super::posix::{PosixResult, fault};
use super::table::{self, SocketEntry, SocketState};
use crate::memory::{ReadBytes, WriteBytes};
use core::ffi::c_int;
use m3ipc_sockets::{DATAGRAM_MAX_BYTES, DatagramSocket, Errno, ReceiveOptions, Stream};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// Bytes of a stream that one step checks and moves: a call looks at no memory far beyond the
/// bytes that there are.
const STEP_BYTES: usize = 64 << 10;

/// The flags of a call: `MSG_...`.
#[derive(Clone, Copy)]
pub(crate) struct Flags(pub(crate) c_int);

impl Flags {
    fn has(self, flag: c_int) -> bool {
        self.0 & flag != 0
    }

    fn waits(self) -> bool {
        !self.has(libc::MSG_DONTWAIT)
    }
}

/// The socket of a transfer.
enum Carrier {
    Stream(Arc<Stream>),
    Datagrams(Arc<DatagramSocket>),
}

/// The carrier of an entry; `None` if the socket is not connected.
fn carrier(entry: &SocketEntry, fd: c_int) -> PosixResult<Option<Carrier>> {
    let mut state = entry.state();
    Ok(match &*state {
        SocketState::Connected(stream, _) => Some(Carrier::Stream(Arc::clone(stream))),
        SocketState::New | SocketState::Datagrams(_) if !entry.is_stream() => {
            Some(Carrier::Datagrams(entry.datagrams(fd, &mut state)?))
        }
        _ => None,
    })
}

/// Raises SIGPIPE for EPIPE, unless the call has MSG_NOSIGNAL.
fn signal_pipe(errno: Errno, flags: Flags) -> Errno {
    if errno == Errno::PIPE && !flags.has(libc::MSG_NOSIGNAL) {
        kernel::raise_sigpipe();
    }
    errno
}

/// Sends the pieces as one datagram, or one after the other on a stream.
pub(crate) fn send(
    fd: c_int,
    pieces: &[ReadBytes],
    to: Option<SocketAddrV4>,
    flags: Flags,
) -> PosixResult<usize> {
    if flags.has(libc::MSG_OOB) {
        return Err(Errno::OPNOTSUPP);
    }
    let entry = table::find(fd)?;
    match carrier(&entry, fd)? {
        Some(Carrier::Stream(stream)) => send_stream(&stream, pieces, flags),
        Some(Carrier::Datagrams(socket)) => send_datagram(&socket, pieces, to, flags),
        None => Err(signal_pipe(Errno::PIPE, flags)),
    }
}

fn send_datagram(
    socket: &DatagramSocket,
    pieces: &[ReadBytes],
    to: Option<SocketAddrV4>,
    flags: Flags,
) -> PosixResult<usize> {
    let send = |bytes: &[u8]| -> PosixResult<usize> {
        Ok(match to {
            Some(to) => socket.send_to(bytes, to, flags.waits())?,
            None => socket.send(bytes, flags.waits())?,
        })
    };
    let bytes = pieces.iter().fold(0_usize, |bytes, piece| bytes.saturating_add(piece.len()));
    if bytes > DATAGRAM_MAX_BYTES {
        return Err(Errno::MSGSIZE);
    }
    if let [piece] = pieces {
        return piece.with_slice(send).map_err(fault)?;
    }
    let mut whole = Vec::with_capacity(bytes);
    for piece in pieces {
        piece.with_slice(|bytes| whole.extend_from_slice(bytes)).map_err(fault)?;
    }
    send(&whole)
}

fn send_stream(stream: &Stream, pieces: &[ReadBytes], flags: Flags) -> PosixResult<usize> {
    let mut done = 0;
    for step in pieces.iter().flat_map(|piece| piece.steps(STEP_BYTES)) {
        match step.with_slice(|bytes| stream.send(bytes, flags.waits())).map_err(fault) {
            Ok(Ok(sent)) => {
                done += sent;
                if sent < step.len() {
                    break;
                }
            }
            // What was sent counts, also before a bad address.
            Ok(Err(_)) | Err(_) if done > 0 => break,
            Ok(Err(errno)) => return Err(signal_pipe(errno, flags)),
            Err(bad) => return Err(bad),
        }
    }
    Ok(done)
}

/// The result of a receive.
pub(crate) struct Received {
    /// The result of the call: bytes received, or with MSG_TRUNC bytes of the datagram.
    pub(crate) bytes: usize,
    /// The sender of a datagram.
    pub(crate) from: Option<SocketAddrV4>,
    /// The datagram was longer than the room.
    pub(crate) is_cut: bool,
}

/// Receives a datagram, or bytes of a stream, into the pieces.
pub(crate) fn receive(fd: c_int, pieces: &[WriteBytes], flags: Flags) -> PosixResult<Received> {
    if flags.has(libc::MSG_OOB) {
        return Err(Errno::INVAL);
    }
    let entry = table::find(fd)?;
    let how = ReceiveOptions { wait: flags.waits(), peek: flags.has(libc::MSG_PEEK) };
    match carrier(&entry, fd)? {
        Some(Carrier::Stream(stream)) => {
            let bytes = receive_stream(&stream, pieces, how, flags)?;
            Ok(Received { bytes, from: None, is_cut: false })
        }
        Some(Carrier::Datagrams(socket)) => receive_datagram(&socket, pieces, how, flags),
        None => Err(Errno::NOTCONN),
    }
}

fn receive_datagram(
    socket: &DatagramSocket,
    pieces: &[WriteBytes],
    how: ReceiveOptions,
    flags: Flags,
) -> PosixResult<Received> {
    let got = if let [piece] = pieces {
        // A datagram needs no more room than the longest one, and only that is looked at.
        piece
            .first(DATAGRAM_MAX_BYTES)
            .with_slice(|room| socket.receive(room, how))
            .map_err(fault)??
    } else {
        let room = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let mut whole = vec![0; room.min(DATAGRAM_MAX_BYTES)];
        let got = socket.receive(&mut whole, how)?;
        let mut rest = &whole[..got.taken];
        for piece in pieces {
            let (part, later) = rest.split_at(piece.len().min(rest.len()));
            piece.write(part).map_err(fault)?;
            rest = later;
        }
        got
    };
    let bytes = if flags.has(libc::MSG_TRUNC) { got.sent } else { got.taken };
    Ok(Received { bytes, from: Some(got.from), is_cut: got.sent > got.taken })
}

fn receive_stream(
    stream: &Stream,
    pieces: &[WriteBytes],
    how: ReceiveOptions,
    flags: Flags,
) -> PosixResult<usize> {
    // A peek returns the bytes that are there, also with MSG_WAITALL.
    let all = flags.has(libc::MSG_WAITALL) && how.wait && !how.peek && !stream.is_nonblocking();
    let mut done = 0;
    if how.peek
        && let Some(piece) = pieces.iter().find(|piece| piece.len() > 0)
    {
        return peek_stream(stream, *piece, how);
    }
    for step in pieces.iter().flat_map(|piece| piece.steps(STEP_BYTES)) {
        match step.with_slice(|room| fill(stream, room, how, all, &mut done)).map_err(fault) {
            Ok(Ok(Progress::Full)) => {}
            Ok(Ok(Progress::Ended)) => return Ok(done),
            // What was received counts, also before a bad address.
            Ok(Err(_)) | Err(_) if done > 0 => return Ok(done),
            Ok(Err(errno)) | Err(errno) => return Err(errno),
        }
    }
    if pieces.iter().all(|piece| piece.len() == 0) {
        stream.receive(&mut [], how)?;
    }
    Ok(done)
}

/// Peeks. A second peek returns the same bytes and more, so each one has twice the room.
fn peek_stream(stream: &Stream, piece: WriteBytes, how: ReceiveOptions) -> PosixResult<usize> {
    let (mut room, mut done, mut wait) = (STEP_BYTES, 0, how.wait);
    loop {
        let peek = |room: &mut [u8]| stream.receive(room, ReceiveOptions { wait, peek: true });
        match piece.first(room).with_slice(peek).map_err(fault) {
            Ok(Ok(got)) if got < room => return Ok(got),
            Ok(Ok(got)) => done = got,
            // What was found counts, also before a bad address.
            Ok(Err(_)) | Err(_) if done > 0 => return Ok(done),
            Ok(Err(errno)) | Err(errno) => return Err(errno),
        }
        if room >= piece.len() {
            return Ok(done);
        }
        (room, wait) = (room.saturating_mul(2), false);
    }
}

/// The state of a receive after one step.
#[derive(PartialEq, Eq)]
enum Progress {
    /// The step is full; the next one follows.
    Full,
    /// The call ends.
    Ended,
}

/// Fills one step of a piece. `done` counts the bytes of the call.
fn fill(
    stream: &Stream,
    room: &mut [u8],
    how: ReceiveOptions,
    all: bool,
    done: &mut usize,
) -> PosixResult<Progress> {
    let mut at = 0;
    while at < room.len() {
        // Only the first bytes, or all bytes, are worth a wait.
        let wait = how.wait && (*done == 0 || all);
        match stream.receive(&mut room[at..], ReceiveOptions { wait, peek: false }) {
            Ok(0) => return Ok(Progress::Ended),
            Ok(got) => {
                *done += got;
                at += got;
                if !all && at < room.len() {
                    return Ok(Progress::Ended);
                }
            }
            Err(_) if *done > 0 => return Ok(Progress::Ended),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Progress::Full)
}
