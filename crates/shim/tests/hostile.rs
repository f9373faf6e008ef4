//! A peer that writes anything into the shared memory: its connection suffers, and nothing else.
#![cfg(not(loom))]
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "two/end.rs"]
#[allow(dead_code)]
mod end;

use end::{Dice, End, byte};
use m3ipc_shim::count::{self, Count};
use m3ipc_shim::engine::{Settings, settle};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where pairs begin in the file, and how far they are apart; the words of both ways of a pair.
const FIRST: usize = 152 * 1024;
const APART: usize = 4096 + 2 * 64 * 1024;
const WAYS: std::ops::Range<usize> = 64..192;
const LOCKS: [usize; 2] = [40, 152];

/// The file, mapped as a hostile process would.
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

/// Sends and receives some bytes each way; whether they arrived, and were right.
fn exchange(ends: &[End; 2], dice: &mut Dice, right: &mut [u64; 2]) -> bool {
    let mut piece = vec![0; 3000];
    for way in [0, 1] {
        let (from, to) = (&ends[way], &ends[1 - way]);
        let size = 1 + dice.roll(2000);
        let data: Vec<u8> = (0..size as u64).map(|at| byte(way as u64, right[way] + at)).collect();
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
        right[way] += sent as u64;
    }
    true
}

#[test]
fn whatever_lies_in_the_memory_ends_one_connection_at_most() {
    let home = std::env::temp_dir().join(format!("m3-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    settle(Settings {
        ring_bytes: 4096,
        upgrade_after_calls: 0,
        always_token: false,
        spin_ns: 1000,
        same_process: true,
        on: true,
    });
    let mut dice = Dice(99);
    // The good connection's pair is the first, and each hostile one's the next free: the second.
    let good = ends();
    let mut good_bytes = [0; 2];
    assert!(exchange(&good, &mut dice, &mut good_bytes));
    let word = words(&home);
    for round in 0..300 {
        let bad = ends();
        let mut bytes = [0; 2];
        for _ in 0..3 {
            exchange(&bad, &mut dice, &mut bytes);
        }
        let pair = (1..64)
            .map(|number| FIRST + number * APART)
            .find(|at| {
                word(at + 144).load(Ordering::Relaxed) == 0
                    && word(at + 512).load(Ordering::Relaxed) > 0
            })
            .expect("the pair of the bad connection, which nobody closed");
        for _ in 0..1 + dice.roll(6) {
            let inside = 8 * dice.roll(WAYS.end / 8 - WAYS.start / 8 + 8);
            let way = pair + 512 * (1 + dice.roll(2));
            let value = match dice.roll(5) {
                0 => 0,
                1 => u64::MAX,
                2 => dice.roll(9000) as u64,
                _ => (dice.roll(1 << 30) as u64) << 33 | dice.roll(1 << 30) as u64,
            };
            // A lock that a living thread seems to hold is waited for, for ten seconds: a test of its own.
            let value = if LOCKS.contains(&inside) { value | 1 << 40 } else { value };
            word(way + inside).store(value, Ordering::Relaxed);
            for _ in 0..3 {
                exchange(&bad, &mut dice, &mut bytes);
            }
        }
        assert!(exchange(&good, &mut dice, &mut good_bytes), "round {round}");
    }
    assert!(count::read(Count::Nonsense) > 20, "only {} were found", count::read(Count::Nonsense));
    assert!(count::read(Count::RingBytes) > 100_000);
    std::fs::remove_dir_all(&home).unwrap();
}
