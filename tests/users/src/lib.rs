//! Users that meet: directories, daemons and programs of several users.
//!
//! The tests run as root, and start the program `m3-users-role` as other users. Without root they
//! say that they skip.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Users that exist nowhere: a victim, an attacker, and the user of a system's daemon.
pub const VICTIM: u32 = 65_301;
/// See [`VICTIM`].
pub const ATTACKER: u32 = 65_302;
/// See [`VICTIM`].
pub const SYSTEM: u32 = 65_303;

/// The longest wait for another process.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether this test may start programs as other users; else it says that it skips.
#[must_use]
pub fn is_root(test: &str) -> bool {
    let root = m3ipc_sys::user_id() == 0;
    if !root {
        println!("SKIP {test}: other users need root");
    }
    root
}

/// A folder of root, which all users may enter, with a copy of the role program.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// A new one under /tmp.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/m3-users-{}-{count}", std::process::id()));
        let place = Self { path };
        std::fs::create_dir(&place.path).expect("a new folder");
        set_mode(&place.path, 0o755);
        std::fs::copy(built_role(), place.program()).expect("the role program is built");
        place
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The role program.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.path.join("role")
    }

    /// Makes a folder with this owner and mode.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn folder(&self, name: &str, user: u32, mode: u32) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).expect("a new folder");
        set_mode(&path, mode);
        chown(&path, Some(user), Some(user)).expect("root gives files away");
        path
    }

    /// A role, to be run as a user.
    #[must_use]
    pub fn role(&self, user: u32, words: &[&str]) -> Command {
        role_of(&self.program(), user, words)
    }

    /// Runs a role to its end: what it printed.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn run(&self, user: u32, words: &[&str]) -> String {
        printed(&mut self.role(user, words))
    }

    /// Starts a node daemon of a user for all users.
    #[must_use]
    pub fn daemon(&self, user: u32, directory: &Path) -> Running {
        self.daemon_with(user, directory, &["--system"])
    }

    /// Starts a node daemon of a user with these flags.
    #[must_use]
    pub fn daemon_with(&self, user: u32, directory: &Path, flags: &[&str]) -> Running {
        let path = directory.to_string_lossy();
        let words = ["daemon", "--runtime-dir", &path, "--log-level", "error"];
        let mut role = self.role(user, &words);
        let running = Running::start(role.args(flags));
        until("the daemon listens", || directory.join("m3d.sock").exists());
        running
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The role program as cargo built it, beside the folder of the tests.
fn built_role() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests are built in a folder");
    folder.join("m3-users-role")
}

/// Sets the permission bits of a file of this process.
///
/// # Panics
/// If that is refused.
pub fn set_mode(path: &Path, mode: u32) {
    try_set_mode(path, mode).expect("own files");
}

/// As [`set_mode`].
///
/// # Errors
/// Of chmod(2).
pub fn try_set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// A role, to be run as a user with an empty environment.
#[must_use]
pub fn role_of(program: &Path, user: u32, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env_clear().current_dir("/").stdin(Stdio::null());
    if user != 0 {
        command.uid(user).gid(user);
    }
    command
}

/// What a program prints until its end.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn printed(command: &mut Command) -> String {
    let command = command.stderr(Stdio::inherit());
    let output = when_not_busy(|| command.output()).expect("the program starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Starts a program that this process wrote. Another thread's child holds the file open for writing
/// until its own exec.
fn when_not_busy<T>(mut start: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match start() {
            Err(cause) if cause.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// Waits for a condition.
///
/// # Panics
/// If it does not come true within a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A role that runs, and is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a role.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped());
        let mut child = when_not_busy(|| command.spawn()).expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { child, output }
    }

    /// The next line that it prints; empty at its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.output.read_line(&mut line);
        line.trim().to_owned()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
