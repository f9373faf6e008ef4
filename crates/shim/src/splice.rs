//! `splice` and `sendfile` from a socket into a pipe, while bytes lie in the ring of the socket.
//!
//! The socket is pinned first. What lies in the ring then goes through memory of this library, in
//! pieces that any pipe which is not full takes without waiting. All later bytes are the kernel's.

use crate::buffers::Buffers;
use crate::kernel::{Errno, file, ready};
use crate::pin::PinReason;
use crate::sockets;
use std::os::fd::RawFd;

/// Bytes of one piece: a pipe that is writable takes so many at once.
const PIECE_BYTES: usize = 4096;

/// Pins the source of a splice. Moves bytes that lie in its ring into a pipe, up to `bytes`; `None`
/// where there are none, so that the caller must make the real call. `waits` is false where a full
/// pipe is an error. `write` makes the real write of some bytes.
pub fn splice_from_ring(
    from: RawFd,
    to: RawFd,
    bytes: usize,
    waits: bool,
    write: impl Fn(&[u8]) -> Result<usize, Errno>,
) -> Option<Result<usize, Errno>> {
    let socket = sockets::find(from)?;
    if bytes == 0 || !is_pipe(to) || !sockets::has_bytes_after_pin(from, PinReason::Splice) {
        return None;
    }
    let mut piece = [0; PIECE_BYTES];
    let most = bytes.min(PIECE_BYTES);
    let receive = |room: &mut [u8], flags| {
        let mut run = [Buffers::run(room)];
        let outcome = socket.receive(Some(Buffers::from_mut(&mut run)), flags | libc::MSG_DONTWAIT);
        outcome.or_real(|| Err(libc::EAGAIN))
    };
    let there = match receive(&mut piece[..most], libc::MSG_PEEK) {
        Ok(there @ 1..) => there,
        _ => return None,
    };
    if !waits && ready::poll_now(to, libc::POLLOUT) == 0 {
        return Some(Err(libc::EAGAIN));
    }
    let written = write(&piece[..there]);
    if let Ok(written) = written {
        // These bytes lie there still, unless another thread receives them, too.
        let _ = receive(&mut piece[..written], 0);
    }
    Some(written)
}

fn is_pipe(fd: RawFd) -> bool {
    file::stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_splice_without_a_ring_is_the_programs_own_call() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let moved = splice_from_ring(end.as_raw_fd(), 1, 10, true, |_| Ok(0));
        assert_eq!(moved, None);
        assert!(!is_pipe(end.as_raw_fd()) && !is_pipe(-1));
    }
}
