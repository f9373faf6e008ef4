//! The processes of one measurement: start, release, reports, end or watchdog.
//!
//! The supervisor sleeps in poll(2) while they measure.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Job, Line, Report};
use crate::subject::Site;

/// The argument that turns a process into a measured one.
pub const PEER_ARGUMENT: &str = "__peer";
/// Time for a better reason after one process reported that the other side has ended.
const REASON_NS: u64 = 1_000_000_000;

/// The processes of one measurement. Processes that still live at the drop are killed.
pub struct Processes {
    all: Vec<Process>,
    grace_ns: u64,
}

struct Process {
    who: String,
    child: Child,
    output: ChildStdout,
    unread: Vec<u8>,
    stage: Stage,
    dies_at: Option<u64>,
}

#[derive(Debug)]
enum Stage {
    Starting,
    Ready,
    Done(Box<Report>),
    Killed,
    Gone,
}

impl Stage {
    const fn is_over(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Killed | Self::Gone)
    }
}

impl Processes {
    /// No process yet. The watchdog waits `grace_ns` beyond the length of a measurement.
    pub const fn new(grace_ns: u64) -> Self {
        Self { all: vec![], grace_ns }
    }

    /// Starts a process with its job, its own descriptors, and environment variables.
    pub fn start(
        &mut self,
        site: &Site,
        job: Job,
        fds: Vec<OwnedFd>,
        environment: &[(OsString, OsString)],
    ) -> Result<(), Error> {
        let mut command = Command::new(&site.exe);
        command.envs(environment.iter().cloned());
        let who = format!("the {:?} of {}", job.role, job.subject).to_lowercase();
        self.spawn(command, who, job, fds)
    }

    /// Starts a process by a prepared command, which gets the job as its last arguments.
    pub fn spawn(
        &mut self,
        mut command: Command,
        who: String,
        mut job: Job,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Error> {
        job.fds = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let text = serde_json::to_string(&job).map_err(Error::json("a job"))?;
        // A second thread that starts a process now would pass them on, so a run has one thread.
        for fd in &fds {
            fcntl_setfd(fd, FdFlags::empty()).map_err(Error::os("pass a descriptor on"))?;
        }
        let mut child = command
            .args([PEER_ARGUMENT, &text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start a measured process"))?;
        let output = child.stdout.take().ok_or(Error::PeerGone)?;
        let who = format!("{who} (pid {})", child.id());
        let (unread, stage, dies_at) = (vec![], Stage::Starting, None);
        self.all.push(Process { who, child, output, unread, stage, dies_at });
        Ok(())
    }

    /// Waits until every process is ready.
    pub fn ready(&mut self) -> Result<(), Error> {
        self.until(0, |_, process| !matches!(process.stage, Stage::Starting))
    }

    /// Releases the processes from this number on; their windows open at `start_ns`.
    pub fn go(&mut self, from: usize, start_ns: u64) -> Result<(), Error> {
        for process in &mut self.all[from..] {
            let input = process.child.stdin.as_mut().ok_or(Error::PeerGone)?;
            let line = format!("{start_ns}\n");
            input.write_all(line.as_bytes()).map_err(Error::os("release a process"))?;
        }
        Ok(())
    }

    /// Waits for the ends of these processes; the measurement should take `span_ns`.
    pub fn finish(&mut self, span_ns: u64, needed: &[usize]) -> Result<(), Error> {
        self.until(span_ns, |number, process| {
            matches!(process.stage, Stage::Done(_) | Stage::Killed) || !needed.contains(&number)
        })
    }

    /// Lets an idle process end.
    pub fn let_end(&mut self, number: usize) {
        if let Some(process) = self.all.get_mut(number) {
            drop(process.child.stdin.take());
        }
    }

    /// The process id.
    pub fn pid(&self, number: usize) -> Option<u32> {
        self.all.get(number).map(|process| process.child.id())
    }

    /// The number of processes.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The report of a process, in the order of their start.
    pub fn report(&self, number: usize) -> Option<&Report> {
        match &self.all.get(number)?.stage {
            Stage::Done(report) => Some(report),
            _ => None,
        }
    }

    /// The announced time of death of a process.
    pub fn died_at(&self, number: usize) -> Option<u64> {
        self.all.get(number)?.dies_at
    }

    fn until(
        &mut self,
        span_ns: u64,
        is_settled: impl Fn(usize, &Process) -> bool,
    ) -> Result<(), Error> {
        let start = monotonic_ns();
        let mut deadline = start + span_ns + self.grace_ns;
        loop {
            let gone = self.all.iter().find(|process| matches!(process.stage, Stage::Gone));
            let unsettled = self.all.iter().enumerate().filter(|(at, it)| !is_settled(*at, it));
            let waiting: Vec<&Process> = unsettled.map(|(_, process)| process).collect();
            let mut left_ns = deadline.saturating_sub(monotonic_ns());
            if let Some(gone) = gone {
                if left_ns == 0 || waiting.iter().all(|process| process.stage.is_over()) {
                    let (who, said) = (gone.who.clone(), Error::PeerGone.to_string());
                    return Err(Error::Peer { who, said });
                }
                left_ns = left_ns.min(REASON_NS);
                deadline = deadline.min(monotonic_ns() + left_ns);
            } else if waiting.is_empty() {
                return Ok(());
            }
            if left_ns == 0 {
                let names: Vec<&str> = waiting.iter().map(|process| process.who.as_str()).collect();
                let after_s = (monotonic_ns() - start) / 1_000_000_000;
                return Err(Error::Stuck { after_s, waiting: names.join(", ") });
            }
            self.listen(left_ns)?;
        }
    }

    /// Waits for lines of any process and takes them in.
    fn listen(&mut self, left_ns: u64) -> Result<(), Error> {
        let mut open: Vec<&mut Process> =
            self.all.iter_mut().filter(|process| !process.stage.is_over()).collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(left_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left_ns % 1_000_000_000).unwrap_or(0),
        };
        let readable: Vec<bool> = {
            let fds = open.iter().map(|process| process.output.as_fd());
            let mut polled: Vec<PollFd<'_>> =
                fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("poll for processes")(error)),
            }
            polled.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let mut speaking = open.iter_mut().zip(readable).filter(|(_, readable)| *readable);
        speaking.try_for_each(|(process, _)| process.read())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.all {
            drop(process.child.stdin.take());
            if !matches!(process.stage, Stage::Done(_)) {
                // Fails only for a process that has ended already.
                let _ = process.child.kill();
            }
        }
        for process in &mut self.all {
            let _ = process.child.wait();
        }
    }
}

impl Process {
    /// Reads the available text and takes in every whole line.
    fn read(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 16_384];
        let length = match rustix::io::read(&self.output, &mut buffer) {
            Ok(0) => return self.has_ended(),
            Ok(length) => length,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(Error::os("read a line of a process")(error)),
        };
        self.unread.extend_from_slice(&buffer[..length]);
        while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.take(serde_json::from_slice(&line).map_err(Error::json("a line of a process"))?)?;
        }
        Ok(())
    }

    fn take(&mut self, line: Line) -> Result<(), Error> {
        match line {
            Line::Ready => self.stage = Stage::Ready,
            Line::DiesAt(time) => self.dies_at = Some(time),
            Line::Report(report) => self.stage = Stage::Done(report),
            Line::Gone => self.stage = Stage::Gone,
            Line::Failed(said) => return Err(Error::Peer { who: self.who.clone(), said }),
            Line::Unavailable(why) => {
                let next = "the other mechanisms are not affected";
                return Err(Error::Unavailable { why, next });
            }
        }
        Ok(())
    }

    /// An end of file without a report is right only after an announced death.
    fn has_ended(&mut self) -> Result<(), Error> {
        let status = self.child.wait().map_err(Error::os("wait for a process"))?;
        if self.dies_at.is_some() {
            self.stage = Stage::Killed;
            return Ok(());
        }
        Err(Error::Ended { who: self.who.clone(), status: status.to_string() })
    }
}
