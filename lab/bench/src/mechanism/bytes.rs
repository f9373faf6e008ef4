//! The ends of everything that is read and written through descriptors.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, read, write};

use super::{ClientEnd, Inherited, ServerEnd};
use crate::error::Error;

use crate::payload::Message;
use crate::peer::Run;

/// Two descriptors, one to read from and one to write to; the same one twice for a socket.
pub struct Bytes {
    input: OwnedFd,
    output: OwnedFd,
    bytes: usize,
}

impl Bytes {
    /// Takes two inherited descriptors: the input, then the output.
    pub fn pair(mut inherited: Inherited, run: &Run) -> Result<Self, Error> {
        Ok(Self { input: inherited.take()?, output: inherited.take()?, bytes: run.bytes() })
    }

    /// Takes one inherited descriptor that goes both ways.
    pub fn socket(mut inherited: Inherited, run: &Run) -> Result<Self, Error> {
        let input = inherited.take()?;
        let output = input.try_clone().map_err(Error::os("dup of a socket"))?;
        Ok(Self { input, output, bytes: run.bytes() })
    }

    #[inline]
    fn put(&self, message: &Message) -> Result<(), Error> {
        let mut rest = &message.bytes()[..self.bytes];
        while !rest.is_empty() {
            match write(&self.output, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::PeerGone),
                Err(error) => return Err(Error::os("write")(error)),
            }
        }
        Ok(())
    }

    #[inline]
    fn get(&self, message: &mut Message) -> Result<(), Error> {
        let mut got = 0;
        while got < self.bytes {
            match read(&self.input, &mut message.bytes_mut()[got..self.bytes]) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(Error::PeerGone),
                Ok(length) => got += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("read")(error)),
            }
        }
        Ok(())
    }
}

impl ClientEnd for Bytes {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.get(answer)
    }
}

impl ServerEnd for Bytes {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request)
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
