//! The command line of `m3 bench ipc` and of `m3-bench`.

use std::path::PathBuf;

/// Suites of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Round trips, wake-ups and throughput
    Ipc,
    /// Blocks of data from one process into another
    Copy,
    /// Memory that is shared: mapped, taken, handed over, fallen to pieces
    Area,
    /// Sockets: throughput, request and answer, connect
    Sock,
    /// Where the time of one round trip goes, phase by phase
    Phases,
    /// All of them but the phases
    All,
}

/// The command line of `m3 bench` and of `m3-bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    /// What else can be done with measurements.
    #[command(subcommand)]
    pub further: Option<Further>,
    /// A measurement.
    #[command(flatten)]
    pub measure: BenchArgs,
}

/// What else can be done with measurements.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Further {
    /// Is one run slower than another? Rank test over rounds; exits with 1 on a slow-down beyond --part
    Compare(crate::compare::CompareArgs),
    /// Measure everything and write one page about it: index.html, bench.json beside it
    Report(crate::book::ReportArgs),
    /// What m3 trace costs those it watches, and what it loses; exits with 1 where it costs more than 15 % of the throughput
    Tracing(crate::tracing::TracingArgs),
}

/// Measures m3ipc and what the kernel offers, in one run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchArgs {
    /// What to measure [default: ipc; all with --promises]
    #[arg(value_enum)]
    pub suite: Option<Suite>,
    /// Fewer and shorter rounds: about 20 seconds a suite, for a first look
    #[arg(long)]
    pub quick: bool,
    /// Measure only what matches: a part of a test's, mechanism's, placement's or wait mode's name;
    /// several narrow it down (--only ipc2 --only pipe), commas widen it (--only vcopy,process-vm)
    #[arg(long, value_name = "WORD")]
    pub only: Vec<String>,
    /// Measure libraries of others in the same run, by the program m3-peers: iceoryx2, zeromq, nng, ipc-channel, zenoh
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Interleaved rounds of each measurement [default: 7; 3 with --quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// Length of each measurement in milliseconds [default: by the test]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub millis: Option<u64>,
    /// Write machine and results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Of the phases: this experiment alone
    #[arg(long, value_enum)]
    pub experiment: Option<crate::phases::Experiment>,
    /// Print each promise with its figure, its bound and whether it holds; exit with 1 if one falls short
    #[arg(long)]
    pub promises: bool,
}

impl BenchArgs {
    /// Whether this suite was asked for.
    #[must_use]
    pub fn wants(&self, suite: Suite) -> bool {
        let default = if self.promises { Suite::All } else { Suite::Ipc };
        [suite, Suite::All].contains(&self.suite.unwrap_or(default))
    }

    /// Whether a measurement with these names is among what `--only` leaves.
    #[must_use]
    pub fn lets(&self, names: &[&str]) -> bool {
        let any = |words: &String| {
            words.split(',').any(|word| names.iter().any(|name| name.contains(word)))
        };
        self.only.iter().all(any)
    }

    /// How many rounds.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_narrows_down_and_commas_widen() {
        let lets = |only: &[&str], names: &[&str]| {
            let only = only.iter().map(|&word| word.into()).collect();
            BenchArgs { only, ..BenchArgs::default() }.lets(names)
        };
        assert!(lets(&[], &["copy1", "pipe"]));
        assert!(
            lets(&["copy", "pipe"], &["copy1", "pipe"])
                && !lets(&["copy", "tcp"], &["copy1", "pipe"])
        );
        assert!(
            lets(&["tcp,pipe"], &["copy1", "pipe"]) && !lets(&["tcp,unix"], &["copy1", "pipe"])
        );
    }

    #[test]
    fn promises_are_of_all_suites() {
        let of = |suite, promises| BenchArgs { suite, promises, ..BenchArgs::default() };
        assert!(of(None, false).wants(Suite::Ipc) && !of(None, false).wants(Suite::Copy));
        assert!(of(None, true).wants(Suite::Ipc) && of(None, true).wants(Suite::Copy));
        assert!(
            of(Some(Suite::Copy), true).wants(Suite::Copy)
                && !of(Some(Suite::Copy), true).wants(Suite::Ipc)
        );
        assert!(of(Some(Suite::All), false).wants(Suite::Area));
    }
}
