//! The memory of a ring: a page at first, more with the traffic, a page again when idle.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use m3ipc_shim::connection::idle_rings::{LOOK_NS, is_looking, look_now_and_then};
use m3ipc_shim::connection::ring_extent::any_large;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::kernel::socket::cookie;
use m3ipc_shim::memory::layout::{PAIR_BYTES, half, pair};
use m3ipc_shim::settings::Settings;
use m3ipc_shim::{monotonic_ns, prepare};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The file of the only pair.
fn file_of(home: &Path, end: &End) -> PathBuf {
    let directory = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    directory.join(format!("{:016x}", cookie(end.fd.as_raw_fd()).unwrap()))
}

fn kilobytes(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().blocks() / 2
}

fn exchange(from: &End, to: &End, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut got = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        let now = from.send(&sent[done..]).unwrap();
        to.receive_all(&mut got[done..done + now]).unwrap();
        done += now;
    }
    assert!(sent == got, "a message of {bytes} bytes");
}

#[test]
fn a_ring_grows_with_its_messages_and_shrinks_when_it_is_idle() {
    let home = PathBuf::from(format!("/dev/shm/m3sock-test-{}", std::process::id()));
    std::fs::create_dir(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings {
        upgrade_after_calls: 0,
        spin_ns: 0,
        same_process: true,
        rests: false,
        by_message: false,
        ..Settings::default()
    });
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let [one, other] = [End::new(one.into(), true), End::new(other.into(), true)];
    for _trip in 0..10 {
        exchange(&one, &other, 100);
        exchange(&other, &one, 100);
    }
    assert_eq!(counters::read(Counter::Upgrades), 2);
    let file = file_of(&home, &one);
    assert_eq!(kilobytes(&file), 12, "a page of words, a page of each ring");
    // Many laps of small messages need no more.
    (0..5000).for_each(|_trip| exchange(&one, &other, 100));
    assert!(kilobytes(&file) == 12 && !any_large());

    let before = counters::read(Counter::KernelBytes);
    exchange(&one, &other, 30_000);
    assert_eq!(counters::read(Counter::KernelBytes), before, "the ring takes the message whole");
    assert!(any_large());
    assert_eq!(kilobytes(&file), 8 + 32);
    exchange(&one, &other, 200_000);
    assert_eq!(kilobytes(&file), 8 + 64);

    // Sends look by the time of now, so they find this hour later than their own.
    let hour_later_ns = monotonic_ns() + 3_600_000_000_000;
    let look_at = |second: u64, ns: u64| look_now_and_then(hour_later_ns + LOOK_NS * second + ns);
    // The first look remembers how far the sender came; the second one finds no later byte.
    look_at(10, 0);
    exchange(&one, &other, 100);
    look_at(11, 0);
    assert!(any_large(), "the ring was in use");
    // Bytes lie in the ring.
    one.send_all(b"some bytes").unwrap();
    look_at(12, 0);
    look_at(13, 0);
    assert!(any_large());
    other.receive_all(&mut [0; 10]).unwrap();
    look_at(13, 1);
    assert!(any_large(), "two looks within a second are one");
    look_at(14, 0);
    assert_eq!((any_large(), kilobytes(&file)), (false, 12));
    (0..5000).for_each(|_trip| exchange(&one, &other, 100));
    exchange(&one, &other, 60_000);
    assert_eq!(kilobytes(&file), 8 + 64, "it grows again");

    // A part of a look takes 32 rings. The next part follows after ten milliseconds.
    let others: Vec<[End; 2]> = (0..40)
        .map(|_pair| {
            let (one, other) = UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            [End::new(one.into(), true), End::new(other.into(), true)]
        })
        .collect();
    for [from, to] in &others {
        (0..10).for_each(|_trip| (exchange(from, to, 100), exchange(to, from, 100)).0);
        exchange(from, to, 60_000);
    }
    look_at(15, 0);
    look_at(16, 10);
    assert!(is_looking() && any_large());
    look_at(16, 11);
    assert!(is_looking(), "too early");
    look_at(16, 20_000_000);
    assert!(!is_looking() && !any_large());
    drop(others);
    exchange(&one, &other, 60_000);

    // A peer names a larger ring than the sender has memory for: the sender takes more first.
    look_at(18, 0);
    look_at(19, 0);
    assert_eq!(kilobytes(&file), 12);
    let words = std::fs::File::options().read(true).write(true).open(&file).unwrap();
    for half in pair::HALVES {
        words.write_all_at(&65536_u64.to_ne_bytes(), (half + half::RING_BYTES) as u64).unwrap();
    }
    exchange(&one, &other, 100);
    assert!(any_large() && kilobytes(&file) == 8 + 64);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), PAIR_BYTES as u64);

    // The system keeps memory that the process locked. The ring stays as large as it is.
    // SAFETY: no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) } == 0 {
        look_at(21, 0);
        look_at(22, 0);
        assert!(any_large() && kilobytes(&file) == 8 + 64, "the memory stays");
        let before = counters::read(Counter::KernelBytes);
        exchange(&one, &other, 60_000);
        assert_eq!(counters::read(Counter::KernelBytes), before);
        // SAFETY: no pointers.
        unsafe { libc::munlockall() };
    }
    look_at(24, 0);
    look_at(25, 0);
    assert_eq!((any_large(), kilobytes(&file)), (false, 12));
    exchange(&one, &other, 60_000);
    assert!(any_large());

    drop((one, other));
    assert!(!any_large(), "a closed socket has no ring");
    std::fs::remove_dir_all(&home).unwrap();
}
