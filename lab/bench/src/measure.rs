//! One cell in one round: opens the subject, runs its processes, collects the figures.

use m3ipc_report::schema::{Placement, Round, Series, Wait};

use crate::clock::{Clock, monotonic_ns};
use crate::cpus::Cpus;
use crate::error::Error;
use crate::job::{Job, Load, Report, Role, Test};
use crate::measured::Measured;
use crate::processes::Processes;
use crate::samples::Samples;
use crate::subject::{Finish, Opened, Site, Subject};

/// Time limit of the watchdog beyond the length of a measurement.
const GRACE_NS: u64 = 10_000_000_000;
/// More time for each client, which binds, and for each byte, which is made and touched.
const GRACE_OF_CLIENT_NS: u64 = 5_000_000;
const GRACE_OF_BYTE_NS: u64 = 20;

/// A subject with its work: one line of a table.
#[derive(Clone, Copy)]
pub struct Cell {
    /// The subject.
    pub subject: &'static dyn Subject,
    /// The work.
    pub load: Load,
    /// How its sides wait.
    pub wait: Wait,
    /// Where they run.
    pub placement: Placement,
    /// An experiment and its variant, if the cell is part of one.
    pub experiment: Option<(&'static str, &'static str)>,
}

impl Cell {
    /// The rounds with the names of the cell.
    pub fn series(&self, test: &str, rounds: Vec<Round>) -> Series {
        Series {
            test: test.into(),
            mechanism: self.subject.name().into(),
            family: self.subject.family(),
            placement: self.placement,
            wait: self.wait,
            bytes: self.load.bytes,
            pairs: self.load.count,
            rounds,
        }
    }

    /// The job of one process.
    pub fn job(&self, role: Role, cpu: Option<usize>, names: Vec<String>, clock: Clock) -> Job {
        let (subject, wait, load) = (self.subject.name().into(), self.wait, self.load);
        Job { subject, role, wait, load, cpu, fds: vec![], names, clock }
    }
}

/// The parameters that all measurements of a run share.
///
/// A run has one thread. Measured processes end with the thread that started them, and a second
/// thread would pass descriptors on that belong to one process alone.
pub struct Bench {
    /// The binary of the measured processes.
    pub site: Site,
    /// How to read time.
    pub clock: Clock,
    /// The CPUs.
    pub cpus: Cpus,
    /// Time limit of the watchdog beyond the length of a measurement.
    pub grace_ns: u64,
}

impl Bench {
    /// Reads the machine; the measured processes run this binary.
    pub fn new() -> Result<Self, Error> {
        Self::with_peers(std::env::current_exe().map_err(Error::os("find this binary"))?)
    }

    /// The same with another binary, whose `main` begins with [`crate::peer::if_asked`].
    pub fn with_peers(exe: std::path::PathBuf) -> Result<Self, Error> {
        let (clock, cpus) = (Clock::calibrate(), Cpus::find()?);
        Ok(Self { site: Site { exe }, clock, cpus, grace_ns: GRACE_NS })
    }

    /// Measures a cell in one round.
    pub fn measure(&self, cell: &Cell) -> Result<Measured, Error> {
        match cell.load.test {
            Test::Death { .. } => self.repeat(cell, |session| {
                let died_at = session.processes.died_at(0).ok_or(Error::PeerGone)?;
                Ok(session.report(1)?.ended_at_ns.saturating_sub(died_at))
            }),
            Test::Restart => self.repeat(cell, |session| {
                Ok(session.report(1)?.ended_at_ns.saturating_sub(session.began_ns))
            }),
            test => {
                let cpu = |_, role| self.cpus.of(cell.placement, role);
                let found = self.start(cell, &cpu)?.finish()?;
                let times_only = test == Test::Contact;
                Ok(if times_only {
                    Measured::of_times(found.round.samples, found.second)
                } else {
                    found
                })
            }
        }
    }

    /// Runs a pair as often as the limit says; `time` gives one sample of each.
    fn repeat(
        &self,
        cell: &Cell,
        time: impl Fn(&Session) -> Result<u64, Error>,
    ) -> Result<Measured, Error> {
        let mut samples = Samples::default();
        for _ in 0..cell.load.limit.unwrap_or(1) {
            let cpu = |_, role| self.cpus.of(cell.placement, role);
            let mut session = self.start(cell, &cpu)?;
            session.run()?;
            samples.record(time(&session)?);
        }
        Ok(Measured::of_times(samples.pairs(), vec![]))
    }

    /// Opens a cell and starts its processes, all of them ready, the last stage not released.
    ///
    /// `cpu` places each process by its number within its role.
    pub fn start(
        &self,
        cell: &Cell,
        cpu: &dyn Fn(usize, Role) -> Option<usize>,
    ) -> Result<Session, Error> {
        let Opened { parties, keep, environment, finish } =
            cell.subject.open(&self.site, &cell.load)?;
        let site =
            cell.subject.exe().map_or_else(|| self.site.clone(), |it| Site { exe: it.into() });
        let mut session = Session {
            processes: Processes::new(self.grace_ns + grace_ns(&cell.load)),
            began_ns: monotonic_ns(),
            names: parties.first().map(|party| party.inherited.names.clone()).unwrap_or_default(),
            roles: vec![],
            released: 0,
            load: cell.load,
            finish,
            _keep: keep,
        };
        let mut stage = 0;
        for party in parties {
            if party.stage != stage {
                stage = party.stage;
                session.release(monotonic_ns())?;
            }
            let number = session.roles.iter().filter(|role| **role == party.role).count();
            let cpu = cpu(number, party.role);
            let job = cell.job(party.role, cpu, party.inherited.names, self.clock);
            session.processes.start(&site, job, party.inherited.fds, &environment)?;
            session.roles.push(party.role);
        }
        session.processes.ready()?;
        Ok(session)
    }
}

/// Time limit for what this load adds to a start.
fn grace_ns(load: &Load) -> u64 {
    let bytes = u64::try_from(load.bytes).unwrap_or(0);
    u64::from(load.count) * GRACE_OF_CLIENT_NS + bytes * GRACE_OF_BYTE_NS
}

/// The started processes of a cell.
pub struct Session {
    processes: Processes,
    /// Time of the first start.
    began_ns: u64,
    /// The names that the first process got.
    pub names: Vec<String>,
    roles: Vec<Role>,
    /// The first process of the last stage.
    released: usize,
    load: Load,
    finish: Option<Finish>,
    _keep: Vec<Box<dyn std::any::Any>>,
}

impl Session {
    /// Waits until all processes are ready and releases those of the current stage.
    fn release(&mut self, start_ns: u64) -> Result<(), Error> {
        self.processes.ready()?;
        self.processes.go(self.released, start_ns)?;
        self.released = self.processes.count();
        Ok(())
    }

    /// Releases the last stage and waits for the end.
    pub fn run(&mut self) -> Result<(), Error> {
        let Load { warm_ns, span_ns, .. } = self.load;
        self.release(monotonic_ns() + warm_ns)?;
        let idle = |number: &usize| self.roles[*number] != Role::Idle;
        let needed: Vec<usize> = (0..self.roles.len()).filter(idle).collect();
        self.processes.finish(warm_ns + span_ns, &needed)
    }

    /// Runs to the end and collects the figures.
    pub fn finish(mut self) -> Result<Measured, Error> {
        self.run()?;
        let reports = |is: fn(Role) -> bool| {
            let numbers = self.roles.iter().enumerate().filter(move |(_, role)| is(**role));
            numbers.filter_map(|(number, _)| self.processes.report(number))
        };
        let mut found = Measured::of(
            reports(|role| role == Role::Client),
            reports(|role| matches!(role, Role::Server | Role::Source)),
        );
        if let Some(finish) = self.finish.take() {
            let all: Vec<&Report> =
                (0..self.roles.len()).filter_map(|number| self.processes.report(number)).collect();
            finish(&all, &mut found)?;
        }
        Ok(found)
    }

    fn report(&self, number: usize) -> Result<&Report, Error> {
        self.processes.report(number).ok_or(Error::PeerGone)
    }
}
