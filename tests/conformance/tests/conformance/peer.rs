//! A partner in a process of its own.

use m3ipc::Address;
use m3ipc_test_fixture::program;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Another process.
pub struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a process of this node that takes these steps, bound at this slot; `-` is not bound.
    pub fn start(directory: &Path, vm: &str, slot: &str, steps: &[&str]) -> Self {
        let mut command = Command::new(program("m3-tests-partner"));
        command.arg(directory).arg(vm).arg(slot).args(steps);
        command.env("M3_RUNTIME_DIR", directory);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Its address, which it says first.
    pub fn bound_at(&mut self) -> Address {
        Address(self.line().strip_prefix("bound ").unwrap().parse().unwrap())
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The code or number in the next line.
    pub fn code(&mut self) -> i32 {
        self.line().parse().unwrap()
    }

    /// Sends signals until one ends a blocked call; the code of that call.
    pub fn interrupted(&mut self) -> i32 {
        let (pid, done) = (self.pid(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    m3ipc_test_fixture::signals::send(pid, pid);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let code = self.code();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            code
        })
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends its input, and waits until it leaves.
    pub fn leave(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    /// The signal that ended it.
    pub fn died_of(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.child.wait().unwrap().signal()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
