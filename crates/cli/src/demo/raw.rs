//! What m3ipc is shown beside: a pipe and a Unix socket, between two processes likewise.

use super::part::Role;
use super::{BLOCK_BYTES, BYTES, scene};
use crate::fail::{Fail, Result};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// The other side: gives back what comes.
pub fn echo() -> Result<()> {
    // Not through the buffers of the standard library: one read, one write.
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let mut bytes = [0; BYTES];
    loop {
        match rustix::io::read(input, &mut bytes) {
            Ok(0) | Err(rustix::io::Errno::CONNRESET) => return Ok(()),
            Ok(count) => {
                rustix::io::write(output, &bytes[..count])
                    .map_err(|errno| Fail::system("echo", errno))?;
            }
            Err(errno) => return Err(Fail::system("echo", errno)),
        }
    }
}

/// The other side of the block: reads [`BLOCK_BYTES`], and says so with one byte.
pub fn sink() -> Result<()> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    // Where the bytes end is as large as what was sent, as it is with every copy.
    let mut bytes = vec![0; BLOCK_BYTES];
    loop {
        let mut got = 0;
        while got < bytes.len() {
            match rustix::io::read(input, &mut bytes[got..]) {
                Ok(0) | Err(rustix::io::Errno::CONNRESET) => return Ok(()),
                Ok(count) => got += count,
                Err(errno) => return Err(Fail::system("sink", errno)),
            }
        }
        rustix::io::write(output, &bytes[..1]).map_err(|errno| Fail::system("sink", errno))?;
    }
}

/// One end of a way to talk.
pub struct Raw {
    input: Box<dyn Read>,
    output: Box<dyn Write>,
    other: Child,
}

impl Raw {
    /// Over two pipes.
    pub fn pipe(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        let mut command = scene::part(Role::Echo, directory, cpu, None)?;
        let mut other = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        match (other.stdout.take(), other.stdin.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { input: Box::new(input), output: Box::new(output), other })
            }
            _ => Err(Fail::plain("the pipes are not there")),
        }
    }

    /// Over a Unix stream socket.
    pub fn socket(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        Self::over_socket(Role::Echo, directory, cpu)
    }

    /// Over a Unix stream socket, to one that takes a block and says so.
    pub fn sink(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        Self::over_socket(Role::Sink, directory, cpu)
    }

    fn over_socket(role: Role, directory: &Path, cpu: Option<usize>) -> Result<Self> {
        let cause = |cause| Fail::system("cannot make a socket pair", cause);
        let (here, there) = UnixStream::pair().map_err(cause)?;
        let again = there.try_clone().map_err(cause)?;
        let mut command = scene::part(role, directory, cpu, None)?;
        let other = spawn(
            command
                .stdin(Stdio::from(OwnedFd::from(there)))
                .stdout(Stdio::from(OwnedFd::from(again))),
        )?;
        let input = here.try_clone().map_err(cause)?;
        Ok(Self { input: Box::new(input), output: Box::new(here), other })
    }

    /// One round trip.
    pub fn trip(&mut self) -> Result<()> {
        let mut bytes = [7; BYTES];
        let trip = self.output.write_all(&bytes).and_then(|()| self.input.read_exact(&mut bytes));
        trip.map_err(|cause| Fail::system("a round trip failed", cause))
    }

    /// A block there, and one byte back.
    pub fn fill(&mut self, block: &[u8]) -> Result<()> {
        let filled = self.output.write_all(block).and_then(|()| self.input.read_exact(&mut [0]));
        filled.map_err(|cause| Fail::system("a block cannot be sent", cause))
    }

    /// Lets the other side end.
    pub fn end(self) -> Result<()> {
        let Self { input, output, mut other } = self;
        drop((input, output));
        match other.wait() {
            Err(cause) if cause.kind() != ErrorKind::Interrupted => {
                Err(Fail::system("cannot wait", cause))
            }
            _ => Ok(()),
        }
    }
}

fn spawn(command: &mut std::process::Command) -> Result<Child> {
    command.spawn().map_err(|cause| Fail::system("cannot start the other side", cause))
}
