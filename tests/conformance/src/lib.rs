//! What the tests share: a node of their own, peers in processes of their own.
//!
//! Every test has a runtime directory of its own and a daemon of its own in
//! it; both are gone when its [`Field`] is dropped, whatever happened.

pub mod crash;
pub mod field;
pub mod fuse;
pub mod memory;
pub mod raw;
pub mod signals;
pub mod syscalls;
pub mod tally;

use m3ipc::{Node, Vm, VmConfig};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A node for one test.
#[derive(Debug)]
pub struct Field {
    directory: PathBuf,
    daemon: Child,
}

impl Field {
    /// A fresh node with its daemon.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("m3-test-{}-{serial}-{name}", std::process::id()));
        let daemon = start_daemon(&directory);
        Self { directory, daemon }
    }

    /// Its runtime directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The daemon's process id.
    #[must_use]
    pub fn daemon_pid(&self) -> i32 {
        self.daemon.id().cast_signed()
    }

    /// A connection to the node.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::find(&self.directory).expect("the daemon of the test runs")
    }

    /// A new VM.
    ///
    /// # Panics
    /// Where it cannot be made.
    #[must_use]
    pub fn vm(&self, name: &str) -> Vm {
        self.node().vm_init(&VmConfig::new(name)).expect("a fresh VM")
    }

    /// Kills the daemon with SIGKILL, and starts no other.
    pub fn kill_daemon(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }

    /// Starts a daemon in place of a killed one.
    pub fn restart_daemon(&mut self) {
        self.kill_daemon();
        self.daemon = start_daemon(&self.directory);
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        if let Ok(node) = Node::find(&self.directory) {
            let _ = node.end();
        }
        for _ in 0..200 {
            if matches!(self.daemon.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.kill_daemon();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A program of this crate, built beside the test that runs.
///
/// # Panics
/// Where the test's own path cannot be found.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests are built in a folder");
    folder.join(name)
}

fn start_daemon(directory: &Path) -> Child {
    let mut command = Command::new(program("m3-tests-daemon"));
    command.arg("--runtime-dir").arg(directory).args(["--log-level", "error"]);
    // Nothing of ours: whoever reads the test's output must not wait for a daemon.
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the daemon starts");
    for _ in 0..2000 {
        if Node::find(directory).is_ok() {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the daemon does not answer");
}

/// Bytes that differ from place to place, and from seed to seed.
#[must_use]
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

/// A sum that tells bytes in another order apart.
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum: u64, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte))
}

/// Ends the tests of this process with an error where nothing has called this for so long: at least five minutes.
pub fn watchdog(seconds: u64) {
    static DEADLINE_NS: AtomicU64 = AtomicU64::new(0);
    static STARTED: Once = Once::new();
    // A machine under load is slow, and its disk may stand still for many seconds: what hangs, hangs for minutes too.
    let seconds = seconds.max(300);
    DEADLINE_NS.fetch_max(m3ipc_sys::monotonic_ns() + seconds * 1_000_000_000, Ordering::Relaxed);
    STARTED.call_once(|| {
        std::thread::spawn(move || {
            loop {
                let left_ns =
                    DEADLINE_NS.load(Ordering::Relaxed).saturating_sub(m3ipc_sys::monotonic_ns());
                if left_ns == 0 {
                    eprintln!("watchdog: a test hangs since {seconds} s");
                    std::process::exit(99);
                }
                std::thread::sleep(std::time::Duration::from_nanos(left_ns));
            }
        });
    });
}

/// What poll(2) says of a descriptor right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read, or an end.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
    /// The other side has gone.
    pub hung_up: bool,
}

/// Asks poll(2).
///
/// # Panics
/// Where the descriptor cannot be polled.
#[must_use]
pub fn readiness(fd: &impl std::os::fd::AsFd) -> Readiness {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(fd, PollFlags::IN | PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it polls");
    let seen = fds[0].revents();
    Readiness {
        readable: seen.contains(PollFlags::IN),
        writable: seen.contains(PollFlags::OUT),
        hung_up: seen.intersects(PollFlags::HUP | PollFlags::ERR),
    }
}
