//! The daemon's log: lines for people or JSON, on standard error or in a file of bounded size.
//!
//! A member can cause some lines at will. [`admits`] bounds them per user.

mod limits;

pub(crate) use limits::admits;

use crate::settings::{LogFormat, LogLevel, Settings};
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

/// The log of a daemon in the background, in the runtime directory.
pub(crate) const FILE_NAME: &str = "m3d.log";
/// The lines before those of the file.
pub(crate) const FORMER_FILE_NAME: &str = "m3d.log.old";
/// The size of the file in bytes at which it becomes the former one.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Starts the log: in a file of `directory`, or on standard error.
pub(crate) fn begin(settings: &Settings, directory: Option<&Path>) {
    let level = match settings.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let chosen = settings.log_filter.clone();
    let filter = chosen.unwrap_or_else(|| Targets::new().with_default(level));
    let (writer, colours) = match directory {
        Some(directory) => {
            let file = BoundedFile::open(directory, FILE_MAX_BYTES);
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
        None => (BoxMakeWriter::new(std::io::stderr), std::io::stderr().is_terminal()),
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
    directory: PathBuf,
    /// `None` if the system refuses it: the lines are lost.
    file: Option<File>,
    bytes: u64,
    max_bytes: u64,
}

impl BoundedFile {
    fn open(directory: &Path, max_bytes: u64) -> Self {
        let mut options = File::options();
        let file = options.append(true).create(true).mode(0o600).open(directory.join(FILE_NAME));
        let file = file.ok();
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |it| it.len());
        Self { directory: directory.to_owned(), file, bytes, max_bytes }
    }
}

impl Write for BoundedFile {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            let (own, former) =
                (self.directory.join(FILE_NAME), self.directory.join(FORMER_FILE_NAME));
            // A file that cannot be renamed is emptied: the bound comes before old lines.
            if std::fs::rename(&own, former).is_err() {
                let _ = std::fs::remove_file(&own);
            }
            *self = Self::open(&self.directory, self.max_bytes);
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
        let mut log = BoundedFile::open(&directory, 10);
        for line in ["one\n", "two\n", "three\n", "a line beyond the bound\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let read = |name| std::fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(read(FILE_NAME), "a line beyond the bound\n");
        assert_eq!(read(FORMER_FILE_NAME), "three\n");
        let mut again = BoundedFile::open(&directory, 100);
        again.write_all(b"later\n").unwrap();
        assert_eq!(read(FILE_NAME), "a line beyond the bound\nlater\n");
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(log.write_all(b"the directory is gone").is_ok());
    }
}
