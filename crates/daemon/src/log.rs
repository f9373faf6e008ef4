//! The daemon's log: lines for people or JSON, on standard error or in a file of bounded size.
//!
//! A member can cause some lines at will. [`admits`] bounds them per user.

mod limits;

pub(crate) use limits::admits;

use crate::settings::{LogFormat, LogLevel, Settings};
use m3ipc::runtime;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// The log of a daemon in the background: see [`place`].
pub(crate) const FILE_NAME: &str = "m3d.log";
/// The lines before those of the file.
pub(crate) const FORMER_FILE_NAME: &str = "m3d.log.old";
/// The size of the file in bytes at which it becomes the former one.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// The file of a daemon in the background: in its runtime directory, or for the system's node in
/// [`runtime::SYSTEM_LOGS`]. Everybody sees the runtime directory of that node, which lies in
/// memory.
pub(crate) fn place(settings: &Settings, directory: &Path) -> Result<PathBuf, String> {
    if !settings.system {
        return Ok(directory.join(FILE_NAME));
    }
    runtime::log_of_system(directory, FILE_NAME).map_err(|why| {
        format!("no log is kept: {why}; start the daemon without --detach to see its lines")
    })
}

/// Starts the log: in this file, or on standard error.
pub(crate) fn begin(settings: &Settings, file: Option<&Path>) {
    let level = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let chosen = settings.log_filter.clone();
    let filter = chosen.unwrap_or_else(|| Targets::new().with_default(level));
    let (writer, colours) = match file {
        Some(file) => {
            let file = BoundedFile::open(file, FILE_MAX_BYTES);
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
        None => (BoxMakeWriter::new(|| m3ipc_sys::ReportWriter), std::io::stderr().is_terminal()),
    };
    // A full disk or a closed pipe loses a line. A report of that on standard error would fail as
    // well, and end the daemon.
    let lines = fmt::layer().with_writer(writer).with_ansi(colours).log_internal_errors(false);
    // A second daemon in one process (tests) keeps the log of the first one.
    let _ = match settings.log_format {
        LogFormat::Human => {
            registry().with(lines.with_target(false).with_filter(filter)).try_init()
        }
        LogFormat::Json => registry().with(lines.json().with_filter(filter)).try_init(),
    };
}

/// A file that is renamed when it is full. With its predecessor it holds at most twice its size.
#[derive(Debug)]
struct BoundedFile {
    path: PathBuf,
    /// `None` if the system refuses it: the lines are lost.
    file: Option<File>,
    bytes: u64,
    max_bytes: u64,
}

impl BoundedFile {
    fn open(path: &Path, max_bytes: u64) -> Self {
        let mut options = File::options();
        let file = options.append(true).create(true).mode(0o600).open(path);
        let file = file.ok();
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |it| it.len());
        Self { path: path.to_owned(), file, bytes, max_bytes }
    }
}

impl Write for BoundedFile {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            // A file that cannot be renamed is emptied: the bound comes before old lines.
            if std::fs::rename(&self.path, self.path.with_extension("log.old")).is_err() {
                let _ = std::fs::remove_file(&self.path);
            }
            *self = Self::open(&self.path, self.max_bytes);
        }
        if let Some(file) = &mut self.file {
            file.write_all(line)?;
            self.bytes += line.len() as u64;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_becomes_the_former_one() {
        let directory = std::env::temp_dir().join(format!("m3d-log-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join(FILE_NAME);
        let mut log = BoundedFile::open(&path, 10);
        for line in ["one\n", "two\n", "three\n", "a line beyond the bound\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let read = |name| std::fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(read(FILE_NAME), "a line beyond the bound\n");
        assert_eq!(read(FORMER_FILE_NAME), "three\n");
        let mut again = BoundedFile::open(&path, 100);
        again.write_all(b"later\n").unwrap();
        assert_eq!(read(FILE_NAME), "a line beyond the bound\nlater\n");
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(log.write_all(b"the directory is gone").is_ok());
    }
}
