//! Starts peers, lets them go at one moment, collects what they say, and ends
//! them, in time or by the watchdog. It sleeps in poll(2) while they measure.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Job, Line, Report};
use crate::mechanism::Site;
use crate::peer::PEER_ARGUMENT;

/// How long one waits for a better reason after a peer said that the other side has gone.
const REASON_NS: u64 = 1_000_000_000;

/// The peers of one measurement. Dropping it kills those that still live.
pub struct Crew {
    members: Vec<Member>,
    grace_ns: u64,
}

struct Member {
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
    /// Whether nothing more will be said.
    fn is_over(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Killed | Self::Gone)
    }
}

impl Crew {
    /// No peers yet; the watchdog waits for `grace_ns` beyond the time a measurement should take.
    #[must_use]
    pub const fn new(grace_ns: u64) -> Self {
        Self { members: vec![], grace_ns }
    }

    /// Starts one peer with its job and the descriptors that it alone inherits.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn start(&mut self, site: &Site, job: Job, fds: Vec<OwnedFd>) -> Result<(), Error> {
        self.start_with(site, job, fds, &[])
    }

    /// The same, with variables of its environment.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn start_with(
        &mut self,
        site: &Site,
        mut job: Job,
        fds: Vec<OwnedFd>,
        environment: &[(OsString, OsString)],
    ) -> Result<(), Error> {
        job.fds = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let text = serde_json::to_string(&job).map_err(Error::json("a job"))?;
        let mut command = Command::new(&site.exe);
        command.args([PEER_ARGUMENT, &text]).envs(environment.iter().cloned());
        self.spawn(command, format!("the {:?} of {}", job.side, job.mechanism).to_lowercase(), fds)
    }

    /// Starts a peer by a command of the caller's, which ends in a peer with this name.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn spawn(
        &mut self,
        mut command: Command,
        who: String,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Error> {
        // Whoever else starts a process just now would hand them on too, so a run has one thread.
        for fd in &fds {
            fcntl_setfd(fd, FdFlags::empty())
                .map_err(Error::os("let a descriptor be inherited"))?;
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start a peer process"))?;
        let output = child.stdout.take().ok_or(Error::PeerGone)?;
        let who = format!("{who} (pid {})", child.id());
        self.members.push(Member {
            who,
            child,
            output,
            unread: vec![],
            stage: Stage::Starting,
            dies_at: None,
        });
        Ok(())
    }

    /// Waits until every peer stands at the start.
    ///
    /// # Errors
    /// What a peer said, how it ended, or [`Error::Stuck`].
    pub fn ready(&mut self) -> Result<(), Error> {
        self.until(0, |member| !matches!(member.stage, Stage::Starting))
    }

    /// Lets the peers from this one on go (in their order of starting); their windows open at `start_ns`.
    ///
    /// # Errors
    /// Where one has gone.
    pub fn go(&mut self, from: usize, start_ns: u64) -> Result<(), Error> {
        for member in &mut self.members[from..] {
            let input = member.child.stdin.as_mut().ok_or(Error::PeerGone)?;
            input
                .write_all(format!("{start_ns}\n").as_bytes())
                .map_err(Error::os("let a peer go"))?;
        }
        Ok(())
    }

    /// Waits for the ends of the peers that `needed` names by number; the measurement should take `span_ns`.
    ///
    /// # Errors
    /// What a peer said, how it ended, or [`Error::Stuck`].
    pub fn finish(&mut self, span_ns: u64, needed: &[usize]) -> Result<(), Error> {
        let whos: Vec<String> =
            needed.iter().map(|&number| self.members[number].who.clone()).collect();
        self.until(span_ns, |member| {
            matches!(member.stage, Stage::Done(_) | Stage::Killed) || !whos.contains(&member.who)
        })
    }

    /// Lets a peer that keeps still come to its end.
    pub fn let_end(&mut self, number: usize) {
        if let Some(member) = self.members.get_mut(number) {
            drop(member.child.stdin.take());
        }
    }

    /// The process id of this peer.
    #[must_use]
    pub fn pid(&self, number: usize) -> Option<u32> {
        self.members.get(number).map(|member| member.child.id())
    }

    /// How many peers were started.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The report of this peer (in order of starting).
    #[must_use]
    pub fn report(&self, number: usize) -> Option<&Report> {
        match &self.members.get(number)?.stage {
            Stage::Done(report) => Some(report),
            _ => None,
        }
    }

    /// When this peer said it would die.
    #[must_use]
    pub fn died_at(&self, number: usize) -> Option<u64> {
        self.members.get(number)?.dies_at
    }

    fn until(&mut self, span_ns: u64, settled: impl Fn(&Member) -> bool) -> Result<(), Error> {
        let start = monotonic_ns();
        let mut deadline = start + span_ns + self.grace_ns;
        loop {
            let gone = self.members.iter().find(|member| matches!(member.stage, Stage::Gone));
            let waiting: Vec<&Member> =
                self.members.iter().filter(|member| !settled(member)).collect();
            if waiting.is_empty() && gone.is_none() {
                return Ok(());
            }
            let mut left_ns = deadline.saturating_sub(monotonic_ns());
            if let Some(gone) = gone {
                if left_ns == 0 || waiting.iter().all(|member| member.stage.is_over()) {
                    return Err(Error::Peer {
                        who: gone.who.clone(),
                        said: Error::PeerGone.to_string(),
                    });
                }
                deadline = deadline.min(monotonic_ns() + REASON_NS.min(left_ns));
                left_ns = left_ns.min(REASON_NS);
            }
            if left_ns == 0 {
                let names: Vec<&str> = waiting.iter().map(|member| member.who.as_str()).collect();
                return Err(Error::Stuck {
                    after_s: (monotonic_ns() - start) / 1_000_000_000,
                    waiting: names.join(", "),
                });
            }
            self.listen(left_ns)?;
        }
    }

    /// Waits for a line of anybody and takes it in.
    fn listen(&mut self, left_ns: u64) -> Result<(), Error> {
        let open: Vec<usize> = (0..self.members.len())
            .filter(|&number| !self.members[number].stage.is_over())
            .collect();
        let mut polled: Vec<PollFd<'_>> = open
            .iter()
            .map(|&number| {
                PollFd::from_borrowed_fd(self.members[number].output.as_fd(), PollFlags::IN)
            })
            .collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(left_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left_ns % 1_000_000_000).unwrap_or(0),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::os("poll for peers")(error)),
        }
        let speaking: Vec<usize> = open
            .iter()
            .zip(&polled)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(&number, _)| number)
            .collect();
        speaking.into_iter().try_for_each(|number| self.members[number].hear())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.child.stdin.take());
            if !matches!(member.stage, Stage::Done(_)) {
                // Only fails for one that has ended already.
                let _ = member.child.kill();
            }
        }
        for member in &mut self.members {
            let _ = member.child.wait();
        }
    }
}

impl Member {
    /// Reads what there is; every whole line counts.
    fn hear(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 16_384];
        let length = match rustix::io::read(&self.output, &mut buffer) {
            Ok(0) => return self.has_ended(),
            Ok(length) => length,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(Error::os("read what a peer says")(error)),
        };
        self.unread.extend_from_slice(&buffer[..length]);
        while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            match serde_json::from_slice(&line).map_err(Error::json("what a peer says"))? {
                Line::Ready => self.stage = Stage::Ready,
                Line::DiesAt(time) => self.dies_at = Some(time),
                Line::Report(report) => self.stage = Stage::Done(report),
                Line::Gone => self.stage = Stage::Gone,
                Line::Failed(said) => return Err(Error::Peer { who: self.who.clone(), said }),
                Line::Unavailable(why) => {
                    return Err(Error::Unavailable {
                        why,
                        next: "the other mechanisms are not affected",
                    });
                }
            }
        }
        Ok(())
    }

    /// End of file without a report: right for one that had said it would die, wrong for all others.
    fn has_ended(&mut self) -> Result<(), Error> {
        let status = self.child.wait().map_err(Error::os("wait for a peer"))?;
        if self.dies_at.is_some() {
            self.stage = Stage::Killed;
            return Ok(());
        }
        Err(Error::Ended { who: self.who.clone(), status: status.to_string() })
    }
}
