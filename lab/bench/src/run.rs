//! A job in a measured process: the dialogue with the supervisor, and the loops of both sides.

mod client;
mod server;

use std::io::BufRead;

use crate::dialogue::{say, wait_for_eof};
use crate::ends::{ClientEnd, ServerEnd};
use crate::error::Error;
use crate::job::{Job, Line, Load, Report, Role, Test};

/// A job that has begun.
pub struct Run {
    job: Job,
}

impl Run {
    /// The run of this job.
    pub const fn new(job: Job) -> Self {
        Self { job }
    }

    /// The job.
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// The work.
    pub const fn load(&self) -> &Load {
        &self.job.load
    }

    /// Whether this process is the client.
    pub fn is_client(&self) -> bool {
        self.job.role == Role::Client
    }

    /// Runs the role of this process over an end that knows both.
    pub fn exchange(&self, end: impl ClientEnd + ServerEnd) -> Result<Report, Error> {
        match self.job.role {
            Role::Client => self.drive(end),
            Role::Server => self.serve(end),
            Role::Source | Role::Idle => Err(self.refused()),
        }
    }

    /// Runs the client over this end until the job is done.
    pub fn drive(&self, end: impl ClientEnd) -> Result<Report, Error> {
        if matches!(self.load().test, Test::Contact | Test::Straight | Test::Mesh) {
            return Err(self.refused());
        }
        let start_ns = self.at_the_start()?;
        match self.load().test {
            Test::Death { .. } => client::await_death(end),
            Test::Restart => client::first(end),
            _ => client::drive(&self.job, end, start_ns),
        }
    }

    /// Runs the server over this end until the stop message.
    pub fn serve(&self, end: impl ServerEnd) -> Result<Report, Error> {
        if let Test::Death { own_mb } = self.load().test {
            let own = server::own_memory(own_mb);
            self.at_the_start()?;
            return server::die_with_request(end, &own);
        }
        self.at_the_start()?;
        server::serve(self.load().bytes, self.load().test == Test::Clients, end)
    }

    /// The error of a subject that does not do this work.
    pub fn refused(&self) -> Error {
        Error::Usage(format!("{} has no such measurement", self.job.subject))
    }

    /// Reports that this process is ready and waits for the start; returns the window's begin.
    pub fn at_the_start(&self) -> Result<u64, Error> {
        self.ready()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(Error::os("wait for the start"))?;
        line.trim().parse().map_err(|_| Error::PeerGone)
    }

    /// Reports that this process is ready and goes on at once.
    pub fn ready(&self) -> Result<(), Error> {
        say(&Line::Ready)
    }

    /// Stays idle until the supervisor closes the standard input.
    pub fn until_the_end(&self) -> Result<Report, Error> {
        wait_for_eof()?;
        Ok(Report::default())
    }
}
