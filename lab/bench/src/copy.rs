//! Blocks of data from one process into another: `m3 bench copy`.
//!
//! ```text
//! copy1   requester ──block──> destination                 (M3-IPC's COPY1)
//! copy2   source ──block──> destination, asked for by a third process  (its COPY2)
//! stream  requester ──block, block, block──> destination, none awaited
//! ```
//! One copy is timed from the requester's wish to its knowledge that the destination has the bytes, which is
//! what vcopy means when it returns; the test `stream` gives the kernel's byte streams their best case. A
//! mechanism that cannot know is answered with one small message. Each block of copy1 and stream carries the
//! number of its trip at both ends, written before the copy and looked at by every destination that is awake;
//! the whole block is checked at the end, with one that was filled anew for that.
//!
//! What it does not do: touch the bytes in between. Who reads a block after it came pays for that in every
//! mechanism alike.

pub mod buffer;
mod plan;
mod report;
pub mod way;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Job, Placement, Report, Side, Task, Wait, Work};
use crate::measure::{Bench, Round};
use crate::mechanism::{ClientEnd, Inherited};
use crate::payload::Message;
use crate::peer::Run;
use crate::supervise::Crew;
use way::{Opened, Requester, Way};

pub use plan::{Table, tests};
pub use report::{copy_ns, is_of_blocks, run};

/// Who asks for a copy, and whether it is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// From the requester's memory into another's.
    Copy1,
    /// From one process's memory into another's, by a third.
    Copy2,
    /// As the first, one after the other, none awaited.
    Stream,
}

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Who asks.
    pub kind: Kind,
    /// Size of the block in bytes, at least 16.
    pub bytes: usize,
    /// Whether both ends begin at a page; elsewhere they begin at different distances from one.
    pub aligned: bool,
    /// For how long it is measured.
    pub span_ns: u64,
}

/// Distances from a page, in bytes, of a misaligned block at its source and at its destination.
const SKEW: (usize, usize) = (3, 13);

impl Shape {
    /// Name of the test in the JSON.
    #[must_use]
    pub const fn test(&self) -> &'static str {
        match (self.kind, self.aligned) {
            (Kind::Copy1, true) => "copy1",
            (Kind::Copy1, false) => "copy1-misaligned",
            (Kind::Copy2, true) => "copy2",
            (Kind::Copy2, false) => "copy2-misaligned",
            (Kind::Stream, _) => "stream",
        }
    }

    /// Distance from a page of the block at its source.
    #[must_use]
    pub const fn source_skew(&self) -> usize {
        if self.aligned { 0 } else { SKEW.0 }
    }

    /// Distance from a page of the block at its destination.
    #[must_use]
    pub const fn destination_skew(&self) -> usize {
        if self.aligned { 0 } else { SKEW.1 }
    }
}

/// What is measured: one line of a table.
#[derive(Clone, Copy)]
pub struct Cell {
    /// By what.
    pub way: &'static dyn Way,
    /// What is copied.
    pub shape: Shape,
    /// Where requester and destination run; a third process runs beside the requester.
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
            task: Task::Copy(cell.shape),
        };
        crew.start(&bench.site, job, inherited.fds)?;
    }
    crew.ready()?;
    crew.go(0, monotonic_ns() + warm_ns)?;
    let all: Vec<usize> = (0..crew.size()).collect();
    crew.finish(warm_ns + cell.shape.span_ns, &all)?;
    let requester = crew.size() - 1;
    let others = (0..requester).filter_map(|number| crew.report(number));
    Ok(Round::of(crew.report(requester).into_iter(), others))
}

/// Is one side of a copy, in a peer process.
///
/// # Errors
/// Where the mechanism fails or a block did not arrive as it was sent.
pub fn peer(run: &Run, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let name = &run.job().mechanism;
    let way = way::by_name(name).ok_or_else(|| {
        Error::Usage(format!("there is no mechanism {name:?} that copies blocks"))
    })?;
    match run.job().side {
        Side::Client => way.requester(inherited, run, shape),
        Side::Source => way.source(inherited, run, shape),
        Side::Server | Side::Idle => way.destination(inherited, run, shape),
    }
}

/// A requester as the client of round trips: a trip is a copy, and no message travels.
pub struct Copies<R>(pub R);

impl<R: Requester> ClientEnd for Copies<R> {
    #[inline(always)]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        self.0.copy(request.words[0] >> 8)
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.0.finish()
    }
}
