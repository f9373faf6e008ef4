//! 64 requests in flight under random time limits, cancels, drops of endpoints, kills and restarts
//! of the server. Each request ends exactly once, and its end is true: the server writes the number
//! of each request that it begins to a file. In the end this process and the daemon hold what they
//! held before.
//!
//! 2 seconds, or `M3_SOAK_SECONDS`.
#![allow(clippy::unwrap_used)]

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Node, Vm};
use m3ipc_calls::{CallError, Client, Config, Fault, Request, Server};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const DIRECTORY: &str = "M3_CALLS_TEST_NODE";
const RECORD: &str = "M3_CALLS_TEST_RECORD";
/// Endpoints of clients, and callers of each: 64 requests in flight.
const CLIENTS: u64 = 8;
const CALLERS: u64 = 8;
const SIZES: [usize; 5] = [8, 60, 1_000, 6_000, 100_000];
/// Memory that the allocator, the runtime and the daemon may keep for later, and that a request
/// needs in the records of this test.
const KEPT_KB: u64 = 48 << 10;
const RECORD_BYTES: u64 = 256;

/// What a caller heard of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Answered,
    NotTaken,
    Taken,
    Dropped,
}

/// The server process: the test program, started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_process() {
    let (Ok(directory), Ok(record)) = (std::env::var(DIRECTORY), std::env::var(RECORD)) else {
        return;
    };
    let vm = Node::attach_at(directory.as_ref()).unwrap().vm_named("test").unwrap();
    let mut endpoint = AsyncEndpoint::bind(move || vm.bind_any()).await.unwrap();
    endpoint.name_attach("random").await.unwrap();
    let record = std::fs::OpenOptions::new().append(true).create(true).open(record).unwrap();
    let record = Arc::new(record);
    let handler = move |request: Request| {
        let record = Arc::clone(&record);
        async move {
            let number = *request.bytes.first_chunk().ok_or_else(|| Fault::new("no number"))?;
            (&*record).write_all(&number).expect("the disk has room");
            let pause = u64::from_le_bytes(number) % 7;
            if pause > 3 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            Ok(request.bytes)
        }
    };
    let _server = Server::new(endpoint, Config::default(), handler);
    std::future::pending::<()>().await;
}

fn start(directory: &Path, record: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "server_process", "--nocapture"]);
    command.env(DIRECTORY, directory).env(RECORD, record);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    /// Mappings of memory that it shares with others: links, pages of endpoints, areas.
    mappings: usize,
    private_kb: u64,
}

impl Holdings {
    fn of(process: &str) -> Self {
        let text = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
        let private: u64 = text("smaps_rollup")
            .lines()
            .filter(|line| line.starts_with("Private_"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .sum();
        Self {
            descriptors: std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count(),
            mappings: text("maps").lines().filter(|line| line.contains("/memfd:")).count(),
            private_kb: private,
        }
    }

    /// Whether nothing that can be counted is left over.
    fn has_no_more_than(self, before: Self) -> bool {
        self.descriptors <= before.descriptors && self.mappings <= before.mappings
    }
}

/// What all tasks share.
struct Soak {
    vm: Vm,
    numbers: AtomicU64,
    is_over: AtomicBool,
    ends: Mutex<Vec<(u64, Heard)>>,
}

/// A request. A caller that is dropped in its call has dropped the request.
struct Open<'a> {
    soak: &'a Soak,
    number: u64,
    heard: Heard,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.soak.ends.lock().unwrap().push((self.number, self.heard));
    }
}

impl Soak {
    /// A client after the other, each with an endpoint of its own and calls in flight.
    async fn drop_clients(self: Arc<Self>, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        while !self.is_over.load(SeqCst) {
            let vm = self.vm.clone();
            let bound = AsyncEndpoint::bind(move || vm.bind_additional(None)).await.unwrap();
            let client = Client::new(bound, Config::default());
            let leaves = Arc::new(AtomicBool::new(false));
            let mut callers = JoinSet::new();
            for _ in 0..CALLERS {
                let (soak, client, leaves) = (self.clone(), client.clone(), leaves.clone());
                let random = random.fork();
                callers.spawn(async move { soak.call_often(&client, random, &leaves).await });
            }
            sleep(Duration::from_millis(random.u64(20..1_000))).await;
            if random.bool() {
                callers.abort_all();
            }
            leaves.store(true, SeqCst);
            while let Some(ended) = callers.join_next().await {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        }
    }

    /// Calls until the client leaves.
    async fn call_often(&self, client: &Client, mut random: fastrand::Rng, leaves: &AtomicBool) {
        while !self.is_over.load(SeqCst) && !leaves.load(SeqCst) {
            let name = timeout(Duration::from_secs(30), client.wait_name("random")).await;
            let to = name.expect("a server within 30 s").unwrap();
            let number = self.numbers.fetch_add(1, SeqCst);
            let mut open = Open { soak: self, number, heard: Heard::Dropped };
            let mut bytes = number.to_le_bytes().to_vec();
            let size = if random.u8(..20) == 0 { SIZES[4] } else { SIZES[random.usize(..4)] };
            bytes.resize(size, 7);
            let limit = random.bool().then(|| Duration::from_millis(random.u64(..8)));
            let call = client.call_bytes(to, bytes.clone(), limit);
            let patience = Duration::from_millis(random.choice([2, 30_000]).unwrap());
            open.heard = match timeout(patience, call).await {
                Ok(Ok(answer)) => {
                    assert_eq!(answer, bytes, "the answer of another request");
                    Heard::Answered
                }
                Ok(Err(CallError::NotTaken(_))) => Heard::NotTaken,
                Ok(Err(CallError::Taken(_) | CallError::Answered(_))) => Heard::Taken,
                Err(_) if patience.as_secs() > 1 => panic!("request {number} never ends"),
                Err(_) => Heard::Dropped,
            };
        }
    }

    /// Compares what the callers heard with what the servers wrote.
    fn check(&self, record: &Path) {
        let begun = std::fs::read(record).unwrap();
        let mut times: HashMap<u64, u32> = HashMap::new();
        for number in begun.as_chunks::<8>().0 {
            *times.entry(u64::from_le_bytes(*number)).or_default() += 1;
        }
        let ends = self.ends.lock().unwrap();
        let heard: HashMap<u64, Heard> = ends.iter().copied().collect();
        let count = |kind| ends.iter().filter(|(_, heard)| *heard == kind).count();
        println!(
            "{} requests: {} answered, {} not taken, {} taken, {} dropped",
            ends.len(),
            count(Heard::Answered),
            count(Heard::NotTaken),
            count(Heard::Taken),
            count(Heard::Dropped)
        );
        assert_eq!(heard.len(), ends.len(), "a request has two ends");
        assert_eq!(ends.len() as u64, self.numbers.load(SeqCst), "a request has no end");
        for (number, heard) in &heard {
            let times = times.get(number).copied().unwrap_or(0);
            match heard {
                Heard::Answered => assert_eq!(times, 1, "request {number} was answered"),
                Heard::NotTaken => assert_eq!(times, 0, "request {number} was not taken"),
                Heard::Taken | Heard::Dropped => assert!(times <= 1, "request {number}"),
            }
        }
        assert!(count(Heard::Answered) > 0);
    }
}

#[test]
fn each_request_ends_once_and_truly() {
    // A page of an endpoint stays until the thread that bound it ends, or binds again.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(Duration::from_millis(100))
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(soak());
}

async fn soak() {
    let seconds = std::env::var("M3_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(2));
    let node = m3ipc::test::node();
    let daemon = std::fs::read_to_string(node.directory().join("lock")).unwrap();
    let daemon = daemon.trim().to_owned();
    let holdings = || [Holdings::of("self"), Holdings::of(&daemon)];
    // Endpoints of clients come and go beside the one of the process.
    let mut own = node.vm().bind_any().unwrap();
    // The daemon maps its page after its next answer. A later answer comes after that.
    own.name_locate("server").unwrap_err();
    own.name_locate("server").unwrap_err();
    let record: PathBuf = node.directory().with_extension("record");
    let before = holdings();

    let soak = Arc::new(Soak {
        vm: node.vm().clone(),
        numbers: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        ends: Mutex::default(),
    });
    let mut server = start(node.directory(), &record);
    let mut clients: JoinSet<()> =
        (0..CLIENTS).map(|seed| Arc::clone(&soak).drop_clients(seed)).collect();
    let (mut random, mut kills) = (fastrand::Rng::with_seed(99), 0);
    let begun = Instant::now();
    while begun.elapsed() < time {
        sleep(Duration::from_millis(random.u64(20..200))).await;
        server.kill().unwrap();
        server.wait().unwrap();
        kills += 1;
        server = start(node.directory(), &record);
    }
    soak.is_over.store(true, SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    server.kill().unwrap();
    server.wait().unwrap();
    soak.check(&record);

    // The drivers of the clients end by themselves, and so do links and areas of dead servers.
    let settled = Instant::now();
    let after = loop {
        drop(node.vm().bind_additional(None).unwrap());
        let after = holdings();
        if after.iter().zip(before).all(|(after, before)| after.has_no_more_than(before)) {
            break after;
        }
        assert!(settled.elapsed() < Duration::from_secs(30), "{before:?}, then {after:?}");
        sleep(Duration::from_millis(10)).await;
    };
    println!("{kills} kills; this process and the daemon before {before:?}, after {after:?}");
    let records_kb = soak.numbers.load(SeqCst) * RECORD_BYTES / 1024;
    for (kept_kb, after, before) in
        [(KEPT_KB + records_kb, after[0], before[0]), (KEPT_KB, after[1], before[1])]
    {
        let grown_kb = after.private_kb.saturating_sub(before.private_kb);
        assert!(grown_kb <= kept_kb, "{grown_kb} KB of memory, of {kept_kb}");
    }
    let _ = std::fs::remove_file(&record);
}
