//! `sendfile` over a ring: the library reads the file and sends the bytes.

use crate::buffers::Buffers;
use crate::connection::socket::Socket;
use crate::kernel::{Errno, file};
use crate::outcome::Outcome;
use crate::pin::PinReason;
use crate::sockets;
use core::mem::MaybeUninit;
use std::os::fd::RawFd;

/// Bytes that are read at once, on the stack.
const CHUNK_BYTES: usize = 32 * 1024;
/// Bytes of one call at most, as in the kernel.
const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// The offset that a program gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// The position of the file.
    OfFile,
    /// An offset of the program, which it gets back.
    At(usize),
    /// The address is not readable: the kernel must refuse the call.
    Unreadable,
}

/// The outcome of a `sendfile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFile {
    /// So many bytes were sent; the program's offset is this from now on, where it gave one.
    Sent(usize, usize),
    /// The call failed with this error number.
    Failed(Errno),
    /// The caller must make the real call.
    Kernel(Outcome),
}

/// Sends `count` bytes of a file, from `offset` or from the position of the file. `write` makes the
/// real write of some bytes to the socket. `offset` is asked only where `out` is a socket of ours.
pub fn send_file(
    out: RawFd,
    from: RawFd,
    offset: impl FnOnce() -> Offset,
    count: usize,
    write: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> SentFile {
    let Some(socket) = sockets::find(out).filter(|_socket| count > 0) else {
        return SentFile::Kernel(Outcome::Kernel);
    };
    if let Some(outcome) = socket.kernel_route_of_send() {
        return SentFile::Kernel(outcome);
    }
    let offset = offset();
    let begin = match offset {
        Offset::OfFile => file::seek(from, 0, libc::SEEK_CUR),
        Offset::At(begin) => Ok(begin),
        Offset::Unreadable => return SentFile::Kernel(Outcome::Kernel),
    };
    // Bytes of a file without positions could not be put back.
    let Ok(begin) = begin else {
        // What lies in the ring of the other direction can still be received.
        socket.pin(PinReason::Splice);
        return SentFile::Kernel(Outcome::Kernel);
    };
    let (sent, failed) = copy(socket, from, begin, count.min(CALL_BYTES_MAX), write);
    if let (Some(errno), 0) = (failed, sent) {
        return SentFile::Failed(errno);
    }
    if offset == Offset::OfFile
        && let Ok(end) = i64::try_from(begin + sent)
    {
        let _ = file::seek(from, end, libc::SEEK_SET);
    }
    SentFile::Sent(sent, begin + sent)
}

/// Copies bytes until one side ends: how many, and the error that ended the copy.
fn copy(
    socket: Socket,
    from: RawFd,
    begin: usize,
    count: usize,
    write: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> (usize, Option<Errno>) {
    // Zeros would cost as much as the copy of a short file.
    let mut chunk = [const { MaybeUninit::uninit() }; CHUNK_BYTES];
    let mut sent = 0;
    loop {
        let wanted = (count - sent).min(CHUNK_BYTES);
        let bytes = match file::read_at_into(from, &mut chunk[..wanted], begin + sent) {
            Ok([]) => return (sent, None),
            Ok(bytes) => bytes,
            Err(errno) => return (sent, Some(errno)),
        };
        let got = bytes.len();
        let mut run = [Buffers::run(bytes)];
        let outcome = socket.send(Some(Buffers::from_mut(&mut run)), 0);
        let gone = match outcome.or_real(|| write(bytes)) {
            Ok(gone) => gone,
            Err(errno) => return (sent, Some(errno)),
        };
        sent += gone;
        if gone < got || sent == count {
            return (sent, None);
        }
    }
}
