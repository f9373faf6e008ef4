//! One end of a connection in a test: data calls of the library, or the kernel's where it says so.

use m3ipc_shim::buffers::Buffers;
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::outcome::Outcome;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// One end.
pub struct End {
    pub fd: OwnedFd,
    /// The socket, where the library moves its bytes.
    pub socket: Option<Socket>,
}

fn finish(outcome: Outcome, real: impl FnOnce() -> isize) -> io::Result<usize> {
    let result = outcome.or_real(|| {
        usize::try_from(real())
            .map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    });
    result.map_err(io::Error::from_raw_os_error)
}

fn run(bytes: &[u8]) -> [libc::iovec; 1] {
    [libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }]
}

impl End {
    /// An end whose calls go through the library, or are the kernel's alone.
    pub fn new(fd: OwnedFd, through_library: bool) -> Self {
        let socket = if through_library { Socket::open(fd.as_raw_fd()) } else { None };
        Self { fd, socket }
    }

    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (runs, flags) = (run(bytes), libc::MSG_NOSIGNAL);
        // SAFETY: one run over a live slice, for a send.
        let buffers = unsafe { Buffers::from_raw(runs.as_ptr(), 1) };
        let outcome = self.socket.map_or(Outcome::Kernel, |socket| socket.send(buffers, flags));
        let fd = self.fd.as_raw_fd();
        // SAFETY: the slice is live.
        finish(outcome, || unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    pub fn receive(&self, bytes: &mut [u8], flags: i32) -> io::Result<usize> {
        let runs = run(bytes);
        // SAFETY: one run over a live slice that this function alone has.
        let buffers = unsafe { Buffers::from_raw(runs.as_ptr(), 1) };
        let outcome = self.socket.map_or(Outcome::Kernel, |socket| socket.receive(buffers, flags));
        let fd = self.fd.as_raw_fd();
        // SAFETY: the slice is live.
        finish(outcome, || unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), flags) })
    }

    /// Sends all bytes.
    pub fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Receives until the slice is full.
    pub fn receive_all(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let got = self.receive(bytes, 0)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes = &mut bytes[got..];
        }
        Ok(())
    }

    /// Ends the connection, in a test that is about to fail.
    #[allow(dead_code, reason = "not all tests have a thread that would wait")]
    pub fn shut_down(&self) {
        // SAFETY: no pointers.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Ends the sending, as a program's `shutdown`.
    pub fn end_sending(&self) {
        if let Some(socket) = self.socket {
            socket.end_sending();
        }
        // SAFETY: no pointers.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_WR) };
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(socket) = self.socket {
            socket.forget(true);
        }
    }
}

/// A size that is mostly small and sometimes large.
pub fn size(rng: &mut fastrand::Rng) -> usize {
    match rng.usize(..16) {
        0 => 1 + rng.usize(..200_000),
        1..=4 => 1 + rng.usize(..9_000),
        _ => 1 + rng.usize(..300),
    }
}

/// The byte at a position of a stream.
pub fn byte(stream: u64, at: u64) -> u8 {
    (at ^ (at >> 7) ^ (at >> 15) ^ (stream * 0x55)).to_le_bytes()[0]
}

/// Sends a stream of this length in pieces of any size.
pub fn pour(end: &End, stream: u64, bytes: u64, rng: &mut fastrand::Rng) -> io::Result<()> {
    let mut at = 0;
    let mut piece = Vec::new();
    while at < bytes {
        let size = (size(rng) as u64).min(bytes - at);
        piece.clear();
        piece.extend((at..at + size).map(|at| byte(stream, at)));
        end.send_all(&piece)?;
        at += size;
    }
    Ok(())
}

/// Receives a stream until its end or its limit; its length. Panics at a wrong byte.
pub fn drain(end: &End, stream: u64, until: u64, rng: &mut fastrand::Rng) -> io::Result<u64> {
    let (mut at, mut piece) = (0, vec![0; 200_000]);
    while at < until {
        let most = size(rng).min(usize::try_from(until - at).unwrap());
        let flags = match rng.usize(..12) {
            0 if most < 2_000 => libc::MSG_WAITALL,
            1 => libc::MSG_PEEK,
            _ => 0,
        };
        let got = end.receive(&mut piece[..most], flags)?;
        if got == 0 {
            break;
        }
        for (offset, have) in piece[..got].iter().enumerate() {
            let wanted = byte(stream, at + offset as u64);
            assert_eq!(*have, wanted, "at {at} + {offset} of stream {stream}");
        }
        if flags & libc::MSG_PEEK == 0 {
            at += got as u64;
        }
    }
    Ok(at)
}
