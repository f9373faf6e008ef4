//! How many files a second: the client of the service, the mount, and an ordinary folder beside
//! the journal, with fsync.
//!
//! ```text
//! TMPDIR=/dev/shm cargo test --release -p m3ipc-test-fixture -p m3ipc-test-supervise \
//!     -p m3ipc-files --features m3ipc-files/mount --test programs --test supervise --test speed \
//!     -- --ignored --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

#[path = "service/mount.rs"]
mod mounting;
mod service;

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{Client, Config};
use m3ipc_files::client::Files;
use m3ipc_test_fixture::watchdog;
use mounting::{Mount, is_possible};
use service::{Service, connect};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(700);
/// Files that are written and read in turn.
const FILES: usize = 8;

/// Files a second.
fn rate(mut one: impl FnMut(&str)) -> f64 {
    let names: Vec<String> = (0..FILES).map(|it| format!("f{it}")).collect();
    names.iter().for_each(|name| one(name));
    let (begun, mut count) = (Instant::now(), 0.0);
    for name in names.iter().cycle() {
        one(name);
        count += 1.0;
        if begun.elapsed() > TIME {
            break;
        }
    }
    count / begun.elapsed().as_secs_f64()
}

fn write_and_sync(path: &Path, content: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
}

fn read(path: &Path, bytes: usize) {
    assert_eq!(std::fs::read(path).unwrap().len(), bytes);
}

/// A writer alone, a reader alone, and each of them beside the other.
fn row(
    who: &str,
    bytes: usize,
    write: impl Fn(&str) + Send + Sync,
    read: impl Fn(&str) + Send + Sync,
) {
    let alone = [rate(&write), rate(&read)];
    let both = std::thread::scope(|scope| {
        let writer = scope.spawn(|| rate(&write));
        [rate(&read), writer.join().unwrap()]
    });
    let [written, read, read_beside, written_beside] =
        [alone[0], alone[1], both[0], both[1]].map(|rate| {
            let megabytes = rate * bytes as f64 / 1e6;
            format!("{rate:.0}/s, {megabytes:.0} MB/s")
        });
    println!("| {who} | {bytes} | {written} | {read} | {written_beside} | {read_beside} |");
}

/// A second endpoint of this process.
async fn another_client(service: &Service) -> Client {
    let vm = service.node.node().vm_named("files").unwrap();
    let endpoint = AsyncEndpoint::bind(move || vm.bind_additional(None)).await.unwrap();
    Client::new(endpoint, Config::default())
}

#[test]
#[ignore = "a measurement"]
fn files_a_second() {
    if !is_possible("files_a_second") {
        return;
    }
    watchdog(600);
    let service = Service::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let writer = Files::of(first.block_on(connect(&service)));
    let reader = Files::of(second.block_on(another_client(&service)));
    let mount = Mount::start(&service);
    let plain = service.folder.join("plain");
    std::fs::create_dir_all(&plain).unwrap();
    println!("| | bytes | a writer | a reader | a writer beside a reader | that reader |");
    println!("|---|---|---|---|---|---|");
    for bytes in [4_096, 65_536, 1 << 20] {
        let content = vec![7; bytes];
        row(
            "plain folder",
            bytes,
            |name| write_and_sync(&plain.join(name), &content),
            |name| read(&plain.join(name), bytes),
        );
        row(
            "client",
            bytes,
            |name| {
                first.block_on(writer.put(name, &content)).unwrap();
            },
            |name| {
                let found = second.block_on(reader.get(name)).unwrap();
                assert_eq!(found.map(|it| it.len()), Some(bytes));
            },
        );
        row(
            "mount",
            bytes,
            |name| write_and_sync(&mount.path(name), &content),
            |name| read(&mount.path(name), bytes),
        );
    }
}
