//! Bytes from before the first switch to the ring: calls that the library did not count must not
//! count later.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::os::unix::net::UnixStream;

const RING: usize = 64;
/// Bytes of each send before the first switch.
const PIECE: usize = 10;

/// Sends the next bytes of the stream.
fn send(from: &End, at: &mut u64, bytes: usize) {
    let data: Vec<u8> = (0..bytes as u64).map(|next| byte(0, *at + next)).collect();
    assert_eq!(from.send(&data).unwrap(), bytes);
    *at += bytes as u64;
}

/// Receives so many bytes, which must be the next of the stream.
fn receive(to: &End, at: &mut u64, bytes: usize) {
    let mut data = vec![0; bytes];
    to.receive_all(&mut data).unwrap();
    let wanted: Vec<u8> = (0..bytes as u64).map(|next| byte(0, *at + next)).collect();
    assert_eq!(data, wanted, "from byte {at} on");
    *at += bytes as u64;
}

/// The sender's first calls are the kernel's own and uncounted; the receiver takes their bytes
/// through the library. Later, after an overflow, as many bytes lie unread in the kernel when the
/// sender checks whether it may switch to the ring.
#[test]
fn a_direction_switches_to_its_ring_only_when_the_kernel_is_empty() {
    let home = std::env::temp_dir().join(format!("m3-first-switch-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings {
        ring_bytes: u32::try_from(RING).unwrap(),
        upgrade_after_calls: 2,
        always_wake: false,
        spin_ns: 0,
        same_process: true,
        pins_bulk: false,
        rests: false,
        by_message: false,
        on: true,
    });
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    let (from, to) = (End::new(one.into(), true), End::new(other.into(), true));
    let (mut sent, mut got) = (0, 0);
    for _ in 0..3 {
        send(&from, &mut sent, PIECE);
    }
    receive(&to, &mut got, 3 * PIECE);
    // The gaps between attempts of the switch grow.
    while counters::read(Counter::RingBytes) == 0 {
        send(&from, &mut sent, PIECE);
        receive(&to, &mut got, PIECE);
        assert!(sent < 100_000, "the direction never switches to the ring");
    }
    for left in (0..=4 * PIECE).rev() {
        send(&from, &mut sent, RING + 5 * PIECE);
        receive(&to, &mut got, RING + 5 * PIECE - left);
        send(&from, &mut sent, 1);
        receive(&to, &mut got, left + 1);
        // The receiver has read all bytes: the direction may switch now.
        send(&from, &mut sent, 1);
        receive(&to, &mut got, 1);
    }
    assert!(counters::read(Counter::Overflows) > 0 && counters::read(Counter::Corrupt) == 0);
    let _ = std::fs::remove_dir_all(&home);
}
