//! A supervisor in a directory of its own, for one test.
#![forbid(unsafe_code)]

use m3ipc::{Endpoint, Node, Timeout};
use m3ipc_supervise::policy::State;
use m3ipc_test_fixture::{NodeFixture, program};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The watchdog of each wait.
const LIMIT: Duration = Duration::from_secs(60);
/// The VM of the services.
pub const VM: &str = "services";

/// A supervisor of one test, with the node and the file of its services.
pub struct Supervised {
    node: NodeFixture,
    folder: PathBuf,
    child: Option<Child>,
}

/// A service as `m3 services --json` shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its state.
    pub state: State,
    /// Its process, or 0.
    pub pid: i32,
    /// How often it was started again.
    pub restarts: u32,
    /// Why its latest process ended.
    pub reason: String,
}

impl Supervised {
    /// Writes the file and starts the supervisor. `service` in the text becomes the path of the
    /// program of the tests.
    ///
    /// # Panics
    /// If the programs are not built.
    #[must_use]
    pub fn start(name: &str, services: &str) -> Self {
        let node = NodeFixture::new(name);
        let folder = node.directory().with_extension("services");
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let mut supervised = Self { node, folder, child: None };
        supervised.write(services);
        supervised.start_again();
        supervised
    }

    /// Writes the file of services.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, services: &str) {
        let service = program("m3-tests-service");
        let text = services.replace("SERVICE", &service.to_string_lossy());
        let text = format!("vm = '{VM}'\n{text}");
        std::fs::write(self.file(), text).expect("the file of services");
    }

    /// Starts a supervisor in place of one that ended.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_again(&mut self) {
        self.start_by(self.command());
    }

    /// Starts a supervisor through a shell, which gives it what this script says.
    ///
    /// # Panics
    /// If that fails.
    pub fn start_through(&mut self, script: &str) {
        let own = self.command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{script}; exec \"$@\""), "sh"]).arg(own.get_program());
        shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.current_dir(&self.folder).stdin(Stdio::null());
        self.start_by(shell);
    }

    fn start_by(&mut self, mut command: Command) {
        let log = std::fs::OpenOptions::new().append(true).create(true).open(self.log_path());
        command.arg("run").arg(self.file()).stderr(log.expect("a log")).stdout(Stdio::null());
        self.child = Some(command.spawn().expect("the supervisor starts"));
    }

    /// `m3-supervise` with the node of the test.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(program("m3-tests-supervise"));
        command.env("M3_RUNTIME_DIR", self.node.directory()).current_dir(&self.folder);
        command.env("M3_DAEMON", program("m3-tests-daemon")).stdin(Stdio::null());
        command
    }

    /// The folder of the services.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of services.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join("services.toml")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// What the supervisor wrote.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The process of the supervisor.
    ///
    /// # Panics
    /// If it was ended.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("the supervisor runs").id().cast_signed()
    }

    /// Sends a signal to the supervisor.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, signal: m3ipc_sys::Signal) {
        send(self.pid(), signal);
    }

    /// Kills the supervisor with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until the supervisor ends; its exit code.
    pub fn wait_end(&mut self) -> i32 {
        let mut code = None;
        let mut child = self.child.take();
        self.until("the end of the supervisor", |_| {
            code = child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            code.is_some()
        });
        code.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// Runs `m3-supervise services` with these words.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Output {
        self.command().args(["services", VM]).args(words).output().expect("the client runs")
    }

    /// A service; `None` while the supervisor does not answer or does not know it.
    #[must_use]
    pub fn shown(&self, service: &str) -> Option<Shown> {
        let asked = self.ask(&["--json"]);
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut found = lines.filter(|it: &serde_json::Value| it["service"] == service);
        let found = found.next()?;
        Some(Shown {
            state: serde_json::from_value(found["state"].clone()).ok()?,
            pid: found["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0),
            restarts: u32::try_from(found["restarts"].as_u64()?).ok()?,
            reason: found["reason"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Waits until a service is as wished.
    pub fn shown_when(&self, service: &str, what: &str, holds: impl Fn(&Shown) -> bool) -> Shown {
        let mut found = None;
        self.until(&format!("{service} {what}"), |own| {
            found = own.shown(service).filter(|shown| holds(shown));
            found.is_some()
        });
        found.expect("the wait has found it")
    }

    /// Waits until a service is ready.
    pub fn ready(&self, service: &str) -> Shown {
        self.shown_when(service, "is ready", |shown| shown.state == State::Ready)
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// If it never does.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < LIMIT, "never: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// An endpoint of the test.
    ///
    /// # Panics
    /// If there is no VM.
    #[must_use]
    pub fn client(&self) -> Endpoint {
        let mut node = Node::find(self.node.directory()).expect("the daemon runs");
        node.vm_named(VM).expect("the VM").bind_any().expect("a free slot")
    }

    /// The node.
    pub fn node(&mut self) -> &mut NodeFixture {
        &mut self.node
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Sends a signal to a process.
///
/// # Panics
/// If it has ended.
pub fn send(pid: i32, signal: m3ipc_sys::Signal) {
    let process = m3ipc_sys::open_process(pid).expect("the process lives");
    m3ipc_sys::signal(process, signal).expect("the signal is sent");
}

/// Whether a process runs: a zombie does not.
#[must_use]
pub fn runs(pid: i32) -> bool {
    m3ipc_sys::is_ending(pid, None) == Ok(false)
}

/// The process number that a service answers.
///
/// # Panics
/// If it does not answer.
pub fn pid_by_call(client: &mut Endpoint, name: &str) -> i32 {
    let to = client.wait_name(name, Timeout::from_ms(60_000)).expect("the name");
    let answer = client.call(to, b"who", Timeout::from_ms(60_000)).expect("an answer");
    i32::from_ne_bytes(answer.try_into().expect("four bytes"))
}
