//! The errors of xtask. Each text says what happened, why, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error(
        "cannot start `{program}`: {source}. Install it, or put it on PATH, and run this again."
    )]
    Start {
        /// The program's name.
        program: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{command}` failed with {status}. Run it by itself to see the whole of its output.")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A file or folder could not be read or written.
    #[error(
        "cannot {verb} {}: {source}. Check that it exists and that you may {verb} it.",
        path.display()
    )]
    File {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A manifest is no valid TOML.
    #[error(
        "cannot parse {}: {source}. Correct the file; `cargo metadata` names the line too.",
        path.display()
    )]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The parser's reason.
        source: Box<toml::de::Error>,
    },
    /// A file is no valid Rust.
    #[error("cannot parse {}: {reason}. `cargo check` names the line.", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
    /// Cargo or rustdoc answered in an unknown format.
    #[error(
        "cannot read the JSON of cargo or rustdoc: {0}. Check `cargo --version` against \
         rust-toolchain.toml."
    )]
    Json(#[from] serde_json::Error),
    /// The command line names an unknown thing.
    #[error("there is no {what}. {next}")]
    Unknown {
        /// The thing.
        what: String,
        /// How to find its name.
        next: &'static str,
    },
    /// A part that the installation must have is missing or unfit.
    #[error("cannot install: {what}. {next}")]
    Unfit {
        /// The part and its fault.
        what: String,
        /// What to do about it.
        next: String,
    },
    /// The command found faults and has printed them itself.
    #[error("faults were found; they are printed above")]
    Reported,
}

impl Error {
    /// The given file could not be read.
    pub fn read(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "read", path: path.to_owned(), source }
    }

    /// The given file could not be written.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::File { verb: "write", path: path.to_owned(), source }
    }
}
