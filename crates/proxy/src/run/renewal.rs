//! New keys without a new start: SIGHUP makes the proxy read its keys again.
//!
//! ```text
//! proxy (sandbox: opens no file) ── pipe ── reader ── files of the keys
//! ```
//! The proxy starts the reader before it gives up its rights. The reader knows the directory and
//! the node, and reads the three files of that node at each request. It ends with the proxy, at the
//! end of its input. Connections go on with the keys of their handshake; the next ones have the new
//! keys.

use super::config::{Config, ConfigError};
use super::keeper;
use crate::NodeName;
use crate::keys::{NodeKeys, PemFiles};
use crate::status::CertificateEnd;
use crate::transport::tls::Tls;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The command of a program that runs a reader: `__keys DIRECTORY NODE`.
pub const COMMAND: &str = "__keys";
/// The longest answer of a reader, in bytes.
const ANSWER_MAX_BYTES: usize = 1 << 20;

const READER_ENDED: &str = "m3-proxy: the reader of the keys has ended, so SIGHUP reads no keys; \
                            start this proxy again to have them read";

/// The keys in force, and the way to their successors.
#[derive(Debug)]
pub struct Renewal {
    tls: Tls,
    hangup: OwnedFd,
    end: RefCell<Option<CertificateEnd>>,
    /// `None` where this program has no reader.
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    input: ChildStdin,
    output: ChildStdout,
    bytes: RefCell<Vec<u8>>,
    /// Its output is at its end, and readable for ever.
    has_ended: Cell<bool>,
    /// It ends at the end of its input.
    _child: Child,
}

impl Renewal {
    /// Starts the reader. `tls` has the keys that are in force.
    ///
    /// # Errors
    /// The system refuses a signal descriptor.
    pub fn begin(config: &Config, tls: Tls, end: Option<CertificateEnd>) -> Result<Self, Errno> {
        let hangup = m3ipc_sys::hangup_signal()?;
        let reader = match keeper::is_offered().then(|| Reader::start(config)) {
            Some(Ok(reader)) => Some(reader),
            Some(Err(cause)) => {
                m3ipc_sys::report!("m3-proxy: SIGHUP will read no keys: {cause}");
                None
            }
            None => None,
        };
        Ok(Self { tls, hangup, end: RefCell::new(end), reader })
    }

    /// Which certificate ends first, and when.
    pub fn end(&self) -> Option<CertificateEnd> {
        self.end.borrow().clone()
    }

    /// The descriptors to poll.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let reader = self.reader.iter().filter_map(Reader::descriptor);
        std::iter::once(self.hangup.as_fd()).chain(reader)
    }

    /// Passes signals on to the reader, and puts keys that it has read in force.
    pub fn step(&self, config: &Config) {
        let mut signal = [0; 128];
        let mut asks = false;
        while rustix::io::read(&self.hangup, &mut signal).is_ok_and(|read| read > 0) {
            asks = true;
        }
        let Some(reader) = &self.reader else { return };
        if asks && (&reader.input).write_all(b"k").is_err() {
            m3ipc_sys::report!("{READER_ENDED}");
        }
        let Some(answer) = reader.answer() else { return };
        let renewed = answer.and_then(|files| {
            let keys = NodeKeys::of(&files, &config.keys, &config.name)?;
            let end = keys.end.clone();
            self.tls.replace(keys).map_err(|cause| config.unfit_keys(cause))?;
            Ok(end)
        });
        match renewed {
            Ok(end) => {
                *self.end.borrow_mut() = end;
                m3ipc_sys::report!("m3-proxy: new keys are in force for the next connections");
            }
            Err(why) => m3ipc_sys::report!("m3-proxy: the keys stay as they were: {why}"),
        }
    }
}

impl Reader {
    fn start(config: &Config) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).arg(&config.keys).arg(config.name.as_str());
        // A terminal that ends signals the group of the proxy.
        Self::start_by(command.process_group(0))
    }

    fn start_by(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let flags = fcntl_getfl(&output)?;
        fcntl_setfl(&output, flags | OFlags::NONBLOCK)?;
        Ok(Self {
            input,
            output,
            bytes: RefCell::default(),
            has_ended: Cell::new(false),
            _child: child,
        })
    }

    /// The descriptor to poll.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended.get()).then(|| self.output.as_fd())
    }

    /// The next whole answer.
    fn answer(&self) -> Option<Result<PemFiles, ConfigError>> {
        let mut bytes = self.bytes.borrow_mut();
        let mut more = [0; 4096];
        while let Ok(count) = rustix::io::read(&self.output, &mut more) {
            if count == 0 {
                if !self.has_ended.replace(true) {
                    m3ipc_sys::report!("{READER_ENDED}");
                }
                break;
            }
            bytes.extend_from_slice(more.get(..count).unwrap_or_default());
            if bytes.len() > ANSWER_MAX_BYTES {
                bytes.clear();
            }
        }
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = bytes.drain(..=end).collect();
        let answer: Result<PemFiles, String> = serde_json::from_slice(&line).ok()?;
        Some(answer.map_err(ConfigError::Renewal))
    }
}

/// Reads the keys of a node at each byte of the standard input, until its end.
///
/// # Errors
/// The proxy has ended.
pub fn read(directory: &Path, node: &NodeName) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin(), io::stdout());
    let mut asked = [0; 64];
    while input.read(&mut asked)? > 0 {
        let files = PemFiles::read(directory, node).map_err(|error| error.to_string());
        let mut line = serde_json::to_vec(&files).map_err(io::Error::other)?;
        line.push(b'\n');
        output.write_all(&line)?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_ended_is_polled_no_more() {
        let reader = Reader::start_by(&mut Command::new("true")).unwrap();
        m3ipc_sys::wait_readable(&[reader.descriptor().unwrap()], u64::MAX).unwrap();
        assert!(reader.answer().is_none());
        assert!(reader.descriptor().is_none(), "it would be readable for ever");
    }
}
