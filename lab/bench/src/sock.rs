//! Sockets: connections of bytes between two processes, as `m3 bench sock` measures them.
//!
//! ```text
//! sock-stream   client ══messages══> server, an end, <── how many bytes came      (the paper's figure)
//! sock-trip     client ──request──> server ──answer──> client, awake, asleep, one of many by epoll
//! sock-connect  client connects; the call's own time, and until the first byte has been answered
//! ```
//! Both sides use the same calls whatever the socket: those of the C library for the kernel's (so that a library loaded in
//! front of it sees them), those of `m3ipc-sockets` for com-sockets. What is sent is checked where it arrives: what comes before
//! the clock starts as a whole, what comes after by its numbers, and by how much came.

mod connects;
mod counters;
mod flow;
mod line;
mod plan;
mod poll;
mod report;
mod trips;
pub mod way;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Job, Placement, Report, Side, Task, Wait, Work};
use crate::measure::{Bench, Round};
use crate::mechanism::Inherited;
use crate::peer::Run;
use crate::supervise::Crew;
use counters::Counters;
use way::{Opened, Way};

pub use plan::{Table, tables};
pub use report::{is_of_messages, run};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Test {
    /// Messages one way, none awaited.
    Stream,
    /// Requests and answers, back to back.
    Trip,
    /// Requests and answers, the server asleep in between.
    Asleep,
    /// Requests and answers on one of many connections, of which the server hears by epoll.
    Epoll,
    /// Connections.
    Connect,
}

impl Test {
    /// Its name in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "sock-stream",
            Self::Trip => "sock-trip",
            Self::Asleep => "sock-asleep",
            Self::Epoll => "sock-epoll",
            Self::Connect => "sock-connect",
        }
    }
}

/// Name of the test of connections that goes on to the first answer.
pub const FIRST: &str = "sock-first";

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Of what.
    pub test: Test,
    /// Size of a message in bytes, at least 1.
    pub bytes: usize,
    /// Connections between the two processes.
    pub connections: u32,
    /// For how long it is measured at most.
    pub span_ns: u64,
    /// At the end of so many bytes, or connections, it is over sooner.
    pub most: u64,
}

/// One trip a millisecond: the server sleeps meanwhile.
const PACE_NS: u64 = 1_000_000;

impl Shape {
    /// Pace, span and limit of the trips that a client makes.
    #[must_use]
    pub fn window(&self) -> (Option<u64>, u64, Option<u64>) {
        ((self.test == Test::Asleep).then_some(PACE_NS), self.span_ns, None)
    }
}

/// What is measured: one line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// By what.
    pub way: Way,
    /// What.
    pub shape: Shape,
    /// Where the two sides run.
    pub placement: Placement,
}

impl Cell {
    /// How its sides wait.
    #[must_use]
    pub fn wait(&self) -> Wait {
        match (self.way, self.shape.test) {
            (_, Test::Epoll) => Wait::Block,
            (way, _) => way.wait(),
        }
    }
}

/// Measures one cell in one round, warm for `warm_ns` before.
///
/// # Errors
/// What went wrong, and where.
pub fn measure(bench: &Bench, cell: &Cell, warm_ns: u64) -> Result<Round, Error> {
    let Opened { client, server, keep: _keep, mut environment } = cell.way.open(&bench.site)?;
    let counters = cell.way.is_shim().then(Counters::begin).transpose()?;
    environment.extend(counters.iter().map(Counters::variable));
    let mut crew = Crew::new(bench.grace_ns);
    let start = |crew: &mut Crew, side, inherited: Inherited| {
        let job = Job {
            mechanism: cell.way.name().into(),
            side,
            work: Work::Ipc2,
            wait: cell.wait(),
            bytes: 0,
            cpu: bench.cpus.of(cell.placement, side),
            fds: vec![],
            names: inherited.names,
            clock: bench.clock,
            task: Task::Sock(cell.shape),
        };
        crew.start_with(&bench.site, job, inherited.fds, &environment)
    };
    if let Some(server) = server {
        start(&mut crew, Side::Server, server)?;
        // It can be connected to from now on, and lets connections in once it may go.
        crew.ready()?;
        crew.go(0, monotonic_ns())?;
    }
    let number = crew.size();
    start(&mut crew, Side::Client, client)?;
    crew.ready()?;
    crew.go(number, monotonic_ns() + warm_ns)?;
    crew.finish(warm_ns + cell.shape.span_ns, &(0..=number).collect::<Vec<_>>())?;
    let servers = (0..number).filter_map(|number| crew.report(number));
    let mut round = Round::of(crew.report(number).into_iter(), servers);
    let all = || (0..=number).filter_map(|number| crew.report(number));
    let bells: Vec<u64> = all().filter_map(|report| report.bells).collect();
    let trips = crew.report(number).map_or(1, |report| report.trips).max(1);
    round.bells_per_op =
        (!bells.is_empty()).then(|| bells.iter().sum::<u64>() as f64 / trips as f64);
    if let Some(counters) = &counters {
        counters.add_to(&mut round, cell.shape.test, trips)?;
    }
    round.binds = crew.report(number).map(|report| report.binds.clone()).unwrap_or_default();
    Ok(round)
}

/// Is one side of a connection, in a peer process.
///
/// # Errors
/// Where a socket fails or what came is not what was sent.
pub fn peer(run: &Run, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let way = Way::by_name(&run.job().mechanism)
        .ok_or_else(|| Error::Usage(format!("there is no socket {:?}", run.job().mechanism)))?;
    match (way, shape.test, run.job().side) {
        (Way::Memcpy, ..) => flow::within(run, shape),
        (Way::Ipc2, _, Side::Client) => trips::ask_by_ipc(run, &inherited, shape),
        (Way::Ipc2, ..) => trips::answer_by_ipc(run, &inherited, shape),
        (_, Test::Stream, Side::Client) => flow::send(run, way, inherited, shape),
        (_, Test::Stream, _) => flow::receive(run, way, inherited, shape),
        (_, Test::Connect, Side::Client) => connects::connect(run, way, &inherited, shape),
        (_, Test::Connect, _) => connects::accept(run, way, inherited),
        (_, _, Side::Client) => trips::ask(run, way, &inherited, shape),
        (_, Test::Epoll, _) => poll::answer(run, way, inherited, shape),
        (..) => trips::answer(run, way, inherited, shape),
    }
}
