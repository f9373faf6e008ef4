//! A peer in a process of its own, directed by its arguments and by lines. Its output is kept in
//! order.

use m3ipc_test_fixture::{program, stretch};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The time that a peer may be silent. After it, the test counts the peer as hung.
const SILENCE: Duration = Duration::from_secs(90);

/// A peer. Killed when it is dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    words: Option<ChildStdin>,
    lines: Receiver<String>,
    name: String,
}

impl Peer {
    pub(super) fn start(
        directory: &Path,
        role: &str,
        arguments: &[&str],
        pause: Option<&str>,
    ) -> Self {
        let mut command = Command::new(program("m3-tests-peer"));
        command.arg(role).arg(directory).args(arguments);
        if let Some(pause) = pause {
            command.env("M3_PAUSE", pause);
        }
        let name = format!("{role} {}", arguments.join(" "));
        Self::by(command, &name)
    }

    /// A peer by this command.
    ///
    /// # Panics
    /// If the program does not start.
    #[must_use]
    pub fn by(mut command: Command, name: &str) -> Self {
        command.env("M3_DAEMON", program("m3-tests-daemon"));
        command.env("M3_TESTS_OWNER", std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a peer starts");
        let words = child.stdin.take();
        let said = child.stdout.take().expect("piped above");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, words, lines, name: name.to_owned() }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends the line for which the peer waits.
    pub fn go(&mut self) {
        if let Some(words) = &mut self.words {
            let _ = words.write_all(b"go\n");
        }
    }

    /// Ends its input: the peer finishes its work and ends.
    pub fn finish(&mut self) {
        self.words = None;
    }

    /// The next line of its output; `None` at its end.
    ///
    /// # Panics
    /// If the peer is silent for so long that it counts as hung.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE * stretch()) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                let at = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid()))
                    .unwrap_or_default();
                panic!("{} (pid {}) hangs in system call {}", self.name, self.pid(), at.trim_end())
            }
        }
    }

    /// Checks the next line of its output.
    ///
    /// # Panics
    /// If the line is another.
    pub fn expect(&mut self, wanted: &str) {
        let said = self.next_line();
        assert_eq!(said.as_deref(), Some(wanted), "said by {}", self.name);
    }

    /// The address to which the peer reports to be bound.
    ///
    /// # Panics
    /// If the line is another.
    pub fn bound(&mut self) -> i32 {
        let said = self.next_line().unwrap_or_default();
        let address = said.strip_prefix("bound ").and_then(|address| address.parse().ok());
        address.unwrap_or_else(|| panic!("{} is not bound but says {said:?}", self.name))
    }

    /// The lines that it has written and the test has not read; does not wait.
    pub fn said(&mut self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// All lines until its end.
    pub fn rest(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(line) = self.next_line() {
            all.push(line);
        }
        all
    }

    /// Waits until it has stopped itself at its pause point.
    ///
    /// # Panics
    /// If the peer does not, or ends.
    pub fn await_paused(&self) {
        for _ in 0..6_000 * stretch() {
            match state_of(self.pid()) {
                Some('T') => return,
                None | Some('Z') => panic!("{} has ended before its pause point", self.name),
                Some(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        panic!("{} does not reach its pause point", self.name);
    }

    /// Kills it with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, for people.
    pub fn ending(&mut self) -> String {
        match self.child.try_wait() {
            Ok(Some(status)) => format!("{} has ended: {status}", self.name),
            _ => format!("{} lives", self.name),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; whether it succeeded.
    pub fn succeeded(&mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The state letter of a process: `T` stopped, `Z` dead and not waited for.
pub(super) fn state_of(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
