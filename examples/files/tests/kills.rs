//! Servers are killed at random under load, and a checker looks for lost and doubled writes.
//!
//! `M3_FILES_SECONDS` says how long, `M3_FILES_SEED` with which kills.
#![allow(clippy::unwrap_used)]

use m3ipc::Node;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{Client, Config};
use m3ipc_files::client::Files;
use m3ipc_test_fixture::{NodeFixture, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
/// Names of each writer.
const NAMES: usize = 5;
const SERVERS: [&str; 3] = ["storage", "cache", "names"];

/// A supervisor, its node and its folder.
struct Service {
    node: NodeFixture,
    folder: PathBuf,
    supervisor: Option<Child>,
}

impl Service {
    fn start() -> Self {
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
        let mut command = Command::new(program("m3-tests-supervise"));
        command.env("M3_RUNTIME_DIR", self.node.directory()).current_dir(&self.folder);
        command.env("M3_DAEMON", program("m3-tests-daemon")).stdin(Stdio::null());
        command
    }

    fn supervise(&mut self) {
        let path = self.folder.join("log");
        let log = std::fs::File::options().append(true).create(true).open(path).unwrap();
        let mut command = self.command();
        command.args(["run", "services.toml"]).stderr(log);
        self.supervisor = Some(command.spawn().unwrap());
    }

    /// Kills the supervisor. Its servers die with it.
    fn kill_supervisor(&mut self) {
        if let Some(mut child) = self.supervisor.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The process of a server, if it runs.
    fn pid(&self, server: &str) -> Option<i32> {
        let asked = self.command().args(["services", "files", "--json"]).output().unwrap();
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut found = lines.filter(|it: &serde_json::Value| it["service"] == server);
        found.next()?["pid"].as_i64()?.try_into().ok()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill_supervisor();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The content of a write. Each byte depends on the writer, the name and the write.
fn content(writer: u64, name: u64, write: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(writer << 48 | name << 40 | write);
    let length = if random.u8(0..8) == 0 { 200_000 } else { random.usize(0..5_000) };
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes.extend(write.to_le_bytes());
    bytes
}

/// Writes and reads until the end. Returns the last acknowledged write of each name.
async fn write(
    client: Client,
    writer: u64,
    end: Instant,
    acknowledged: Arc<AtomicU64>,
) -> Vec<u64> {
    let mut files = Files::of(client);
    let mut random = fastrand::Rng::with_seed(writer);
    let mut last = vec![0; NAMES];
    let mut write = 0;
    while Instant::now() < end {
        let at = random.usize(0..NAMES);
        let (path, name) = (format!("{writer}/{at}"), at as u64);
        if random.u8(0..3) == 0 {
            let found = files.get(&path).await.unwrap();
            let wanted = (last[at] > 0).then(|| content(writer, name, last[at]));
            assert!(found == wanted, "{path}: not write {} of this writer", last[at]);
            continue;
        }
        write += 1;
        files.put(&path, &content(writer, name, write)).await.unwrap();
        last[at] = write;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    last
}

/// Kills servers at random. Returns how many.
fn kill(service: &Service, end: Instant, seed: u64) -> BTreeMap<&'static str, u32> {
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

async fn connect(service: &Service) -> Client {
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

/// Compares all files with the last acknowledged writes, and counts the changes of names.
async fn check(client: Client, last: &[Vec<u64>], acknowledged: u64) {
    let files = Files::of(client);
    let mut names = Vec::new();
    for (writer, last) in (0..).zip(last) {
        for (name, write) in (0..).zip(last) {
            let path = format!("{writer}/{name}");
            let found = files.get(&path).await.unwrap();
            let wanted = (*write > 0).then(|| content(writer, name, *write));
            assert!(found == wanted, "{path}: the acknowledged write {write} is lost");
            names.extend(found.map(|bytes| (path, bytes.len() as u64)));
        }
    }
    assert_eq!(files.list().await.unwrap(), names);
    let changes = u64::from(files.name_changes().await.unwrap());
    assert_eq!(changes, acknowledged, "each write counts once");
}

#[test]
fn no_acknowledged_write_is_lost_under_kills() {
    let seconds = |it: String| it.parse().unwrap();
    let seconds = std::env::var("M3_FILES_SECONDS").map_or(3, seconds);
    let seed = std::env::var("M3_FILES_SEED").map_or(seconds, |seed| seed.parse().unwrap());
    let mut service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(connect(&service));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (kills, last) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill(&service, end, seed));
        let last = runtime.block_on(async {
            let writer = |writer| write(client.clone(), writer, end, Arc::clone(&acknowledged));
            let writers: Vec<_> = (0..WRITERS).map(|it| tokio::spawn(writer(it))).collect();
            let mut last = Vec::new();
            for writer in writers {
                last.push(writer.await.unwrap());
            }
            last
        });
        (killer.join().unwrap(), last)
    });
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    println!("seed {seed}: {acknowledged} acknowledged writes, killed: {kills:?}");
    assert!(acknowledged > 0 && kills.len() == SERVERS.len(), "{kills:?}: {}", service.log());
    runtime.block_on(check(client.clone(), &last, acknowledged));
    // All of it is on the disk: a new supervisor and new servers find it.
    service.kill_supervisor();
    service.supervise();
    runtime.block_on(check(client, &last, acknowledged));
}
