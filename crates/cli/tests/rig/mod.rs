//! A place of its own for each test, and programs that cannot hang or stay.
// Not every file of tests needs all of it; a test that cannot begin may panic.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A runtime directory, and the programs that were started there.
pub struct Rig {
    base: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|cause| panic!("{cause}: {self:?}"))
    }
}

/// A program that runs; killed where the test forgets it.
pub struct Running {
    child: Option<Child>,
    out: PathBuf,
    err: PathBuf,
}

impl Rig {
    pub fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("m3-cli-{}-{number}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        Self { base }
    }

    pub fn with_vm(name: &str) -> Self {
        let rig = Self::new();
        let made = rig.run(&["vm", "create", name]);
        assert_eq!(made.code, 0, "{}", made.err);
        rig
    }

    /// Where files of the test may lie.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The runtime directory, made by the daemon.
    pub fn directory(&self) -> PathBuf {
        self.base.join("node")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_m3"));
        command.args(words).env("M3_RUNTIME_DIR", self.directory()).env_remove("M3_DAEMON");
        command
    }

    fn begin(&self, mut command: Command, input: Stdio) -> Running {
        // Files, not pipes: whoever stays behind with an open output hangs nobody.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (out, err) =
            (self.base.join(format!("out{number}")), self.base.join(format!("err{number}")));
        let file = |path: &Path| Stdio::from(std::fs::File::create(path).unwrap());
        let child = command.stdin(input).stdout(file(&out)).stderr(file(&err)).spawn().unwrap();
        Running { child: Some(child), out, err }
    }

    /// Starts a program.
    pub fn start(&self, words: &[&str]) -> Running {
        self.begin(self.command(words), Stdio::null())
    }

    /// Runs a program to its end.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.start(words).wait()
    }

    /// The same with these variables.
    pub fn run_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Ended {
        let mut command = self.command(words);
        command.envs(variables.iter().copied());
        self.begin(command, Stdio::null()).wait()
    }

    /// The same with this on standard input.
    pub fn run_fed(&self, words: &[&str], input: &str) -> Ended {
        let mut running = self.begin(self.command(words), Stdio::piped());
        let mut pipe = running.child.as_mut().unwrap().stdin.take().unwrap();
        pipe.write_all(input.as_bytes()).unwrap();
        drop(pipe);
        running.wait()
    }

    /// The same with a standard output that nobody reads.
    pub fn run_closed(&self, words: &[&str]) -> Ended {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let err = self.base.join("closed");
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(writer).stderr(std::fs::File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        Running { child: Some(child), out: PathBuf::from("/dev/null"), err }.wait()
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < LIMIT, "it never came that {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.directory().exists() {
            let down = self.run(&["down"]);
            if !std::thread::panicking() {
                assert_eq!(down.code, 0, "{}", down.err);
                assert!(!self.directory().exists(), "the runtime directory is left");
            }
        }
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Kills it with -9.
    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// How it ended, if it has; itself, if not.
    pub fn if_ended(mut self) -> Result<Ended, Self> {
        match self.child.as_mut().unwrap().try_wait().unwrap() {
            Some(_) => Ok(self.wait()),
            None => Err(self),
        }
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Ended {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                let read = |path: &Path| {
                    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
                };
                return Ended {
                    code: status.code().unwrap_or(-1),
                    out: read(&self.out),
                    err: read(&self.err),
                };
            }
            assert!(begun.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
