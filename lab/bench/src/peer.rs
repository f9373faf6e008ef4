//! The measured processes: the same binary, executed again with a job.
//!
//! ```text
//! supervisor                      peer
//!   spawn (job, descriptors) ----> pins itself, opens its end
//!   <----------------------------- Ready
//!   start time ------------------> warms up until then, then measures
//!   <----------------------------- Report, Failed or Unavailable
//! ```
//! A new process and not a fork: no lock, no page table and no warmed-up state
//! of the supervisor comes along, and what needs a clean process (m3ipc binds
//! one) gets it. A peer dies with its supervisor.

mod client;
mod server;

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::error::Error;
use crate::job::{Job, Line, Report, Side, Task};
use crate::mechanism::{self, ClientEnd, Inherited, Mechanism, ServerEnd};
use crate::{area, copy, phases, place, raw, sock};

/// The argument that makes a process a peer.
pub const PEER_ARGUMENT: &str = "__peer";

/// A job that has begun, on the side of its peer.
pub struct Run {
    job: Job,
}

impl Run {
    /// What is to be done.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// Size of the payload in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.job.bytes
    }

    /// Is the client over this end, until the job is done.
    ///
    /// # Errors
    /// Where the transport fails or a payload is wrong.
    pub fn drive(&self, end: impl ClientEnd) -> Result<Report, Error> {
        let start_ns = self.at_the_start()?;
        if matches!(self.job.task, Task::Death { .. }) {
            return client::await_death(end);
        }
        if matches!(self.job.task, Task::First) {
            return client::first(end);
        }
        client::drive(&self.job, end, start_ns)
    }

    /// Is the server over this end, until the stop message.
    ///
    /// # Errors
    /// Where the transport fails or a payload is wrong.
    pub fn serve(&self, end: impl ServerEnd) -> Result<Report, Error> {
        if let Task::Death { own_mb } = self.job.task {
            let own = server::own_memory(own_mb);
            self.at_the_start()?;
            return server::die_with_request(end, &own);
        }
        self.at_the_start()?;
        server::serve(self.job.bytes, end)
    }

    /// Says that this peer is ready and waits for the start; gives the time when the window opens.
    /// Only for those who neither `drive` nor `serve`.
    ///
    /// # Errors
    /// Where the supervisor has gone.
    pub fn at_the_start(&self) -> Result<u64, Error> {
        say(&Line::Ready)?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(Error::os("wait for the start"))?;
        line.trim().parse().map_err(|_| Error::PeerGone)
    }

    /// Says that this peer is ready and goes on at once: for one that must be reachable before the start.
    ///
    /// # Errors
    /// Where the supervisor has gone.
    pub fn ready(&self) -> Result<(), Error> {
        say(&Line::Ready)
    }

    /// Keeps still until the supervisor lets go. For idle clients.
    ///
    /// # Errors
    /// Where standard input cannot be read.
    pub fn until_the_end(&self) -> Result<Report, Error> {
        wait_for_eof()?;
        Ok(Report::default())
    }
}

/// Writes one line to the supervisor.
fn say(line: &Line) -> Result<(), Error> {
    let mut text = serde_json::to_string(line).map_err(Error::json("a line to the supervisor"))?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::os("write to the supervisor"))
}

fn wait_for_eof() -> Result<(), Error> {
    std::io::stdin().lock().read_to_end(&mut Vec::new()).map_err(Error::os("wait for the end"))?;
    Ok(())
}

/// Runs this process as a peer if its arguments say so; for the first line of every `main`
/// whose binary is a [`crate::mechanism::Site`].
#[must_use]
pub fn if_asked() -> Option<ExitCode> {
    if_asked_of(&[])
}

/// The same for a binary that has mechanisms of its own beside those of this crate.
#[must_use]
pub fn if_asked_of(further: &[&'static dyn Mechanism]) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != PEER_ARGUMENT {
        return None;
    }
    let job = arguments.next().unwrap_or_default();
    let line = match serde_json::from_str(&job.to_string_lossy())
        .map_err(Error::json("a job"))
        .and_then(|job| run(job, further))
    {
        Ok(Some(report)) => Line::Report(Box::new(report)),
        Ok(None) => return Some(ExitCode::SUCCESS),
        Err(Error::Unavailable { why, next }) => Line::Unavailable(format!("{why}; {next}")),
        Err(Error::PeerGone) => Line::Gone,
        Err(error) => Line::Failed(error.to_string()),
    };
    let failed = !matches!(line, Line::Report(_));
    // Where even this fails the supervisor has gone, and nobody is left to be told.
    let told = say(&line).is_ok();
    Some(ExitCode::from(u8::from(failed || !told)))
}

fn run(job: Job, further: &[&'static dyn Mechanism]) -> Result<Option<Report>, Error> {
    if matches!(job.task, Task::Janitor) {
        wait_for_eof()?;
        job.names.iter().try_for_each(|name| mechanism::remove_queue(name))?;
        return Ok(None);
    }
    if matches!(job.task, Task::Keeper) {
        let ours = mechanism::by_name(&job.mechanism).and_then(|mechanism| mechanism.ours());
        let inherited = Inherited { fds: vec![], names: job.names };
        return ours.map_or(Ok(()), |ours| ours.keep(&inherited)).map(|()| None);
    }
    die_with_the_supervisor()?;
    if let Some(cpu) = job.cpu {
        place::pin(cpu)?;
    }
    let fds = job.fds.iter().map(|&fd| raw::inherited(fd)).collect::<Result<_, _>>()?;
    let inherited = Inherited { fds, names: job.names.clone() };
    if let Task::Copy(shape) = job.task {
        return copy::peer(&Run { job }, inherited, &shape).map(Some);
    }
    if let Task::Area(shape) = job.task {
        return area::peer(&Run { job }, inherited, &shape).map(Some);
    }
    if let Task::Sock(shape) = job.task {
        return sock::peer(&Run { job }, inherited, &shape).map(Some);
    }
    if let Task::Phases(shape) = job.task {
        return phases::peer(&Run { job }, inherited, &shape).map(Some);
    }
    let mechanism = further
        .iter()
        .copied()
        .find(|mechanism| mechanism.name() == job.mechanism)
        .or_else(|| mechanism::by_name(&job.mechanism))
        .ok_or_else(|| Error::Usage(format!("there is no mechanism {:?}", job.mechanism)))?;
    let (side, task) = (job.side, job.task);
    let run = &Run { job };
    let only_ours = || Error::Usage(format!("{} has no such measurement", mechanism.name()));
    match (task, side) {
        (Task::Idle { clients }, _) => {
            mechanism.ours().ok_or_else(only_ours)?.idle(inherited, run, clients)
        }
        (Task::Mesh { endpoints }, _) => {
            mechanism.ours().ok_or_else(only_ours)?.mesh(inherited, run, endpoints)
        }
        (Task::Contact { times }, Side::Client) => {
            mechanism.ours().ok_or_else(only_ours)?.contact(inherited, run, times)
        }
        (Task::Straight { trips }, _) => {
            mechanism.ours().ok_or_else(only_ours)?.straight(inherited, run, trips)
        }
        (_, Side::Client) => mechanism.client(inherited, run),
        (_, _) => mechanism.server(inherited, run),
    }
    .map(Some)
}

fn die_with_the_supervisor() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::os("prctl PR_SET_PDEATHSIG"))?;
    // It may have died before that call; its orphan then belongs to process 1, or to a subreaper,
    // which is noticed at the first line that cannot be written.
    if getppid().is_some_and(|parent| parent.is_init()) {
        return Err(Error::PeerGone);
    }
    Ok(())
}
