//! One measurement: a cell of a table in one round.

use crate::clock::{Clock, monotonic_ns};
use crate::error::Error;
use crate::job::{Job, Placement, Report, Side, Task, Wait, Work};
use crate::mechanism::{Mechanism, Site, Transport};
use crate::place::Cpus;
use crate::stats::{Samples, median};
use crate::supervise::Crew;

/// The watchdog's patience.
const GRACE_NS: u64 = 10_000_000_000;

/// What is measured: one line of one table.
#[derive(Clone, Copy)]
pub struct Cell {
    /// By what.
    pub mechanism: &'static dyn Mechanism,
    /// The kind of round trip.
    pub work: Work,
    /// How its sides wait.
    pub wait: Wait,
    /// Where they run.
    pub placement: Placement,
    /// How many pairs at once; how many bound clients, where one of many is active.
    pub pairs: u32,
}

/// The figures of one cell in one round.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Times of single trips.
    pub samples: Samples,
    /// Trips inside the measured windows, those of blocks timed as a whole included.
    pub trips: u64,
    /// Median of the blocks' means, in nanoseconds per trip.
    pub block_ns: Option<f64>,
    /// Trips per second of all pairs together.
    pub per_s: f64,
    /// CPU time of all measured processes per trip.
    pub cpu_ns_per_op: f64,
    /// Their voluntary context switches per trip.
    pub switches_per_op: f64,
    /// Times of binds, in the test of contacts; to the first answer, in that of connections.
    pub binds: Samples,
    /// Bells that com-sockets rang, or tokens that the preload library sent, both sides, per message or trip.
    pub bells_per_op: Option<f64>,
    /// Under the preload library: the part of the bytes of moved connections that went through rings.
    pub ring_share: Option<f64>,
}

/// What all measurements of one run share.
///
/// A run starts its peers from one thread: they die with that thread, and a second one starting
/// processes at the same time would hand on descriptors that belong to one peer alone.
pub struct Bench {
    /// Where peers come from.
    pub site: Site,
    /// How to read time.
    pub clock: Clock,
    /// Which CPUs to use.
    pub cpus: Cpus,
    /// How long the watchdog waits beyond the time a measurement should take.
    pub grace_ns: u64,
}

impl Bench {
    /// Looks at the machine; peers are this very binary.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn new() -> Result<Self, Error> {
        let exe = std::env::current_exe().map_err(Error::os("find this binary"))?;
        Self::with_peers(exe)
    }

    /// The same with peers of another binary, which begins its `main` with [`crate::peer::if_asked`].
    ///
    /// # Errors
    /// As for [`Bench::new`].
    pub fn with_peers(exe: std::path::PathBuf) -> Result<Self, Error> {
        Ok(Self {
            site: Site { exe },
            clock: Clock::calibrate(),
            cpus: Cpus::find()?,
            grace_ns: GRACE_NS,
        })
    }

    /// Round trips of `cell.pairs` pairs at once, warm for `warm_ns` before the task's window.
    ///
    /// # Errors
    /// What went wrong, and where.
    pub fn trips(&self, cell: &Cell, task: Task, warm_ns: u64) -> Result<Round, Error> {
        let pairs = usize::try_from(cell.pairs).unwrap_or(1);
        let mut keep = vec![];
        let mut crew = Crew::new(self.grace_ns);
        let mut clients = vec![];
        for transport in cell.mechanism.open_many(&self.site, pairs)? {
            let Transport { client, server, names, keep: kept } = transport;
            keep.push(kept);
            crew.start(&self.site_of(cell), self.job(cell, Side::Server, task, &names), server)?;
            clients.push((client, names));
        }
        for (fds, names) in clients {
            crew.start(&self.site_of(cell), self.job(cell, Side::Client, task, &names), fds)?;
        }
        crew.ready()?;
        crew.go(0, monotonic_ns() + warm_ns)?;
        let all: Vec<usize> = (0..crew.size()).collect();
        crew.finish(warm_ns + span_ns(task), &all)?;
        let reports =
            |range: std::ops::Range<usize>| range.filter_map(|number| crew.report(number));
        Ok(Round::of(reports(pairs..2 * pairs), reports(0..pairs)))
    }

    /// One active client beside `cell.pairs - 1` that are bound and keep still.
    ///
    /// # Errors
    /// What went wrong, and where.
    pub fn one_of_many(&self, cell: &Cell, task: Task, warm_ns: u64) -> Result<Round, Error> {
        let Transport { client, server, names, keep: _keep } = cell.mechanism.open(&self.site)?;
        let mut crew = Crew::new(self.grace_ns);
        crew.start(&self.site_of(cell), self.job(cell, Side::Server, task, &names), server)?;
        crew.ready()?;
        crew.go(0, monotonic_ns())?;
        if cell.pairs > 1 {
            let idle = Task::Idle { clients: cell.pairs - 1 };
            crew.start(&self.site_of(cell), self.job(cell, Side::Idle, idle, &names), vec![])?;
            crew.ready()?;
            crew.go(1, monotonic_ns())?;
        }
        let active = crew.size();
        crew.start(&self.site_of(cell), self.job(cell, Side::Client, task, &names), client)?;
        crew.ready()?;
        crew.go(active, monotonic_ns() + warm_ns)?;
        crew.finish(warm_ns + span_ns(task), &[0, active])?;
        Ok(Round::of(crew.report(active).into_iter(), crew.report(0).into_iter()))
    }

    /// Kills the server with a request in its hands, `times` times: from then to the client's error.
    ///
    /// # Errors
    /// What went wrong, and where; [`Error::Stuck`] where the client was never told.
    pub fn deaths(&self, cell: &Cell, task: Task, times: u32) -> Result<Round, Error> {
        let mut round = Round::default();
        for _ in 0..times {
            let Transport { client, server, names, keep: _keep } =
                cell.mechanism.open(&self.site)?;
            let mut crew = Crew::new(self.grace_ns);
            crew.start(&self.site_of(cell), self.job(cell, Side::Server, task, &names), server)?;
            crew.start(&self.site_of(cell), self.job(cell, Side::Client, task, &names), client)?;
            crew.ready()?;
            crew.go(0, monotonic_ns())?;
            crew.finish(0, &[0, 1])?;
            let died_at = crew.died_at(0).ok_or(Error::PeerGone)?;
            let told_at = crew.report(1).ok_or(Error::PeerGone)?.error_at_ns;
            round.samples.record(told_at.saturating_sub(died_at));
        }
        Ok(round)
    }

    /// Starts both sides, `times` times: from before the first is started to the client's first answer.
    ///
    /// # Errors
    /// What went wrong, and where.
    pub fn restarts(&self, cell: &Cell, times: u32) -> Result<Round, Error> {
        let mut round = Round::default();
        for _ in 0..times {
            let Transport { client, server, names, keep: _keep } =
                cell.mechanism.open(&self.site)?;
            let began_ns = monotonic_ns();
            let mut crew = Crew::new(self.grace_ns);
            crew.start(
                &self.site_of(cell),
                self.job(cell, Side::Server, Task::First, &names),
                server,
            )?;
            crew.start(
                &self.site_of(cell),
                self.job(cell, Side::Client, Task::First, &names),
                client,
            )?;
            crew.ready()?;
            crew.go(0, monotonic_ns())?;
            crew.finish(0, &[0, 1])?;
            let answered_ns = crew.report(1).ok_or(Error::PeerGone)?.error_at_ns;
            round.samples.record(answered_ns.saturating_sub(began_ns));
        }
        Ok(round)
    }

    /// First contacts and binds.
    ///
    /// # Errors
    /// What went wrong, and where.
    pub fn contacts(&self, cell: &Cell, times: u32) -> Result<Round, Error> {
        let Transport { client, server, names, keep: _keep } = cell.mechanism.open(&self.site)?;
        let task = Task::Contact { times };
        let mut crew = Crew::new(self.grace_ns);
        crew.start(&self.site_of(cell), self.job(cell, Side::Server, task, &names), server)?;
        crew.start(&self.site_of(cell), self.job(cell, Side::Client, task, &names), client)?;
        crew.ready()?;
        crew.go(0, monotonic_ns())?;
        crew.finish(0, &[0, 1])?;
        let report = crew.report(1).ok_or(Error::PeerGone)?;
        Ok(Round {
            samples: report.samples.clone(),
            binds: report.binds.clone(),
            ..Round::default()
        })
    }

    /// Where the peers of a cell come from.
    fn site_of(&self, cell: &Cell) -> Site {
        cell.mechanism.exe().map_or_else(|| self.site.clone(), |exe| Site { exe: exe.into() })
    }

    /// The job of one side of a cell.
    #[must_use]
    pub fn job(&self, cell: &Cell, side: Side, task: Task, names: &[String]) -> Job {
        Job {
            mechanism: cell.mechanism.name().into(),
            side,
            work: cell.work,
            wait: cell.wait,
            bytes: cell.mechanism.bytes(cell.work),
            cpu: self.cpus.of(cell.placement, side),
            fds: vec![],
            names: names.to_vec(),
            clock: self.clock,
            task,
        }
    }
}

fn span_ns(task: Task) -> u64 {
    match task {
        Task::Trips { span_ns, .. } => span_ns,
        _ => 0,
    }
}

impl Round {
    /// What these clients measured, with what their servers used.
    pub fn of<'a>(
        clients: impl Iterator<Item = &'a Report>,
        servers: impl Iterator<Item = &'a Report>,
    ) -> Self {
        let mut round = Self::default();
        let (mut trips, mut cpu_ns, mut switches, mut blocks) = (0, 0, 0, vec![]);
        for report in clients {
            round.samples.merge(&report.samples);
            round.per_s += report.window_trips as f64 * 1e9 / report.window_ns.max(1) as f64;
            blocks.extend_from_slice(&report.blocks_ns);
            round.trips += report.window_trips;
            trips += report.trips;
            cpu_ns += report.cpu_ns;
            switches += report.switches;
        }
        for report in servers {
            cpu_ns += report.cpu_ns;
            switches += report.switches;
        }
        let trips = trips.max(1) as f64;
        round.block_ns = median(blocks);
        round.cpu_ns_per_op = cpu_ns as f64 / trips;
        round.switches_per_op = switches as f64 / trips;
        round
    }
}
