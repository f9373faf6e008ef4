//! Measures m3ipc against what the kernel offers and against the floors, in one run.
//!
//! ```text
//! args -> plan, copy, sock (tests of cells) -> rounds (cells in turn) -> measure (one cell, one round)
//!                                                              | supervise: two peers or more
//!                                                              v
//!                                      mechanism <- peer (the loops that keep time and check)
//! report, output, promises <- record <- stats
//! ```
//! Every figure is taken between two processes, never two threads; every
//! comparison between measurements that took turns in the same run; every
//! payload is written, read and checked. A measurement that hangs is ended by
//! a watchdog and named; one that this machine cannot do is skipped and named.
//!
//! What it does not do: it promises nothing about tails on a virtual machine,
//! and it neither sets a governor nor raises a priority: a figure should be
//! what a user of this machine gets.

pub mod area;
mod args;
pub mod beside;
pub mod book;
pub mod clock;
pub mod compare;
pub mod copy;
pub mod counts;
mod error;
pub mod job;
mod machine;
pub mod measure;
pub mod mechanism;
pub mod ours;
pub mod output;
pub mod payload;
pub mod peer;
pub mod phases;
pub mod place;
mod plan;
mod progress;
pub mod promises;
mod raw;
pub mod record;
mod remains;
mod report;
mod rounds;
pub mod sock;
pub mod stats;
mod suite;
mod supervise;
pub mod tracing;

pub use args::{Bench as Arguments, BenchArgs, Further, Suite};
pub use error::Error;

use job::Placement;
use machine::Machine;
use measure::Bench;
use output::Output;
use progress::Progress;
use record::Results;
use suite::{Step, Suites};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was measured, or skipped with its reason; no promise that was looked at falls short.
    Fine,
    /// A promise falls short.
    FallsShort,
    /// A measurement failed.
    Failed,
}

impl Outcome {
    /// The exit code of a binary: 0, 1 where a promise falls short, 2 where a measurement failed.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::FallsShort => 1,
            Self::Failed => 2,
        }
    }
}

/// Does what the whole command line asks for.
///
/// # Errors
/// What [`run`] says, or the further command.
pub fn start(arguments: &Arguments) -> Result<Outcome, Error> {
    match &arguments.further {
        None => run(&arguments.measure),
        Some(Further::Compare(args)) => compare::run(args),
        Some(Further::Report(args)) => book::run(args),
        Some(Further::Tracing(args)) => tracing::run(args),
    }
}

/// Measures what the arguments ask for; prints tables on standard output, progress on standard error.
///
/// The binary that calls it must begin its `main` with [`peer::if_asked`].
///
/// # Errors
/// Where nothing can be measured at all, nothing matches, or the JSON file cannot be written.
pub fn run(args: &BenchArgs) -> Result<Outcome, Error> {
    let bench = Bench::new()?;
    let mut machine = Machine::find(&bench.cpus, bench.clock);
    let found = mechanism::outside::find(&args.with)?;
    let all: Vec<_> = mechanism::all().into_iter().chain(found.mechanisms).collect();
    let suites = Suites::plan(args, &bench, &all, args.suite == Some(Suite::Phases));
    let steps = suites.steps();
    if steps.is_empty() {
        return Err(nothing_matches(&all));
    }
    let cells: usize = steps.iter().map(Step::cells).sum();
    let mut progress = Progress::new(cells * usize::try_from(args.rounds()).unwrap_or(1));
    let (libraries, mut skipped) = (found.versions, found.skipped);
    skipped.extend(suites.left_out());
    let mut results =
        Results { cpus: bench.cpus.allowed, libraries, skipped, ..Results::default() };
    if bench.cpus.second.is_none() {
        results.skipped.push(report::missing(Placement::TwoCpus));
    }

    print!("{}{}", machine.card(), report::libraries(&results));
    if !steps.iter().all(|step| matches!(step, Step::Phases(_))) {
        print!("{}", report::LEGEND);
    }
    for step in &steps {
        let text = step.run(&bench, args, &mut progress, &mut results);
        progress.clear();
        print!("{text}");
    }
    ours::end();
    machine.end();
    let short = if args.promises { promises::print(&results) } else { (String::new(), 0) };
    print!("{}{}{}", beside::text(&results), short.0, report::left_out(&results));
    if let Some(path) = &args.json {
        Output::new(&machine, &results).write(path)?;
    }
    Ok(match (results.failed.is_empty(), short.1) {
        (false, _) => Outcome::Failed,
        (true, 0) => Outcome::Fine,
        (true, _) => Outcome::FallsShort,
    })
}

fn nothing_matches(all: &[&dyn mechanism::Mechanism]) -> Error {
    let names: Vec<&str> = all.iter().map(|mechanism| mechanism.name()).collect();
    let ways: Vec<&str> = copy::way::all().iter().map(|way| way.name()).collect();
    Error::Usage(format!(
        "nothing matches --only; tests of ipc are ipc1, ipc2, ipc3, ipc2-paced, pairs, clients, death, death-heavy, restart, contact, \
         instructions, memory, its mechanisms {}; tests of copy are copy1, copy2, stream, misaligned, its \
         mechanisms {}; tests of area are attach, handover, pool, fragmentation; tests of sock are sock-stream, sock-trip, sock-asleep, sock-epoll, sock-connect; phases are of short, long, block, vcopy messages, of \
         pipe, unix-stream and futex",
        names.join(", "),
        ways.join(", ")
    ))
}
