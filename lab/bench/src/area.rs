//! Memory that changes hands: `m3 bench area`.
//!
//! ```text
//! attach         an area, or a file, comes into a process: all its pages are there afterwards
//! handover       a block goes to another process and comes back, which is two hand-overs
//! pool           one block is given back, another one taken, among a thousand that stay
//! fragmentation  10 million of these with random lifetimes: the largest free run against all that is free
//! ```
//! AnT's paper measures the first of these, per 4 KB: pages of its area against pages that lie anywhere.

mod plan;
mod report;
pub mod study;
pub mod way;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::copy::way::Opened;
use crate::error::Error;
use crate::job::{Job, Placement, Report, Side, Task, Wait, Work};
use crate::measure::{Bench, Round};
use crate::mechanism::Inherited;
use crate::peer::Run;
use crate::supervise::Crew;
use way::Way;

pub use plan::{Table, tables};
pub use report::{FRAGMENTATION, fragmentation, run};
pub use way::pool::Turnover;

/// What is measured of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Test {
    /// It comes into a process.
    Attach,
    /// A block goes to another process and comes back.
    HandOver,
    /// A block is given back and another one taken.
    Pool,
}

impl Test {
    /// Its name in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::HandOver => "handover",
            Self::Pool => "pool",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Of what.
    pub test: Test,
    /// Of how many bytes; in the pool the most of a block.
    pub bytes: usize,
    /// For how long.
    pub span_ns: u64,
}

/// What is measured: one line of a table.
#[derive(Clone, Copy)]
pub struct Cell {
    /// By what.
    pub way: &'static dyn Way,
    /// Of what.
    pub shape: Shape,
    /// Where its sides run.
    pub placement: Placement,
}

/// Measures one cell in one round, warm for `warm_ns` before.
///
/// # Errors
/// What went wrong, and where.
pub fn measure(bench: &Bench, cell: &Cell, warm_ns: u64) -> Result<Round, Error> {
    let Opened { sides, keep: _keep } = cell.way.open(&bench.site, &cell.shape)?;
    let mut crew = Crew::new(bench.grace_ns);
    for (side, inherited) in sides {
        let job = Job {
            mechanism: cell.way.name().into(),
            side,
            work: Work::Ipc2,
            wait: Wait::Block,
            bytes: 0,
            cpu: bench.cpus.of(cell.placement, side),
            fds: vec![],
            names: inherited.names,
            clock: bench.clock,
            task: Task::Area(cell.shape),
        };
        crew.start(&bench.site, job, inherited.fds)?;
    }
    crew.ready()?;
    crew.go(0, monotonic_ns() + warm_ns)?;
    let all: Vec<usize> = (0..crew.size()).collect();
    crew.finish(warm_ns + cell.shape.span_ns, &all)?;
    let client = crew.size() - 1;
    let others = (0..client).filter_map(|number| crew.report(number));
    Ok(Round::of(crew.report(client).into_iter(), others))
}

/// Is one side of a measurement, in a peer process.
///
/// # Errors
/// Where a call fails or a block is wrong.
pub fn peer(run: &Run, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let name = &run.job().mechanism;
    let way = way::by_name(name).ok_or_else(|| {
        Error::Usage(format!("there is no mechanism {name:?} that has memory to measure"))
    })?;
    match run.job().side {
        Side::Client => way.client(inherited, run, shape),
        _ => way.server(inherited, run, shape),
    }
}

/// Times single attaches for the span of the job: `attach` does one, `detach` ends it outside of the time; both
/// work with `on`.
///
/// # Errors
/// What these two say.
pub fn time_attaches<S, T>(
    run: &Run,
    shape: &Shape,
    on: &mut S,
    mut attach: impl FnMut(&mut S) -> Result<T, Error>,
    mut detach: impl FnMut(&mut S, T) -> Result<(), Error>,
) -> Result<Report, Error> {
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let mut report = Report::default();
    // The first ones find cold tables of the kernel's.
    while report.trips < 2 || monotonic_ns() < start_ns {
        let attached = attach(on)?;
        detach(on, attached)?;
        report.trips += 1;
    }
    let before = crate::raw::usage();
    let window_ns = monotonic_ns();
    while report.window_trips < 2 || monotonic_ns() < window_ns + shape.span_ns {
        let begin = clock.now();
        let attached = attach(on)?;
        report.samples.record(clock.ns(clock.now() - begin));
        detach(on, attached)?;
        report.window_trips += 1;
    }
    let used = crate::raw::usage();
    report.window_ns = monotonic_ns() - window_ns;
    report.trips = report.window_trips;
    report.cpu_ns = used.cpu_ns - before.cpu_ns;
    report.switches = used.voluntary_switches - before.voluntary_switches;
    Ok(report)
}
