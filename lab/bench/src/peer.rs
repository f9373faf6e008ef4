//! The measured processes: the same binary, executed again with a job.
//!
//! ```text
//! supervisor                      measured process
//!   spawn (job, descriptors) ----> pins itself, opens its end
//!   <----------------------------- Ready
//!   start time ------------------> warms up until then, then measures
//!   <----------------------------- Report, Failed or Unavailable
//! ```
//! A new process and not a fork: it inherits no lock, no page table and no warm state of the
//! supervisor, and m3ipc binds a clean process. It dies with its supervisor.

use std::process::ExitCode;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::dialogue::{say, wait_for_eof};
use crate::error::Error;
use crate::job::{Job, Line, Report, Test};
use crate::processes::PEER_ARGUMENT;
use crate::run::Run;
use crate::subject::{Inherited, Subject};
use crate::{cpus, raw, subjects};

/// Runs a job if the arguments hold one; the first call of a `main` of a [`crate::subject::Site`].
#[must_use]
pub fn if_asked() -> Option<ExitCode> {
    if_asked_of(&[])
}

/// The same for a binary with further subjects.
#[must_use]
pub fn if_asked_of(further: &[&'static dyn Subject]) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != PEER_ARGUMENT {
        return None;
    }
    let text = arguments.next().unwrap_or_default();
    let job = serde_json::from_str(&text.to_string_lossy()).map_err(Error::json("a job"));
    let line = match job.and_then(|job| run(job, further)) {
        Ok(Some(report)) => Line::Report(Box::new(report)),
        Ok(None) => return Some(ExitCode::SUCCESS),
        Err(Error::Unavailable { why, next }) => Line::Unavailable(format!("{why}; {next}")),
        Err(Error::PeerGone) => Line::Gone,
        Err(error) => Line::Failed(error.to_string()),
    };
    let failed = !matches!(line, Line::Report(_));
    // A failed write means that the supervisor has ended.
    let told = say(&line).is_ok();
    Some(ExitCode::from(u8::from(failed || !told)))
}

fn run(job: Job, further: &[&'static dyn Subject]) -> Result<Option<Report>, Error> {
    let own = further.iter().copied().find(|subject| subject.name() == job.subject);
    let known = own.or_else(|| subjects::find(job.load.test.suite(), &job.subject));
    let subject =
        known.ok_or_else(|| Error::Usage(format!("there is no mechanism {:?}", job.subject)))?;
    if job.load.test == Test::Guard {
        return guard(subject, &job).map(|()| None);
    }
    die_with_the_supervisor()?;
    if let Some(cpu) = job.cpu {
        cpus::pin(cpu)?;
    }
    let fds = job.fds.iter().map(|&fd| raw::inherited(fd)).collect::<Result<_, _>>()?;
    let inherited = Inherited { fds, names: job.names.clone() };
    subject.run(&Run::new(job), inherited).map(Some)
}

/// Answers with an empty line, or with the reason why the objects cannot be prepared.
fn guard(subject: &dyn Subject, job: &Job) -> Result<(), Error> {
    match subject.guard(&job.names) {
        Ok(cleanup) => {
            println!();
            wait_for_eof()?;
            cleanup()
        }
        Err(error) => {
            println!("{}", error.to_string().replace('\n', " "));
            Ok(())
        }
    }
}

fn die_with_the_supervisor() -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::os("prctl PR_SET_PDEATHSIG"))?;
    // The supervisor may have died before that call. The orphan belongs to process 1, or to a
    // subreaper; then the first line fails.
    if getppid().is_some_and(|parent| parent.is_init()) {
        return Err(Error::PeerGone);
    }
    Ok(())
}
