//! Servers are killed at random under load, and a checker looks for lost and doubled writes.
//!
//! `M3_FILES_SECONDS` says how long, `M3_FILES_SEED` with which kills.
#![allow(clippy::unwrap_used)]

mod service;

use m3ipc_calls::Client;
use m3ipc_files::client::Files;
use m3ipc_files::peers::ask;
use m3ipc_files::protocol::{BlockAnswer, BlockRequest, NAME_LOG};
use service::{SERVERS, Service, connect, kill};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
/// Names of each writer.
const NAMES: usize = 5;

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
    let files = Files::of(client);
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

/// Compares all files with the last acknowledged writes, and counts the changes of names.
async fn check(client: Client, last: &[Vec<u64>], acknowledged: u64) {
    let files = Files::of(client.clone());
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
    let listed = files.list().await.unwrap().into_iter();
    assert_eq!(listed.map(|(name, entry)| (name, entry.bytes)).collect::<Vec<_>>(), names);
    // The records of the name server's log.
    let count = BlockRequest::Count { file: NAME_LOG };
    let counted: BlockAnswer = ask(&client, "cache", &count).await.unwrap();
    let wanted = BlockAnswer::Count(acknowledged.try_into().unwrap());
    assert_eq!(counted, wanted, "each write counts once");
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
