//! Errors of the benchmark, each with its cause and the next step.

use std::io;

/// An error of the benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// This machine cannot make this measurement, which is no failure.
    #[error("{why}; {next}")]
    Unavailable {
        /// The missing part.
        why: String,
        /// The remedy.
        next: &'static str,
    },
    /// A message changed on its way.
    #[error(
        "payload corrupted in trip {trip}, word {word}: got {got:#x}, wanted {wanted:#x}; \
         the mechanism cannot be trusted, no figure is given"
    )]
    Payload {
        /// Number of the trip.
        trip: u64,
        /// Index of the word.
        word: usize,
        /// The received word.
        got: u64,
        /// The sent word.
        wanted: u64,
    },
    /// The other side of a conversation has ended.
    #[error("the other side has ended")]
    PeerGone,
    /// A measured process reported an error.
    #[error("{who} failed: {said}")]
    Peer {
        /// The process.
        who: String,
        /// Its report.
        said: String,
    },
    /// A measured process ended without a report.
    #[error("{who} ended without a report ({status}); run it alone with --only")]
    Ended {
        /// The process.
        who: String,
        /// Its exit status.
        status: String,
    },
    /// The watchdog ended a measurement.
    #[error(
        "no end after {after_s} s: still missing {waiting}; the measured processes were killed. \
         Run it alone with --only, or with fewer pairs"
    )]
    Stuck {
        /// The watchdog's time limit.
        after_s: u64,
        /// The processes without an answer.
        waiting: String,
    },
    /// A measured process and its supervisor use different formats.
    #[error("cannot read {what}: {source}; are both processes the same binary?")]
    Json {
        /// The text.
        what: &'static str,
        /// The place of the error.
        source: serde_json::Error,
    },
    /// A file cannot be read or written, or two runs do not compare.
    #[error(transparent)]
    Report(#[from] m3ipc_report::Error),
    /// The request names something that does not exist.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The exit code of the program: 2 for wrong usage, 4 for all other errors.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 4 }
    }

    /// Converts the error of a system call and names the operation.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Os { what, source: error.into() }
    }

    /// Converts a parse error and names the text.
    pub fn json(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Json { what, source }
    }

    /// Converts an error of a library and names the operation.
    pub fn of<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::Usage(format!("{what}: {error}"))
    }
}
