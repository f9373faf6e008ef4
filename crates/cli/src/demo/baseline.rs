//! The mechanisms beside m3ipc: a pipe and a Unix stream socket, between two processes as well.

use super::protocol::{BLOCK_BYTES, MESSAGE_BYTES};
use super::role::{DemoRole, Placement};
use crate::error::{CliError, Result};
use rustix::io::{Errno, read, write};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The time in which a reader surely falls asleep.
const TIME_TO_SLEEP: Duration = Duration::from_millis(5);

/// The echo process: copies standard input to standard output, one read and one write per message.
///
/// The standard library would buffer both, so the function uses the system calls.
pub fn echo() -> Result<()> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let mut bytes = [0; MESSAGE_BYTES];
    loop {
        match read(input, &mut bytes) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(()),
            Ok(count) => {
                write(output, &bytes[..count])
                    .map_err(|errno| CliError::system("the echo process cannot write", errno))?;
            }
            Err(errno) => return Err(CliError::system("the echo process cannot read", errno)),
        }
    }
}

/// The sink process: reads [`BLOCK_BYTES`] from standard input and acknowledges with one byte.
///
/// It keeps the whole block, as any receiver of a copy must.
pub fn sink() -> Result<()> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let mut received = 0;
        while received < block.len() {
            match read(input, &mut block[received..]) {
                Ok(0) | Err(Errno::CONNRESET) => return Ok(()),
                Ok(count) => received += count,
                Err(errno) => return Err(CliError::system("the sink process cannot read", errno)),
            }
        }
        write(output, &block[..1])
            .map_err(|errno| CliError::system("the sink process cannot write", errno))?;
    }
}

/// A connection to an echo or sink process.
pub struct Baseline {
    input: Box<dyn Read + Send>,
    output: Box<dyn Write>,
    partner: Child,
}

impl Baseline {
    /// Two pipes to an echo process.
    pub fn pipe(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        let mut command = DemoRole::Echo.command(directory, on_cpu(cpu))?;
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut partner = DemoRole::Echo.spawn(command)?;
        match (partner.stdout.take(), partner.stdin.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { input: Box::new(input), output: Box::new(output), partner })
            }
            _ => Err(CliError::failure("the echo process has no pipes")),
        }
    }

    /// A Unix stream socket to an echo process.
    pub fn socket(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        Self::over_socket(DemoRole::Echo, directory, cpu)
    }

    /// A Unix stream socket to a sink process.
    pub fn sink(directory: &Path, cpu: Option<usize>) -> Result<Self> {
        Self::over_socket(DemoRole::Sink, directory, cpu)
    }

    fn over_socket(role: DemoRole, directory: &Path, cpu: Option<usize>) -> Result<Self> {
        let failed = |cause| CliError::system("cannot create a socket pair", cause);
        let (own, other) = UnixStream::pair().map_err(failed)?;
        let other_again = other.try_clone().map_err(failed)?;
        let mut command = role.command(directory, on_cpu(cpu))?;
        command.stdin(OwnedFd::from(other)).stdout(OwnedFd::from(other_again));
        let partner = role.spawn(&mut command)?;
        let input = own.try_clone().map_err(failed)?;
        Ok(Self { input: Box::new(input), output: Box::new(own), partner })
    }

    /// One round trip of a message.
    pub fn round_trip(&mut self) -> Result<()> {
        let mut bytes = [7; MESSAGE_BYTES];
        self.output
            .write_all(&bytes)
            .and_then(|()| self.input.read_exact(&mut bytes))
            .map_err(|cause| CliError::system("a round trip to the echo process failed", cause))
    }

    /// Sends a block and waits for the acknowledgement.
    pub fn send_block(&mut self, block: &[u8]) -> Result<()> {
        self.output
            .write_all(block)
            .and_then(|()| self.input.read_exact(&mut [0]))
            .map_err(|cause| CliError::system("cannot send a block to the sink process", cause))
    }

    /// Kills the partner while a thread waits for its bytes. The time until that thread reads the
    /// end of file, in nanoseconds.
    pub fn kill_partner(self) -> Result<u64> {
        let Self { mut input, output: _output, mut partner } = self;
        let failed = |cause| CliError::system("cannot kill the echo process", cause);
        let reader = std::thread::spawn(move || {
            // A reset is an end as well.
            let _ = input.read(&mut [0]);
            m3ipc_sys::monotonic_ns()
        });
        std::thread::sleep(TIME_TO_SLEEP);
        let killed_ns = m3ipc_sys::monotonic_ns();
        partner.kill().map_err(failed)?;
        let read_ns = reader
            .join()
            .map_err(|_panic| CliError::failure("the reader of the echo process has ended"))?;
        partner.wait().map_err(failed)?;
        Ok(read_ns.saturating_sub(killed_ns))
    }

    /// Closes the connection and waits for the end of the process.
    pub fn close(self) -> Result<()> {
        let Self { input, output, mut partner } = self;
        drop((input, output));
        match partner.wait() {
            Err(cause) if cause.kind() != ErrorKind::Interrupted => {
                Err(CliError::system("cannot wait for the end of the partner", cause))
            }
            _ => Ok(()),
        }
    }
}

fn on_cpu(cpu: Option<usize>) -> Placement {
    Placement { cpu, partner_cpu: None }
}
