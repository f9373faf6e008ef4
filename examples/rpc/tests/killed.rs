//! Servers of each library are killed with calls and streams in the middle. Each call ends with an
//! error, and nothing is left behind.
//!
//! Needs the node daemon: `cargo build --release -p m3ipc-daemon` in the root of m3ipc.

use m3_rpc::{Calls, Place, grpc, http1, tarpc};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ROUNDS: usize = 10;
/// What must have come before a server is killed.
const ANSWERS: u64 = 50;
const PIECES: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_tonic_end_with_their_server() {
    kill_servers::<grpc::Client>("grpc").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_tarpc_end_with_their_server() {
    kill_servers::<tarpc::Client>("tarpc").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_hyper_end_with_their_server() {
    kill_servers::<http1::Client>("http").await;
}

/// Descriptors of a process, and mappings of memory that it shares.
fn holdings(process: &str) -> [usize; 2] {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    [descriptors, maps.lines().filter(|line| line.contains("/memfd:")).count()]
}

fn start(library: &str, directory: &std::path::Path, vm: &str) -> (Child, String) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_m3-rpc"))
        .args(["serve", library])
        .args([directory.as_os_str(), vm.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (server, line.trim().to_owned())
}

async fn kill_servers<C: Calls>(library: &str) {
    let node = m3ipc::test::node();
    let daemon = std::fs::read_to_string(node.directory().join("lock")).unwrap();
    let daemon = daemon.trim().to_owned();
    let mut random = fastrand::Rng::new();
    let (mut before, mut longest, mut ended) = (None, Duration::ZERO, 0);
    for round in 0..=ROUNDS {
        let place = Arc::new(Place::join(node.directory(), node.vm().name()).unwrap());
        let (mut server, at) = start(library, node.directory(), node.vm().name());
        let client = C::connect(place, at.parse().unwrap()).await.unwrap();
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let (client, counts) = (client.clone(), Arc::clone(&counts));
            calls.spawn(async move {
                while let Ok(answer) = client.echo(vec![5; 100]).await {
                    assert_eq!(answer, [5; 100]);
                    counts[0].fetch_add(1, SeqCst);
                }
            });
        }
        for _ in 0..8 {
            let client = client.clone();
            calls.spawn(async move {
                client.hang().await.expect_err("no answer was sent");
            });
        }
        for _ in 0..4 {
            let (client, counts) = (client.clone(), Arc::clone(&counts));
            calls.spawn(async move {
                let heard = |_| {
                    counts[1].fetch_add(1, SeqCst);
                };
                client.stream(heard).await.expect_err("the stream has no end");
            });
        }
        while counts[0].load(SeqCst) < ANSWERS || counts[1].load(SeqCst) < PIECES {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_micros(random.u64(..20_000))).await;
        let killed = Instant::now();
        server.kill().unwrap();
        while let Some(call) = calls.join_next().await {
            call.unwrap();
            ended += 1;
        }
        longest = longest.max(killed.elapsed());
        server.wait().unwrap();
        drop(client);

        // The first round opens what the process keeps.
        let settled = Instant::now();
        loop {
            let now = [holdings("self"), holdings(&daemon)].concat();
            let Some(before) = &before else {
                sleep(Duration::from_millis(500)).await;
                before = Some([holdings("self"), holdings(&daemon)].concat());
                break;
            };
            if now.iter().zip(before).all(|(now, before)| now <= before) {
                break;
            }
            let waited = settled.elapsed();
            assert!(waited < Duration::from_secs(30), "round {round}: {before:?}, then {now:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
    println!("{library}: {ended} calls ended, the last one {longest:?} after its kill -9");
}
