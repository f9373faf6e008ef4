//! A guard process: it removes objects that outlive the supervisor, even one ended by kill -9.
//!
//! ```text
//! supervisor ── standard input ──> guard: prepares the objects, answers with one line
//!      (its end of the pipe closes)   └ removes them
//! ```

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use m3ipc_report::schema::Wait;

use crate::clock::Clock;
use crate::error::Error;
use crate::job::{Job, Load, Role, Test};
use crate::processes::PEER_ARGUMENT;
use crate::subject::Site;

/// A guard process; the drop ends it and waits for it.
pub struct Guard(Child);

impl Guard {
    /// Starts the guard of a subject of the suite `ipc`.
    pub fn start(
        site: &Site,
        subject: &str,
        names: Vec<String>,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, Error> {
        let job = Job {
            subject: subject.into(),
            role: Role::Idle,
            wait: Wait::Block,
            load: Load::new(Test::Guard, 0),
            cpu: None,
            fds: vec![],
            names,
            clock: Clock::Monotonic,
        };
        let job = serde_json::to_string(&job).map_err(Error::json("a job"))?;
        // Its own process group: Ctrl-C must not end it before its work.
        let mut child = Command::new(&site.exe)
            .args([PEER_ARGUMENT, &job])
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Error::os("start a guard process"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(Error::os("read the answer of a guard process"))?;
        }
        let guard = Self(child);
        match line.trim() {
            "" => Ok(guard),
            why => Err(Error::Unavailable { why: why.into(), next: "see m3 doctor" }),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself now, and reports on standard error what it could not remove.
        let _ = self.0.wait();
    }
}
