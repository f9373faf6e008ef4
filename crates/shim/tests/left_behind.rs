//! What a killed process leaves behind: the next connections find their memory, and remove the
//! rest.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::kernel::process::now_ticks;
use m3ipc_shim::kernel::socket::cookie;
use m3ipc_shim::memory::layout::{PAIR_BYTES, half, pair};
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory of this user's memory, in a directory of this test.
fn directory() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = std::env::temp_dir().join(format!("m3-left-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir(&home).unwrap();
        // SAFETY: before another thread looks at the environment: the first caller waits here.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        prepare(Settings {
            ring_bytes: 4096,
            upgrade_after_calls: 0,
            always_wake: false,
            spin_ns: 0,
            same_process: true,
            pins_bulk: false,
            rests: false,
            by_message: false,
            on: true,
        });
        let [one, other] = ends();
        trip(&one, &other);
        std::fs::read_dir(&home).unwrap().next().unwrap().unwrap().path()
    })
}

fn ends() -> [End; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    [End::new(one.into(), true), End::new(other.into(), true)]
}

fn trip(from: &End, to: &End) {
    from.send_all(b"some bytes").unwrap();
    let mut got = [0; 10];
    to.receive_all(&mut got).unwrap();
    assert_eq!(&got, b"some bytes");
}

fn path(cookie: u64) -> PathBuf {
    directory().join(format!("{cookie:016x}"))
}

fn cookie_of(end: &End) -> u64 {
    cookie(end.fd.as_raw_fd()).unwrap()
}

/// A process number that no process has.
fn dead_process() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(directory()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn files_of_dead_processes_and_sockets_are_removed() {
    directory();
    let dead = dead_process();
    let left = [format!("t{dead}-0"), format!("p{dead}")];
    for name in &left {
        File::create(directory().join(name)).unwrap();
    }
    for _ in 0..100 {
        let [one, other] = ends();
        trip(&one, &other);
        trip(&other, &one);
    }
    let now = names();
    assert!(left.iter().all(|name| !now.contains(name)), "{now:?}");
    assert!(now.len() < 100, "200 names were made, and {} are left", now.len());
}

#[test]
fn a_pair_whose_maker_died_before_its_second_name_gets_it() {
    directory();
    let [one, other] = ends();
    let mut cookies = [cookie_of(&one), cookie_of(&other)];
    cookies.sort_unstable();
    trip(&one, &other);
    std::fs::remove_file(path(cookies[1])).unwrap();
    // A process that gets the greater end finds no name, and asks for the pair as a maker does.
    let again = UnixStream::from(one.fd.try_clone().unwrap());
    let back = UnixStream::from(other.fd.try_clone().unwrap());
    let [one, other] = [End::new(again.into(), true), End::new(back.into(), true)];
    trip(&one, &other);
    trip(&other, &one);
    assert!(path(cookies[1]).exists());
}

#[test]
fn a_lock_that_a_living_thread_seems_to_hold_leaves_the_direction_in_the_kernel() {
    directory();
    let [one, other] = ends();
    let before = counters::read(Counter::Pins);
    // The pair exists, and no ring was used.
    one.send_all(b"first").unwrap();
    let file = File::options().write(true).open(path(cookie_of(&one))).unwrap();
    assert_eq!(file.metadata().unwrap().len(), PAIR_BYTES as u64);
    let word = counters::process_word(std::os::unix::process::parent_id(), now_ticks());
    for at in pair::HALVES {
        for lock in [half::SEND_LOCK, half::RECEIVE_LOCK] {
            file.write_all_at(&word.to_ne_bytes(), (at + lock) as u64).unwrap();
        }
    }
    let mut got = [0; 5];
    other.receive_all(&mut got).unwrap();
    assert_eq!(&got, b"first");
    for _ in 0..20 {
        trip(&one, &other);
        trip(&other, &one);
    }
    assert!(counters::read(Counter::Pins) >= before + 2);
    assert!(counters::read(Counter::LockTimeouts) > 0);
    assert_eq!(PinReason::Lock.name(), "lock");
}
