//! What the crash suites share: a node whose daemon may be killed and started again by any member,
//! peers that may be stopped and killed, and a log of what became of each call.
//!
//! The daemon is a program of `m3ipc-test-fixture`: build that package first.

mod call_log;
mod peer;

pub use call_log::{CallLog, Outcome, Verdict};
pub use peer::Peer;

use m3ipc::{EndpointInfo, Node, NodeInfo};
use m3ipc_sys::Signal;
use m3ipc_test_fixture::{program, until, unused_directory};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A node whose daemon is killed now and then; a member starts the next one.
#[derive(Debug)]
pub struct CrashFixture {
    directory: PathBuf,
    first: Child,
}

impl CrashFixture {
    /// A fresh node; its first daemon stops itself at this pause point.
    #[must_use]
    pub fn paused(name: &str, pause: Option<&str>) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self::at(unused_directory(&format!("crash-{serial}-{name}")), pause, &[])
    }

    /// A fresh node whose daemon has these arguments too.
    #[must_use]
    pub fn with(name: &str, arguments: &[&str]) -> Self {
        Self::at(unused_directory(&format!("crash-{name}")), None, arguments)
    }

    /// A fresh node.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::paused(name, None)
    }

    /// A node in this directory.
    ///
    /// # Panics
    /// If its daemon does not start.
    #[must_use]
    pub fn at(directory: PathBuf, pause: Option<&str>, arguments: &[&str]) -> Self {
        let mut command = Command::new(program("m3-tests-daemon"));
        command.arg("--runtime-dir").arg(&directory).args(["--log-level", "error"]).args(arguments);
        if let Some(pause) = pause {
            command.env("M3_PAUSE", pause);
        }
        Self::by(directory, command)
    }

    /// A node in this directory, by this command.
    ///
    /// # Panics
    /// If its daemon does not start.
    #[must_use]
    pub fn by(directory: PathBuf, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let first = command.spawn().expect("the daemon starts");
        let fixture = Self { directory, first };
        fixture.until("the daemon answers", || Node::find(&fixture.directory).is_ok());
        fixture
    }

    /// The runtime directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A connection to the daemon that lives now.
    ///
    /// # Panics
    /// If no daemon answers for 40 seconds.
    #[must_use]
    pub fn node(&self) -> Node {
        let mut node = None;
        self.until("a daemon answers", || {
            node = Node::find(&self.directory).ok();
            node.is_some()
        });
        node.expect("found above")
    }

    /// What the daemon records.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        self.node().info().expect("a node has info")
    }

    /// The endpoints of a VM, as the daemon records them.
    #[must_use]
    pub fn endpoints(&self, vm: i32) -> Vec<EndpointInfo> {
        self.node().endpoints(vm).unwrap_or_default()
    }

    /// The process of the daemon that has the lock, if it lives.
    #[must_use]
    pub fn daemon_pid(&self) -> Option<i32> {
        let pid = std::fs::read_to_string(self.directory.join("lock")).ok()?.trim().parse().ok()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name.trim_end().starts_with("m3-tests-daemon") && peer::state_of(pid)? != 'Z')
            .then_some(pid)
    }

    /// Sends the daemon a signal; `false` if none lives.
    pub fn signal_daemon(&self, signal: Signal) -> bool {
        let Some(pid) = self.daemon_pid() else { return false };
        let Ok(process) = m3ipc_sys::open_process(pid) else { return false };
        m3ipc_sys::signal(process, signal).is_ok()
    }

    /// Kills the daemon with SIGKILL and waits for its end; `false` if none lived.
    pub fn kill_daemon(&mut self) -> bool {
        let Some(pid) = self.daemon_pid() else { return false };
        let Ok(process) = m3ipc_sys::open_process(pid) else { return false };
        let killed = m3ipc_sys::signal(&process, Signal::KILL).is_ok();
        let _ = m3ipc_sys::wait_readable(&[process.as_fd()], 10_000_000_000);
        let _ = self.first.try_wait();
        killed
    }

    /// Waits until the daemon has stopped itself at its pause point.
    pub fn await_paused(&self) {
        let stopped = || self.daemon_pid().and_then(peer::state_of) == Some('T');
        self.until("the daemon reaches its pause point", stopped);
    }

    /// A peer in a process of its own: a role, then its arguments after the directory.
    #[must_use]
    pub fn peer(&self, role: &str, arguments: &[&str]) -> Peer {
        Peer::start(&self.directory, role, arguments, None)
    }

    /// A peer that stops itself at this pause point.
    #[must_use]
    pub fn paused_peer(&self, pause: &str, role: &str, arguments: &[&str]) -> Peer {
        Peer::start(&self.directory, role, arguments, Some(pause))
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// If the condition does not hold for 40 seconds.
    pub fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        until(&format!("{what} in {}", self.directory.display()), holds);
    }
}

impl Drop for CrashFixture {
    fn drop(&mut self) {
        let process = self.daemon_pid().and_then(|pid| m3ipc_sys::open_process(pid).ok());
        if let Some(process) = process {
            let _ = m3ipc_sys::signal(&process, Signal::CONT);
            if let Ok(node) = Node::find(&self.directory) {
                let _ = node.end();
            }
            if m3ipc_sys::wait_readable(&[process.as_fd()], 5_000_000_000) != Ok(true) {
                let _ = m3ipc_sys::signal(&process, Signal::KILL);
            }
        }
        let _ = self.first.kill();
        let _ = self.first.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
