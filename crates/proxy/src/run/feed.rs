//! A registry that a program writes: the first one, then each later one.
//!
//! The program is `m3-registry serve` ([its form](https://docs.rs/m3ipc-registry)). It has the
//! clients of LDAP and etcd, and the passwords for them; the proxy has a pipe. It starts before the
//! proxy gives up its rights, and ends with the proxy, at the end of its input.
//!
//! Its loss, or the loss of what it reads, stops claims and nothing else. Its keeper
//! ([`super::keeper`]) starts it again.

use super::keeper::{self, REGISTRY_MAX_BYTES};
use crate::log::say;
use m3ipc::runtime::check_program;
use m3ipc_fabric::{Owners, Registry, RegistryError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The time for the first registry.
const FIRST: Duration = Duration::from_secs(30);
/// The longest line, in bytes.
const LINE_MAX_BYTES: usize = 4096;

/// Why there is no registry.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The program is absent, or not to be trusted.
    #[error("the program of the registry, {program}, {reason}; give an absolute path to it")]
    Program {
        /// The program.
        program: PathBuf,
        /// The reason, to follow the name.
        reason: String,
    },
    /// The program cannot be started.
    #[error("cannot start {program}: {cause}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// The program ended first, and has said why.
    #[error("{0} has ended without a registry; its reason stands above")]
    Ended(PathBuf),
    /// No registry in time.
    #[error("{0} gave no registry within 30 s; run its command alone")]
    Silent(PathBuf),
    /// Another form.
    #[error("{0} writes something else than a registry; is it `m3-registry serve`?")]
    Form(PathBuf),
    /// The registry is wrong.
    #[error("{program}: {cause}")]
    Registry {
        /// The program.
        program: PathBuf,
        /// The reason.
        cause: RegistryError,
    },
}

/// Something that the program wrote.
#[derive(Debug)]
pub enum FeedEvent {
    /// A later registry.
    Registry(Box<Registry>),
    /// A line for the log.
    Note(String),
    /// The program has ended, or writes nonsense.
    Ended,
}

/// The program behind its keeper, and what it has written.
#[derive(Debug)]
pub struct Feed {
    program: PathBuf,
    state: RefCell<State>,
    output: ChildStdout,
    /// Its input closes with the proxy. The kernel reaps it: a proxy in its sandbox waits for no
    /// process.
    child: Child,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    owners: Owners,
    ended: bool,
}

impl Feed {
    /// Starts the program and its keeper as this user and group, and waits for the first registry.
    /// A name without a directory is beside this program.
    pub fn start(
        base: &Path,
        program: &Path,
        arguments: &[String],
        user: Option<(u32, u32)>,
    ) -> Result<(Self, Registry), FeedError> {
        let program = find(base, program)?;
        let failed = |cause| FeedError::Start { program: program.clone(), cause };
        let command = if keeper::is_offered() {
            let mut command = Command::new(std::env::current_exe().map_err(failed)?);
            command.arg(keeper::COMMAND).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        Self::start_by(command, program, base, arguments, user)
    }

    /// Starts a command, which is the program or its keeper.
    fn start_by(
        mut command: Command,
        program: PathBuf,
        base: &Path,
        arguments: &[String],
        user: Option<(u32, u32)>,
    ) -> Result<(Self, Registry), FeedError> {
        // Relative paths among its arguments begin at the configuration, too.
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        if !base.as_os_str().is_empty() {
            command.current_dir(base);
        }
        if let Some((uid, gid)) = user {
            // It needs no more rights than the proxy in its sandbox.
            command.uid(uid).gid(gid);
        }
        let failed = |cause| FeedError::Start { program: program.clone(), cause };
        let mut child = command.spawn().map_err(failed)?;
        let silent = || FeedError::Silent(program.clone());
        let output = child.stdout.take().ok_or_else(silent)?;
        let flags = fcntl_getfl(&output).and_then(|flags| {
            // The loop of the proxy never waits for this one pipe.
            fcntl_setfl(&output, flags | OFlags::NONBLOCK)
        });
        flags.map_err(|errno| failed(errno.into()))?;
        let state = RefCell::default();
        let feed = Self { program: program.clone(), state, output, child };
        let registry = feed.first()?;
        feed.accept(&registry);
        Ok((feed, registry))
    }

    fn first(&self) -> Result<Registry, FeedError> {
        let until = Instant::now() + FIRST;
        loop {
            // Notes without end are no registry.
            if Instant::now() >= until {
                return Err(FeedError::Silent(self.program.clone()));
            }
            match self.next()? {
                Some(FeedEvent::Registry(registry)) => return Ok(*registry),
                Some(FeedEvent::Note(note)) => say!("the registry", "registry: {note}"),
                Some(FeedEvent::Ended) => return Err(FeedError::Ended(self.program.clone())),
                None => {
                    let left = until.saturating_duration_since(Instant::now());
                    let left = Timespec::try_from(left).unwrap_or_default();
                    let mut wanted = [PollFd::new(&self.output, PollFlags::IN)];
                    if poll(&mut wanted, Some(&left)) == Ok(0) {
                        return Err(FeedError::Silent(self.program.clone()));
                    }
                }
            }
        }
    }

    /// The owners that are in force.
    pub fn owners(&self) -> Owners {
        self.state.borrow().owners.clone()
    }

    /// Puts the owners of a registry in force.
    pub fn accept(&self, registry: &Registry) {
        self.state.borrow_mut().owners = registry.owners.clone().growing();
    }

    /// The descriptor to poll.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.state.borrow().ended).then(|| self.output.as_fd())
    }

    /// All that is new.
    pub fn events(&self) -> Vec<FeedEvent> {
        let mut events = Vec::new();
        loop {
            match self.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return events,
                Err(error) => {
                    events.push(FeedEvent::Note(error.to_string()));
                    // A later registry may be right. Nothing follows another form.
                    if !matches!(error, FeedError::Registry { .. }) {
                        self.state.borrow_mut().ended = true;
                        events.push(FeedEvent::Ended);
                        return events;
                    }
                }
            }
        }
    }

    /// The next event, without waiting.
    fn next(&self) -> Result<Option<FeedEvent>, FeedError> {
        let mut state = self.state.borrow_mut();
        if state.ended {
            return Ok(None);
        }
        loop {
            if let Some(event) = self.parse(&mut state.bytes)? {
                return Ok(Some(event));
            }
            let mut more = [0; 4096];
            match rustix::io::read(&self.output, &mut more) {
                Ok(0) => {
                    state.ended = true;
                    return Ok(Some(FeedEvent::Ended));
                }
                Ok(count) => state.bytes.extend_from_slice(more.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_would_block) => return Ok(None),
            }
        }
    }

    fn parse(&self, bytes: &mut Vec<u8>) -> Result<Option<FeedEvent>, FeedError> {
        let form = || FeedError::Form(self.program.clone());
        let Some(end) = bytes.iter().take(LINE_MAX_BYTES).position(|byte| *byte == b'\n') else {
            return if bytes.len() < LINE_MAX_BYTES { Ok(None) } else { Err(form()) };
        };
        let line = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
        if let Some(note) = line.strip_prefix("note ") {
            bytes.drain(..=end);
            return Ok(Some(FeedEvent::Note(note.to_owned())));
        }
        let length = line.strip_prefix("registry ").and_then(|text| text.parse::<usize>().ok());
        let length = length.filter(|bytes| *bytes <= REGISTRY_MAX_BYTES).ok_or_else(form)?;
        let whole = end + 1 + length;
        if bytes.len() < whole {
            return Ok(None);
        }
        let text = bytes.drain(..whole).skip(end + 1).collect();
        let text = String::from_utf8(text).map_err(|_| form())?;
        let parsed = Registry::parse(&text);
        let failed = |cause| FeedError::Registry { program: self.program.clone(), cause };
        Ok(Some(FeedEvent::Registry(Box::new(parsed.map_err(failed)?))))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // The end of its input ends it; it is not waited for.
        drop(self.child.stdin.take());
    }
}

/// The file of a program.
fn find(base: &Path, program: &Path) -> Result<PathBuf, FeedError> {
    let path = if program.components().count() > 1 {
        base.join(program)
    } else {
        let own = std::env::current_exe().unwrap_or_default();
        own.parent().unwrap_or(Path::new("/")).join(program)
    };
    let path = path.canonicalize().unwrap_or(path);
    match check_program(&path) {
        Ok(()) => Ok(path),
        Err(reason) => Err(FeedError::Program { program: path, reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cluster = \"lab\"\n[[node]]\nid = 1\nname = \"alpha\"\n\
                        address = \"127.0.0.1:1\"\n";

    /// A feed of what a shell prints.
    fn feed(script: &str) -> Result<(Feed, Registry), FeedError> {
        let words = ["-c".to_owned(), script.to_owned()];
        let (base, program) = (Path::new("/"), PathBuf::from("/bin/sh"));
        Feed::start_by(Command::new(&program), program, base, &words, None)
    }

    fn all(feed: &Feed) -> Vec<FeedEvent> {
        let mut events = Vec::new();
        while feed.descriptor().is_some() {
            let _ = poll(&mut [PollFd::new(&feed.output, PollFlags::IN)], None);
            events.extend(feed.events());
        }
        events
    }

    #[test]
    fn the_first_registry_starts_the_proxy_and_later_ones_are_events() {
        let registry = format!("printf 'registry {}\\n%s' '{TEXT}'", TEXT.len());
        let (feed, first) = feed(&format!("echo note early; {registry}; {registry}; echo note x"))
            .expect("a registry");
        assert_eq!(first.cluster, "lab");
        let events = all(&feed);
        assert!(matches!(events[0], FeedEvent::Registry(_)), "{events:?}");
        assert!(matches!(&events[1], FeedEvent::Note(note) if note == "x"), "{events:?}");
        assert!(matches!(events[2], FeedEvent::Ended), "{events:?}");
    }

    #[test]
    fn a_program_without_a_registry_is_refused() {
        for (script, named) in [
            ("true", "has ended"),
            ("echo hello", "something else"),
            ("echo registry -1", "something else"),
            ("echo registry 99999999", "something else"),
            ("printf 'registry 3\\nabc'", "cannot be read"),
            ("head -c 10000 /dev/zero", "something else"),
        ] {
            let error = feed(script).expect_err(script).to_string();
            assert!(error.contains(named), "{script}: {error}");
        }
        let absent = Feed::start(Path::new(""), Path::new("no-such-program"), &[], None);
        assert!(matches!(absent, Err(FeedError::Program { .. })));
    }

    #[test]
    fn a_wrong_registry_is_noted_and_a_right_one_may_follow() {
        let registry = format!("printf 'registry {}\\n%s' '{TEXT}'", TEXT.len());
        let script = format!("{registry}; printf 'registry 3\\nabc'; {registry}");
        let (feed, _) = feed(&script).expect("a registry");
        let events = all(&feed);
        assert!(matches!(events[0], FeedEvent::Note(_)), "{events:?}");
        assert!(matches!(events[1], FeedEvent::Registry(_)), "{events:?}");
    }
}
