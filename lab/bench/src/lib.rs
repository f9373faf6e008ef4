//! Measures m3ipc beside the kernel's mechanisms and beside the floors, in one run.
//!
//! ```text
//! page_run, tracing, apart  the commands report and tracing, and programs that are built apart
//! runner                  a run: steps, tables, JSON        untold, counts: steps of their own
//! rounds                  cells in turn, round by round
//! suites/*  over plan     which cells, in which order: ipc, copy, area, sock, phases
//! subjects (registry)     subjects/*: one file per mechanism or family of mechanisms
//! measure                 one cell in one round             processes, guard: child processes
//! subject                 the trait of everything that is measured
//! run                     a job in a measured process: timing loops, checks (over ends)
//! job, measured, payload  data                              raw: unsafe calls, clock, cpus
//! ```
//! Arrows point down. [`subject::Subject`] is implemented below `subjects` only; the registry
//! imports the subjects, the suites import the registry, the runner imports the suites.
//!
//! Every figure is between two processes, never two threads. Measurements that compare took turns
//! in the same run. Both sides write, read and check every payload. A watchdog ends and names a
//! measurement that hangs. A measurement that this machine cannot make is skipped and named.
//!
//! Limits: the benchmark promises nothing about tails on a virtual machine. It sets no governor and
//! raises no priority, because a figure should be that of an ordinary user.

mod apart;
mod args;
pub mod clock;
pub mod counts;
mod cpus;
mod dialogue;
pub mod ends;
mod error;
mod fragmentation;
mod guard;
pub mod job;
mod machine;
pub mod measure;
mod measured;
mod outcome;
pub mod outside;
mod page_run;
pub mod payload;
pub mod peer;
mod phase_math;
mod plan;
mod processes;
mod progress;
mod random;
mod raw;
mod remains;
mod rounds;
pub mod run;
mod runner;
mod samples;
pub mod subject;
pub mod subjects;
mod suites;
mod tracing;
mod unique;
mod untold;

pub use args::Arguments;
pub use error::Error;
pub use measured::Measured;
pub use outcome::Outcome;
pub use processes::PEER_ARGUMENT;

use args::Command;

/// Runs the command line.
///
/// The binary that calls it begins its `main` with [`peer::if_asked`].
///
/// # Errors
/// Nothing can be measured or compared.
pub fn start(arguments: &Arguments) -> Result<Outcome, Error> {
    raw::raise_most_files();
    match &arguments.command {
        None => runner::run(&arguments.measure),
        Some(Command::Compare(args)) => {
            let (text, is_slower) = m3ipc_report::compare::run(args)?;
            print!("{text}");
            Ok(if is_slower { Outcome::FallsShort } else { Outcome::Fine })
        }
        Some(Command::Report(args)) => page_run::run(args),
        Some(Command::Tracing(args)) => tracing::run(args),
        Some(Command::Nodes(args)) => apart::run(&apart::NODES, args),
        Some(Command::Stacks(args)) => apart::run(&apart::STACKS, args),
    }
}
