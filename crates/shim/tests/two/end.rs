//! One end of a connection in a test: data calls through the engine, or the kernel's where it says so.

use m3ipc_shim::engine::{Birth, Outcome, Talk, candidate};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// One end.
pub struct End {
    pub fd: OwnedFd,
    talk: Option<&'static Talk>,
}

fn told(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl End {
    /// An end whose calls go through the engine, or are the kernel's alone.
    pub fn new(fd: OwnedFd, engine: bool) -> Self {
        let talk = if engine { candidate(fd.as_raw_fd(), Birth::Connected) } else { None };
        Self { fd, talk }
    }

    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let flags = libc::MSG_NOSIGNAL;
        let outcome = self
            .talk
            .map_or(Outcome::Kernel, |talk| talk.send(self.fd.as_raw_fd(), &[part], flags));
        match outcome {
            Outcome::Done(sent) => Ok(sent),
            Outcome::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
            Outcome::Kernel => {
                // SAFETY: the buffer is live.
                told(unsafe { libc::send(self.fd.as_raw_fd(), part.iov_base, part.iov_len, flags) })
            }
        }
    }

    pub fn receive(&self, bytes: &mut [u8], flags: i32) -> io::Result<usize> {
        let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let outcome = self
            .talk
            .map_or(Outcome::Kernel, |talk| talk.receive(self.fd.as_raw_fd(), &[part], flags));
        match outcome {
            Outcome::Done(got) => Ok(got),
            Outcome::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
            Outcome::Kernel => {
                // SAFETY: the buffer is live and of this length.
                told(unsafe { libc::recv(self.fd.as_raw_fd(), part.iov_base, part.iov_len, flags) })
            }
        }
    }

    /// All of it.
    pub fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// All of it.
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

    /// As a program's `shutdown` of its sending.
    pub fn end_sending(&self) {
        if let Some(talk) = self.talk {
            talk.end_sending();
        }
        // SAFETY: no pointers.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_WR) };
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(talk) = self.talk {
            talk.forget(self.fd.as_raw_fd());
        }
    }
}

/// Numbers that look random and are the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    /// Mostly small, sometimes large.
    pub fn size(&mut self) -> usize {
        match self.roll(16) {
            0 => 1 + self.roll(200_000),
            1..=4 => 1 + self.roll(9_000),
            _ => 1 + self.roll(300),
        }
    }
}

/// The byte at a position of a stream.
pub fn byte(way: u64, at: u64) -> u8 {
    (at ^ (at >> 7) ^ (at >> 15) ^ (way * 0x55)).to_le_bytes()[0]
}

/// Sends a stream of this length in pieces of any size.
pub fn pour(end: &End, way: u64, bytes: u64, dice: &mut Dice) -> io::Result<()> {
    let mut at = 0;
    let mut piece = Vec::new();
    while at < bytes {
        let size = (dice.size() as u64).min(bytes - at);
        piece.clear();
        piece.extend((at..at + size).map(|at| byte(way, at)));
        end.send_all(&piece)?;
        at += size;
    }
    Ok(())
}

/// Receives a stream to its end, and tells how long it was; panics where a byte is wrong.
pub fn drain(end: &End, way: u64, until: u64, dice: &mut Dice) -> io::Result<u64> {
    let (mut at, mut piece) = (0, vec![0; 200_000]);
    while at < until {
        let most = dice.size().min(usize::try_from(until - at).unwrap());
        let flags = match dice.roll(12) {
            0 if most < 2_000 => libc::MSG_WAITALL,
            1 => libc::MSG_PEEK,
            _ => 0,
        };
        let got = end.receive(&mut piece[..most], flags)?;
        if got == 0 {
            break;
        }
        for (offset, have) in piece[..got].iter().enumerate() {
            assert_eq!(*have, byte(way, at + offset as u64), "at {at} + {offset} of way {way}");
        }
        if flags & libc::MSG_PEEK == 0 {
            at += got as u64;
        }
    }
    Ok(at)
}
