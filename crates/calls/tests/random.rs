//! Calls under random drops, time limits and kills of the server. Each request ends exactly once,
//! and its end is true: the server writes the number of each request that it begins to a file.
//!
//! 2 seconds, or `M3_SOAK_SECONDS`.
#![allow(clippy::unwrap_used)]

use m3ipc::Node;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{CallError, Client, Config, Fault, Request, Server};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const DIRECTORY: &str = "M3_CALLS_TEST_NODE";
const RECORD: &str = "M3_CALLS_TEST_RECORD";
const IN_FLIGHT: u64 = 64;

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

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_ends_once_and_truly() {
    let seconds = std::env::var("M3_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(2));
    let node = m3ipc::test::node();
    let vm = node.vm().clone();
    let endpoint = AsyncEndpoint::bind(move || vm.bind_any()).await.unwrap();
    let client = Client::new(endpoint, Config::default());
    let record: PathBuf = node.directory().with_extension("record");
    let numbers = Arc::new(AtomicU64::new(0));
    let ends = Arc::new(AtomicBool::new(false));
    let mut server = start(node.directory(), &record);
    client.wait_name("random").await.unwrap();
    let before = descriptors();

    let mut callers = JoinSet::new();
    for seed in 0..IN_FLIGHT {
        let (client, numbers, ends) = (client.clone(), Arc::clone(&numbers), Arc::clone(&ends));
        callers.spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut heard = Vec::new();
            while !ends.load(SeqCst) {
                let name = client.wait_name("random");
                let Ok(Ok(to)) = tokio::time::timeout(Duration::from_secs(30), name).await else {
                    panic!("no server within 30 s");
                };
                let number = numbers.fetch_add(1, SeqCst);
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.resize(random.choice([8, 60, 1_000, 6_000]).unwrap(), 7);
                let limit = random.bool().then(|| Duration::from_millis(random.u64(..8)));
                let call = client.call_bytes(to, bytes.clone(), limit);
                let patience = Duration::from_millis(random.choice([2, 30_000]).unwrap());
                heard.push((
                    number,
                    match tokio::time::timeout(patience, call).await {
                        Ok(Ok(answer)) => {
                            assert_eq!(answer, bytes, "the answer of another request");
                            Heard::Answered
                        }
                        Ok(Err(CallError::NotTaken(_))) => Heard::NotTaken,
                        Ok(Err(CallError::Taken(_) | CallError::Answered(_))) => Heard::Taken,
                        Err(_) if patience.as_secs() > 1 => panic!("request {number} never ends"),
                        Err(_) => Heard::Dropped,
                    },
                ));
            }
            heard
        });
    }
    let mut random = fastrand::Rng::with_seed(99);
    let begun = Instant::now();
    while begun.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(random.u64(20..200))).await;
        server.kill().unwrap();
        server.wait().unwrap();
        server = start(node.directory(), &record);
    }
    ends.store(true, SeqCst);
    let heard: HashMap<u64, Heard> = callers.join_all().await.into_iter().flatten().collect();
    server.kill().unwrap();
    server.wait().unwrap();

    let begun = std::fs::read(&record).unwrap();
    let mut times: HashMap<u64, u32> = HashMap::new();
    for number in begun.as_chunks::<8>().0 {
        *times.entry(u64::from_le_bytes(*number)).or_default() += 1;
    }
    assert_eq!(heard.len() as u64, numbers.load(SeqCst), "each request has one end");
    let count = |kind| heard.values().filter(|heard| **heard == kind).count();
    for (number, heard) in &heard {
        let times = times.get(number).copied().unwrap_or(0);
        match heard {
            Heard::Answered => assert_eq!(times, 1, "request {number} was answered"),
            Heard::NotTaken => assert_eq!(times, 0, "request {number} was not taken"),
            Heard::Taken | Heard::Dropped => assert!(times <= 1, "request {number}"),
        }
    }
    println!(
        "{} answered, {} not taken, {} taken, {} dropped",
        count(Heard::Answered),
        count(Heard::NotTaken),
        count(Heard::Taken),
        count(Heard::Dropped)
    );
    assert!(count(Heard::Answered) > 0);
    // The links and areas of the dead servers are gone.
    let settled = Instant::now();
    while descriptors() > before + 4 {
        assert!(settled.elapsed() < Duration::from_secs(30), "{} descriptors", descriptors());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = std::fs::remove_file(&record);
}
