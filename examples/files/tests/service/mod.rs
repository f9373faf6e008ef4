//! A file service of the tests: a supervisor, its node, and kills of its servers.
// Each test uses a part.
#![allow(clippy::unwrap_used, dead_code)]

use m3ipc::Node;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{Client, Config};
use m3ipc_test_fixture::{NodeFixture, program};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const SERVERS: [&str; 3] = ["storage", "cache", "names"];

/// A supervisor, its node and its folder.
pub struct Service {
    pub node: NodeFixture,
    pub folder: PathBuf,
    supervisor: Option<Child>,
}

impl Service {
    pub fn start() -> Self {
        let node = NodeFixture::new("files");
        let folder = node.directory().with_extension("files");
        std::fs::create_dir_all(&folder).unwrap();
        // The file of the example, with the programs of this build and without a limit of restarts.
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("services.toml");
        let text = std::fs::read_to_string(example).unwrap();
        let text = text.replace("\"m3-files\"", &format!("{:?}", env!("CARGO_BIN_EXE_m3-files")));
        let text =
            text.replace("backoff-max = \"1s\"", "backoff-max = \"20ms\"\nrestarts = 100000");
        std::fs::write(folder.join("services.toml"), text).unwrap();
        let mut service = Self { node, folder, supervisor: None };
        service.supervise();
        service
    }

    fn command(&self) -> Command {
        self.command_of(program("m3-tests-supervise"))
    }

    /// A program in the node and in the folder of the service.
    pub fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("M3_RUNTIME_DIR", self.node.directory()).current_dir(&self.folder);
        command.env("M3_DAEMON", self::program("m3-tests-daemon")).stdin(Stdio::null());
        command
    }

    pub fn supervise(&mut self) {
        let path = self.folder.join("log");
        let log = std::fs::File::options().append(true).create(true).open(path).unwrap();
        let mut command = self.command();
        command.args(["run", "services.toml"]).stderr(log);
        self.supervisor = Some(command.spawn().unwrap());
    }

    /// Kills the supervisor. Its servers die with it.
    pub fn kill_supervisor(&mut self) {
        if let Some(mut child) = self.supervisor.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The process of a server, if it runs.
    pub fn pid(&self, server: &str) -> Option<i32> {
        let asked = self.command().args(["services", "files", "--json"]).output().unwrap();
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut found = lines.filter(|it: &serde_json::Value| it["service"] == server);
        found.next()?["pid"].as_i64()?.try_into().ok()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill_supervisor();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Kills servers at random. Returns how many.
pub fn kill(service: &Service, end: Instant, seed: u64) -> BTreeMap<&'static str, u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kills = BTreeMap::new();
    let mut order = Vec::new();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(random.u64(0..400)));
        let server = order.pop().unwrap_or_else(|| {
            // Each of them before one again.
            order = SERVERS.to_vec();
            random.shuffle(&mut order);
            order.pop().unwrap()
        });
        let process = service.pid(server).and_then(|pid| m3ipc_sys::open_process(pid).ok());
        if process.is_some_and(|it| m3ipc_sys::signal(it, m3ipc_sys::Signal::KILL).is_ok()) {
            *kills.entry(server).or_default() += 1;
        }
    }
    kills
}

/// A client of the service, as soon as that is there.
pub async fn connect(service: &Service) -> Client {
    let directory = service.node.directory().to_owned();
    let begun = Instant::now();
    let vm = loop {
        match Node::find(&directory).unwrap().vm_named("files") {
            Ok(vm) => break vm,
            Err(_) if begun.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{error}: {}", service.log()),
        }
    };
    Client::new(AsyncEndpoint::bind(move || vm.bind_any()).await.unwrap(), Config::default())
}
