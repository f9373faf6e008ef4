//! The command line of `m3-bench`.

use std::path::PathBuf;

use m3ipc_report::compare::CompareArgs;
use m3ipc_report::promises::Measurement;

use crate::job::SuiteName;

/// Suites of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SuiteChoice {
    /// Round trips, wake-ups and throughput
    Ipc,
    /// Blocks of data from one process into another
    Copy,
    /// Shared memory: mapped, allocated, handed over, fragmented
    Area,
    /// Sockets: throughput, request and answer, connect
    Sock,
    /// The phases of one round trip
    Phases,
    /// All suites but the phases
    All,
}

/// Software choices whose price can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// The sender by the message alone, against a queue of senders sorted by time
    Sender,
    /// Forty bytes inline in the message's cache line, against the same bytes beside it in memory
    Copy,
    /// On one CPU: a hand-over by sched_yield, against a sleep on a futex
    Switch,
}

impl Experiment {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Copy => "copy",
            Self::Switch => "switch",
        }
    }
}

/// The command line.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// A command other than a measurement.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A measurement.
    #[command(flatten)]
    pub measure: BenchArgs,
}

/// Commands other than a measurement.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Is one run slower than another? Rank test over rounds; exits with 1 on a slow-down beyond
    /// --part
    Compare(CompareArgs),
    /// Measure everything and write one page about it: index.html, bench.json beside it
    Report(ReportArgs),
    /// The cost of m3 trace for the traced processes, and its losses; exits with 1 above 15 % of
    /// the throughput
    Tracing(TracingArgs),
    /// Engines between nodes beside raw TCP, by the program m3-nodes: m3 bench nodes --engines
    Nodes(OutsideArgs),
    /// RPC libraries over com-sockets beside kernel sockets and beside m3ipc, by the program
    /// m3-stacks
    Stacks(OutsideArgs),
}

/// The parameters of measurements and reports.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CommonArgs {
    /// Fewer and shorter rounds: about 20 seconds a suite, about two minutes for a report
    #[arg(long)]
    pub quick: bool,
    /// Measure only what matches: a part of a test's, mechanism's, placement's or wait mode's name;
    /// several narrow it down (--only ipc2 --only pipe), commas widen it (--only vcopy,process-vm)
    #[arg(long, value_name = "WORD")]
    pub only: Vec<String>,
    /// Measure other libraries in the same run, by the program m3-peers: iceoryx2, zeromq, nng,
    /// ipc-channel, grpc, dbus, zenoh, tachyon, shmem-ipc
    #[arg(long, value_name = "LIBRARY", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Interleaved rounds of each measurement [default: 7; 3 with --quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// Length of each measurement in milliseconds [default: by the test]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub millis: Option<u64>,
}

impl CommonArgs {
    /// The number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }

    /// The length of a measurement in nanoseconds, from that of a quick and of a full one in ms.
    pub fn span_ns(&self, quick_ms: u64, full_ms: u64) -> u64 {
        self.millis.unwrap_or(if self.quick { quick_ms } else { full_ms }) * 1_000_000
    }
}

/// Measures m3ipc and the mechanisms of the kernel in one run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchArgs {
    /// The suite [default: ipc; with --promises what the promises need, of all suites]
    #[arg(value_enum)]
    pub suite: Option<SuiteChoice>,
    /// The parameters of the measurements.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Write machine and results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only this experiment of the phases
    #[arg(long, value_enum)]
    pub experiment: Option<Experiment>,
    /// Print each promise with its figure, its bound and its verdict; exit with 1 if one falls
    /// short. Takes up to ten minutes; with the suite all it measures everything, about half an
    /// hour
    #[arg(long)]
    pub promises: bool,
}

impl BenchArgs {
    /// Whether only the measurements of the promises are wanted.
    pub fn is_of_promises(&self) -> bool {
        self.promises && self.suite.is_none()
    }

    /// Whether this measurement is wanted: any, or one that a promise reads.
    pub fn needs(&self, measurement: &Measurement<'_>) -> bool {
        !self.is_of_promises() || measurement.is_needed()
    }

    /// Whether this suite is wanted.
    pub fn wants(&self, suite: SuiteName) -> bool {
        let default = if self.promises { SuiteChoice::All } else { SuiteChoice::Ipc };
        match (self.suite.unwrap_or(default), suite) {
            (SuiteChoice::All, suite) => suite != SuiteName::Phases,
            (SuiteChoice::Ipc, SuiteName::Ipc)
            | (SuiteChoice::Copy, SuiteName::Copy)
            | (SuiteChoice::Area, SuiteName::Area)
            | (SuiteChoice::Sock, SuiteName::Sock)
            | (SuiteChoice::Phases, SuiteName::Phases) => true,
            _ => false,
        }
    }
}

/// Measures everything and writes one page about it.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The parameters of the measurements.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Directory of the page and its JSON; an unfinished run in it is resumed
    #[arg(long, value_name = "DIR", default_value = "m3-bench-report")]
    pub out: PathBuf,
    /// Discard an unfinished run in the directory
    #[arg(long)]
    pub fresh: bool,
    /// Measure nothing: make the page from this JSON of an earlier run
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["quick", "only", "with", "rounds", "millis", "fresh"])]
    pub from: Option<PathBuf>,
}

impl ReportArgs {
    /// The command that repeats the run.
    pub fn command(&self) -> String {
        let CommonArgs { quick, only, with, rounds, millis } = &self.common;
        let mut words = vec!["m3 bench report".to_owned()];
        words.extend(quick.then(|| "--quick".into()));
        words.extend(only.iter().map(|word| format!("--only {word}")));
        if !with.is_empty() {
            words.push(format!("--with {}", with.join(",")));
        }
        words.extend(rounds.map(|rounds| format!("--rounds {rounds}")));
        words.extend(millis.map(|millis| format!("--millis {millis}")));
        words.join(" ")
    }
}

/// Measures the cost of m3 trace and its losses.
#[derive(Clone, Debug, clap::Args)]
pub struct TracingArgs {
    /// Pairs at once
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: u32,
    /// Rounds, each without the tracer and with it
    #[arg(long, value_name = "NUMBER", default_value_t = 9)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Length of each measurement in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub millis: u64,
    /// Calls a second of all pairs together [default: as many as they can]
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub calls: Option<u64>,
}

/// Measures by a program that is built apart.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct OutsideArgs {
    /// Arguments of that program; --help shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub arguments: Vec<std::ffi::OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_narrows_down_and_commas_widen() {
        let lets = |only: &[&str], names: &[&str]| {
            let only: Vec<String> = only.iter().map(|&word| word.into()).collect();
            m3ipc_report::matches(&only, names)
        };
        let names = ["copy1", "pipe"];
        assert!(lets(&[], &names));
        assert!(lets(&["copy", "pipe"], &names) && !lets(&["copy", "tcp"], &names));
        assert!(lets(&["tcp,pipe"], &names) && !lets(&["tcp,unix"], &names));
    }

    #[test]
    fn promises_are_of_all_suites() {
        use SuiteName::{Area, Copy, Ipc};
        let of = |suite, promises| BenchArgs { suite, promises, ..BenchArgs::default() };
        assert!(of(None, false).wants(Ipc) && !of(None, false).wants(Copy));
        assert!(of(None, true).wants(Ipc) && of(None, true).wants(Copy));
        let copies = of(Some(SuiteChoice::Copy), true);
        assert!(copies.wants(Copy) && !copies.wants(Ipc));
        assert!(of(Some(SuiteChoice::All), false).wants(Area));
    }
}
