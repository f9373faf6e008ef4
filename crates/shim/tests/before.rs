//! Bytes of before the first turn to the ring: calls that the engine did not count must not count later.
#![cfg(not(loom))]
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "two/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::count::{self, Count};
use m3ipc_shim::engine::{Settings, settle};
use std::os::unix::net::UnixStream;

const RING: usize = 64;
/// Of each of the sends of before.
const PIECE: usize = 10;

/// Sends the next bytes of the stream.
fn send(from: &End, at: &mut u64, bytes: usize) {
    let data: Vec<u8> = (0..bytes as u64).map(|next| byte(0, *at + next)).collect();
    assert_eq!(from.send(&data).unwrap(), bytes);
    *at += bytes as u64;
}

/// Receives so many, which must be the next ones.
fn receive(to: &End, at: &mut u64, bytes: usize) {
    let mut data = vec![0; bytes];
    to.receive_all(&mut data).unwrap();
    let wanted: Vec<u8> = (0..bytes as u64).map(|next| byte(0, *at + next)).collect();
    assert_eq!(data, wanted, "from byte {at} on");
    *at += bytes as u64;
}

/// The sender's first calls are the kernel's own and uncounted, and the receiver takes them through the engine. Later, after
/// an overflow, as many bytes as those were lie unread in the kernel when the sender looks whether it may turn to the ring.
#[test]
fn a_way_turns_to_its_ring_only_where_the_kernel_has_nothing_left() {
    let home = std::env::temp_dir().join(format!("m3-before-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    settle(Settings {
        ring_bytes: u32::try_from(RING).unwrap(),
        upgrade_after_calls: 2,
        always_token: false,
        spin_ns: 0,
        same_process: true,
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
    // The turn is tried with growing gaps.
    while count::read(Count::RingBytes) == 0 {
        send(&from, &mut sent, PIECE);
        receive(&to, &mut got, PIECE);
        assert!(sent < 100_000, "it never turns to the ring");
    }
    for left in (0..=4 * PIECE).rev() {
        send(&from, &mut sent, RING + 5 * PIECE);
        receive(&to, &mut got, RING + 5 * PIECE - left);
        send(&from, &mut sent, 1);
        receive(&to, &mut got, left + 1);
        // All is read: it may turn now.
        send(&from, &mut sent, 1);
        receive(&to, &mut got, 1);
    }
    assert!(count::read(Count::Overflows) > 0 && count::read(Count::Nonsense) == 0);
    let _ = std::fs::remove_dir_all(&home);
}
