//! What can go wrong in a benchmark, each with its cause and what to do next.

use std::io;

/// An error of the benchmark.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// This machine cannot run this measurement: it is left out, and said so.
    #[error("{why}; {next}")]
    Unavailable {
        /// What is missing.
        why: String,
        /// What to do about it.
        next: &'static str,
    },
    /// A message did not arrive as it was sent.
    #[error(
        "payload corrupted in trip {trip}, word {word}: got {got:#x}, wanted {wanted:#x}; the mechanism \
         cannot be trusted, no figure is given"
    )]
    Payload {
        /// Number of the trip.
        trip: u64,
        /// Index of the word.
        word: usize,
        /// What arrived.
        got: u64,
        /// What was sent.
        wanted: u64,
    },
    /// Under the preload library nothing was shared.
    #[error(
        "no byte went through a ring, so the figure would be the kernel's own and is not given; `m3 sock stat` tells of \
         pins, and M3SOCK_POLICY may leave this program out"
    )]
    NoRing,
    /// The other side of a conversation has gone.
    #[error("the other side has gone")]
    PeerGone,
    /// One of the measured processes reported an error.
    #[error("{who} failed: {said}")]
    Peer {
        /// Which process.
        who: String,
        /// What it said.
        said: String,
    },
    /// One of the measured processes ended without a report.
    #[error("{who} ended without a report ({status}); run with --only to see it alone")]
    Ended {
        /// Which process.
        who: String,
        /// How it ended.
        status: String,
    },
    /// The watchdog ended a measurement.
    #[error(
        "no end after {after_s} s: still missing {waiting}; the measurement's own processes were killed. \
         Run it alone with --only, or with fewer pairs"
    )]
    Stuck {
        /// How long the watchdog waited.
        after_s: u64,
        /// Which processes had not answered.
        waiting: String,
    },
    /// A peer and its supervisor do not speak alike.
    #[error("cannot read {what}: {source}; are both processes the same binary?")]
    Json {
        /// What was read.
        what: &'static str,
        /// Where it went wrong.
        source: serde_json::Error,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}; check that its directory exists and that you may write there")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file is no run of this benchmark.
    #[error("{path} is no run of m3 bench: {source}; m3 bench ipc --json FILE writes one")]
    Foreign {
        /// The file.
        path: std::path::PathBuf,
        /// Where it went wrong.
        source: serde_json::Error,
    },
    /// The caller asked for something that does not exist.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Turns the error of a system call into ours, naming what was done.
    pub fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Os { what, source: error.into() }
    }

    /// Turns a parse error into ours, naming what was read.
    pub fn json(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Json { what, source }
    }
}
