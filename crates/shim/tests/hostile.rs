//! A peer that writes garbage into the shared memory breaks its own connection and nothing else.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::memory::layout::{FIRST_PAIR, PAIR_BYTES, half, pair};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a half that a round may overwrite.
const HALF_BYTES: usize = 192;
const LOCKS: [usize; 2] = [half::SEND_LOCK, half::RECEIVE_LOCK];

/// The words of the ring file, mapped as a hostile process would map them.
fn words(home: &Path) -> impl Fn(usize) -> &'static AtomicU64 {
    let path = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let bytes = usize::try_from(file.metadata().unwrap().len()).unwrap();
    // SAFETY: a new mapping of a file that is this long, never taken back.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base as usize;
    move |offset| {
        assert!(offset + 8 <= bytes);
        // SAFETY: inside the mapping, aligned, atomic.
        unsafe { &*((base + offset) as *const AtomicU64) }
    }
}

fn ends() -> [End; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    [End::new(one.into(), true), End::new(other.into(), true)]
}

/// Sends and receives some bytes in each direction; whether the right bytes arrived.
fn exchange(ends: &[End; 2], rng: &mut fastrand::Rng, right: &mut [u64; 2]) -> bool {
    let mut piece = vec![0; 3000];
    for side in [0, 1] {
        let (from, to) = (&ends[side], &ends[1 - side]);
        let size = 1 + rng.usize(..2000);
        let data: Vec<u8> =
            (0..size as u64).map(|at| byte(side as u64, right[side] + at)).collect();
        let Ok(sent) = from.send(&data) else { return false };
        let mut done = 0;
        while done < sent {
            match to.receive(&mut piece, 0) {
                Ok(got) if got > 0 && data.get(done..done + got) == Some(&piece[..got]) => {
                    done += got
                }
                _ => return false,
            }
        }
        right[side] += sent as u64;
    }
    true
}

#[test]
fn garbage_in_the_memory_ends_one_connection_at_most() {
    let home = std::env::temp_dir().join(format!("m3-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings {
        ring_bytes: 4096,
        upgrade_after_calls: 0,
        always_wake: false,
        spin_ns: 1000,
        same_process: true,
        on: true,
    });
    let mut rng = fastrand::Rng::with_seed(99);
    // The good connection has the first pair. Each hostile connection gets the next free pair.
    let good = ends();
    let mut good_bytes = [0; 2];
    assert!(exchange(&good, &mut rng, &mut good_bytes));
    let word = words(&home);
    for round in 0..300 {
        let bad = ends();
        let mut bytes = [0; 2];
        for _ in 0..3 {
            exchange(&bad, &mut rng, &mut bytes);
        }
        let at = (1..64)
            .map(|number| FIRST_PAIR + number * PAIR_BYTES)
            .find(|at| {
                word(at + pair::CLOSED[0]).load(Ordering::Relaxed) == 0
                    && word(at + pair::HALVES[0]).load(Ordering::Relaxed) > 0
            })
            .expect("the pair of the hostile connection, which is open");
        for _ in 0..1 + rng.usize(..6) {
            let inside = 8 * rng.usize(..HALF_BYTES / 8);
            let half = at + pair::HALVES[rng.usize(..2)];
            let value = match rng.u32(..5) {
                0 => 0,
                1 => u64::MAX,
                2 => rng.u64(..9000),
                _ => rng.u64(..),
            };
            // A waiter believes for ten seconds in a lock that a living thread seems to hold, so no
            // lock gets the number of a thread here.
            let value = if LOCKS.contains(&inside) { value | 1 << 40 } else { value };
            word(half + inside).store(value, Ordering::Relaxed);
            for _ in 0..3 {
                exchange(&bad, &mut rng, &mut bytes);
            }
        }
        assert!(exchange(&good, &mut rng, &mut good_bytes), "round {round}");
    }
    assert!(
        counters::read(Counter::Corrupt) > 20,
        "only {} were found",
        counters::read(Counter::Corrupt)
    );
    assert!(counters::read(Counter::RingBytes) > 100_000);
    std::fs::remove_dir_all(&home).unwrap();
}
