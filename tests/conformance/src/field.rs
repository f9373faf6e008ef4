//! A node as users meet it: a daemon under a user of its own choice, system-wide or not.

use crate::{program, watchdog};
use m3ipc::Node;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Users that exist nowhere.
pub const USERS: [u32; 6] = [61_001, 61_002, 61_003, 61_004, 61_005, 61_006];

/// Whether this test may become other users; else it says that it skips.
#[must_use]
pub fn is_root(rung: &str) -> bool {
    let root = m3ipc_sys::user_id() == 0;
    if !root {
        println!("SKIP {rung}: other users need root");
    }
    root
}

/// A process of the hostile program, talked to by lines.
#[derive(Debug)]
pub struct Role {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Role {
    /// Starts a role as a user (0: as oneself).
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start(user: u32, role: &str, arguments: &[&str]) -> Self {
        Self::start_by(&[], user, role, arguments)
    }

    /// The same through another program that becomes it (`nsenter ...`).
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start_by(starter: &[&str], user: u32, role: &str, arguments: &[&str]) -> Self {
        let ours = program("m3-tests-hostile");
        let mut words = starter.iter().map(std::ffi::OsStr::new).chain([ours.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).arg(user.to_string()).arg(role).args(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the hostile program is built");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, input, output }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next line it says; empty where it has ended.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        let _ = self.output.read_line(&mut line);
        line.trim().to_owned()
    }

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}");
        }
    }

    /// Tells it a line and hears one.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// Ends its input and hears its last words: all lines, and whether it ended well.
    pub fn finish(mut self) -> (Vec<String>, bool) {
        self.input = None;
        let mut lines = Vec::new();
        loop {
            let line = self.hear();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let ended_well = self.child.wait().is_ok_and(|status| status.success());
        (lines, ended_well)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node with a daemon of a user's.
#[derive(Debug)]
pub struct UsersNode {
    directory: PathBuf,
    daemon: Role,
}

impl UsersNode {
    /// A daemon of this user (0: one's own), for all users or for its own.
    ///
    /// # Panics
    /// Where it does not start.
    #[must_use]
    pub fn start(name: &str, user: u32, system: bool) -> Self {
        watchdog(300);
        let directory = PathBuf::from(format!("/tmp/m3-test-{}-{name}", std::process::id()));
        let path = directory.to_str().expect("a plain path");
        let mut arguments = vec!["--runtime-dir", path, "--log-level", "error"];
        if system {
            arguments.push("--system");
        }
        let daemon = Role::start(user, "daemon", &arguments);
        let node = Self { directory, daemon };
        for _ in 0..2000 {
            if Node::find(&node.directory).is_ok() {
                return node;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("the daemon does not answer");
    }

    /// Its runtime directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same, as an argument.
    #[must_use]
    pub fn path(&self) -> &str {
        self.directory.to_str().unwrap_or_default()
    }

    /// The daemon's process id.
    #[must_use]
    pub fn daemon_pid(&self) -> i32 {
        self.daemon.pid()
    }

    /// A connection as the test's own user.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::find(&self.directory).expect("the daemon of the test runs")
    }

    /// Kills the daemon, and starts no other.
    pub fn kill_daemon(&mut self) {
        crate::signals::kill(self.daemon_pid());
        while !self.daemon.has_ended() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Starts a daemon of one's own for all users in place of a killed one.
    pub fn restart_daemon(&mut self) {
        let arguments = ["--runtime-dir", self.path(), "--log-level", "error", "--system"];
        self.daemon = Role::start(0, "daemon", &arguments);
    }

    /// Descriptors that the daemon holds now.
    #[must_use]
    pub fn daemon_fds(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.daemon_pid())).map_or(0, Iterator::count)
    }
}

impl Drop for UsersNode {
    fn drop(&mut self) {
        if let Ok(node) = Node::find(&self.directory) {
            let _ = node.end();
        }
        for _ in 0..400 {
            if self.daemon.has_ended() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
