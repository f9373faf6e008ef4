//! Programs that serve in the background, as the daemon of a node does.
//!
//! Such a program writes its warnings, then one byte to its standard error: [`SERVES`] as soon as
//! it serves, else its exit code at its end. No wait for a child tells the starter more, because
//! the program is no child of it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// The last byte of a program that serves.
pub const SERVES: u8 = 0;
/// A code beyond this one is a letter of a message.
const CODE_MAX: u8 = 8;
/// Environment variable of a program in the background.
pub const IN_BACKGROUND: &str = "M3_DETACHED";
/// Bytes of its messages at most.
const SAID_MAX_BYTES: usize = 4096;
/// How long the kernel may take to end a killed program, in nanoseconds.
const END_NS: u64 = 5_000_000_000;

/// Why a program does not serve in the background.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// The system does not start it.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// It ended before it served, with this exit code after these words. Without a code a signal
    /// ended it, or it is a program of another kind.
    #[error("it ended before it served: {said}")]
    Ended {
        /// The exit code; `None` if nobody could read one.
        code: Option<u8>,
        /// Its messages, at most 4096 bytes.
        said: String,
    },
    /// It did not serve in time, and was ended.
    #[error("process {0} did not serve in time and was ended")]
    Late(i32),
}

/// Starts a program in the background, and returns its warnings when it serves.
///
/// It keeps nothing of this process but the environment and the directory, and is no child of this
/// process. `deadline_ns` is a time of CLOCK_MONOTONIC. At the deadline the program is ended.
///
/// # Errors
/// [`BackgroundError`].
pub fn serve_in_background(
    program: &Path,
    words: &[&OsStr],
    deadline_ns: u64,
) -> Result<String, BackgroundError> {
    let start = || {
        let (reader, writer) = io::pipe()?;
        let reader = m3ipc_sys::above_standard(reader.into())?;
        let writer = m3ipc_sys::above_standard(writer.into())?;
        let variables = [(IN_BACKGROUND, OsStr::new("1"))];
        let here = Path::new(".");
        let service = m3ipc_sys::start_service(program, words, &variables, here, writer.as_fd())?;
        Ok((std::fs::File::from(reader), service))
    };
    let (mut reader, service) = start().map_err(BackgroundError::Start)?;
    let left_ns = || deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
    let (mut said, mut last) = (Vec::new(), None);
    let mut is_open = true;
    while is_open && last != Some(SERVES) {
        // A signal belongs to the call that follows.
        match m3ipc_sys::wait_readable(&[reader.as_fd()], left_ns()) {
            Ok(false) => break,
            Ok(true) => {}
            Err(_signal) => continue,
        }
        let mut part = [0; SAID_MAX_BYTES];
        match reader.read(&mut part) {
            Ok(bytes) => {
                let part = part.get(..bytes).unwrap_or_default();
                said.extend(part.iter().take(SAID_MAX_BYTES - said.len()));
                (is_open, last) = (bytes > 0, part.last().copied().or(last));
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => is_open = false,
        }
    }
    let code = last.filter(|last| *last <= CODE_MAX);
    let text = String::from_utf8_lossy(&said);
    let said = text.trim_end_matches(|letter| u32::from(letter) <= CODE_MAX.into()).to_owned();
    match code {
        Some(SERVES) => return Ok(said),
        Some(_) => return Err(BackgroundError::Ended { code, said }),
        None => {}
    }
    loop {
        match m3ipc_sys::wait_readable(&[service.process.as_fd()], left_ns()) {
            Ok(true) => return Err(BackgroundError::Ended { code, said }),
            Ok(false) => break,
            Err(_signal) => {}
        }
    }
    // It must not serve after its starter reported a failure. It may have ended by itself.
    let _ = m3ipc_sys::signal(&service.process, m3ipc_sys::Signal::KILL);
    let _ = m3ipc_sys::wait_readable(&[service.process.as_fd()], END_NS);
    Err(BackgroundError::Late(service.pid))
}
