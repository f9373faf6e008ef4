//! The command line of `m3 bench ipc` and of `m3-bench`.

use std::path::PathBuf;

/// Measures round trips of m3ipc and of what the kernel offers, in one run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchArgs {
    /// Fewer and shorter rounds: under 20 seconds in all, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Measure only what matches: a part of a test's, mechanism's, placement's or wait mode's name;
    /// several narrow it down (--only ipc2 --only pipe)
    #[arg(long, value_name = "WORD")]
    pub only: Vec<String>,
    /// Interleaved rounds of each measurement [default: 7; 3 with --quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// Length of each measurement in milliseconds [default: by the test]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub millis: Option<u64>,
    /// Write machine and results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print each promise with its figure, its bound and whether it holds; exit with 1 if one falls short
    #[arg(long)]
    pub promises: bool,
}

impl BenchArgs {
    /// How many rounds.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }
}
