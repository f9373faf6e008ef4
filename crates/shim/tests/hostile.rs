//! A peer that writes garbage into the shared memory breaks its own connection and nothing else.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::counters::{self, Counter, process_word};
use m3ipc_shim::kernel::process::now_ticks;
use m3ipc_shim::kernel::socket::cookie;
use m3ipc_shim::memory::layout::{PAIR_BYTES, half, pair};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a half that a round may overwrite.
const HALF_BYTES: usize = half::RECEIVING + 8;
const LOCKS: [usize; 2] = [half::SEND_LOCK, half::RECEIVE_LOCK];

/// The words of the pair of a socket, mapped as a hostile process would map them.
fn words(home: &Path, end: &End) -> impl Fn(usize) -> &'static AtomicU64 + use<> {
    let directory = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    let cookie = cookie(end.fd.as_raw_fd()).unwrap();
    let path = directory.join(format!("{cookie:016x}"));
    let file = File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: a new mapping of a file that is this long, never taken back.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAIR_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let base = base as usize;
    move |offset| {
        assert!(offset + 8 <= PAIR_BYTES);
        // SAFETY: inside the mapping, aligned, atomic.
        unsafe { &*((base + offset) as *const AtomicU64) }
    }
}

/// The word of a lock that a living thread of another process seems to hold.
fn held_by_another() -> u64 {
    process_word(std::os::unix::process::parent_id(), now_ticks())
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
    let settings = Settings {
        ring_bytes: 4096,
        upgrade_after_calls: 0,
        always_wake: false,
        spin_ns: 1000,
        same_process: true,
        pins_bulk: false,
        rests: false,
        by_message: false,
        on: true,
    };
    prepare(settings);
    let mut rng = fastrand::Rng::with_seed(99);
    let good = ends();
    let mut good_bytes = [0; 2];
    assert!(exchange(&good, &mut rng, &mut good_bytes));
    for round in 0..400 {
        // In the last rounds, small messages go through the kernel.
        prepare(Settings { by_message: round >= 300, ..settings });
        let bad = ends();
        let mut bytes = [0; 2];
        for _ in 0..3 {
            exchange(&bad, &mut rng, &mut bytes);
        }
        let word = words(&home, &bad[0]);
        for _ in 0..1 + rng.usize(..6) {
            let inside = 8 * rng.usize(..HALF_BYTES / 8);
            let half = pair::HALVES[rng.usize(..2)];
            let value = match rng.u32(..5) {
                0 => 0,
                1 => u64::MAX,
                2 => rng.u64(..9000),
                _ => rng.u64(..),
            };
            let is_lock = LOCKS.contains(&inside);
            let value = if is_lock && rng.u32(..8) == 0 { held_by_another() } else { value };
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
    assert!(counters::read(Counter::LockTimeouts) > 0);
    std::fs::remove_dir_all(&home).unwrap();
}
