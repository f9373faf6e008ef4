//! Directions whose messages need wakeup bytes rest in the kernel, and return to their rings: no
//! byte is lost, comes twice or out of order, and no wakeup byte is read as data.
//!
//! Nobody spins here, so each message to a receiver that sleeps needs a wakeup byte.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;

fn prepare_once() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let home = std::env::temp_dir().join(format!("m3-rest-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        // SAFETY: the other tests wait for this one, and read the environment in here alone.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        prepare(Settings {
            upgrade_after_calls: 0,
            spin_ns: 0,
            same_process: true,
            by_message: false,
            ..Settings::default()
        });
    });
}

fn unix() -> [End; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    [one.into(), other.into()].map(|fd: OwnedFd| End::new(fd, true))
}

fn tcp() -> [End; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    [one.into(), other.into()].map(|fd: OwnedFd| End::new(fd, true))
}

/// Sends a message and receives it at the other end, in pieces; sometimes after a peek.
fn trip(from: &End, to: &End, stream: u64, at: &mut u64, bytes: usize) {
    let wanted: Vec<u8> = (0..bytes as u64).map(|next| byte(stream, *at + next)).collect();
    from.send_all(&wanted).unwrap();
    let mut got = vec![0; bytes];
    if at.is_multiple_of(7) {
        let peeked = to.receive(&mut got, libc::MSG_PEEK).unwrap();
        assert_eq!(got[..peeked], wanted[..peeked], "a peek from byte {at} on");
    }
    let (first, rest) = got.split_at_mut(bytes / 2);
    to.receive_all(first).unwrap();
    to.receive_all(rest).unwrap();
    assert_eq!(got, wanted, "from byte {at} on");
    *at += bytes as u64;
}

/// Both directions, message by message: the trips until the rests and returns of each.
fn rests_and_returns(ends: &[End; 2]) {
    let (mut at, mut rng) = ([0, 0], fastrand::Rng::with_seed(3));
    let (mut rests, mut returns, mut was_in_ring) = (0, 0, false);
    for _trip in 0..8_000 {
        for (from, stream) in [(0, 0_u64), (1, 1)] {
            let bytes = 1 + rng.usize(..400);
            trip(&ends[from], &ends[1 - from], stream, &mut at[from], bytes);
        }
        let in_ring = ends[0].socket.unwrap().sends_in_ring();
        rests += u32::from(was_in_ring && !in_ring);
        returns += u32::from(!was_in_ring && in_ring);
        was_in_ring = in_ring;
    }
    // The first return is the first switch. The rests have 1,024 and 4,096 sends.
    assert!(rests >= 3 && returns >= 3, "{rests} rests, {returns} returns");
}

#[test]
fn a_direction_with_many_wakeup_bytes_rests_and_returns() {
    prepare_once();
    let before = counters::read_pins(PinReason::Wakeups);
    rests_and_returns(&unix());
    rests_and_returns(&tcp());
    assert!(counters::read_pins(PinReason::Wakeups) >= before + 12);
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// Receives that sleep in the kernel, while the other thread returns to its ring.
fn echo_with_sleeping_receives(ends: [End; 2], messages: u64) {
    let [client, server] = &ends;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut data = [0; 200];
            loop {
                let got = server.receive(&mut data, 0).unwrap();
                if got == 0 {
                    return;
                }
                server.send_all(&data[..got]).unwrap();
            }
        });
        let (mut at, mut rng) = (0_u64, fastrand::Rng::with_seed(5));
        for message in 0..messages {
            let bytes = 1 + rng.usize(..150);
            let sent: Vec<u8> = (0..bytes as u64).map(|next| byte(2, at + next)).collect();
            client.send_all(&sent).unwrap();
            let mut got = vec![0; bytes];
            client.receive_all(&mut got).unwrap();
            assert_eq!(got, sent, "message {message}");
            at += bytes as u64;
        }
        client.end_sending();
    });
}

#[test]
fn receives_that_sleep_take_no_wakeup_byte() {
    prepare_once();
    echo_with_sleeping_receives(unix(), 12_000);
    echo_with_sleeping_receives(tcp(), 12_000);
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// A thread that sleeps in a receive nearly all the time, and senders of their own on both sides:
/// the returns to the ring meet receives past it.
#[test]
fn a_switch_to_the_ring_meets_no_receive_past_it() {
    prepare_once();
    const BYTES: u64 = 300_000;
    let ends = unix();
    std::thread::scope(|scope| {
        for end in [0, 1] {
            let (from, to) = (&ends[end], &ends[1 - end]);
            scope.spawn(move || {
                let mut at = 0;
                let mut rng = fastrand::Rng::with_seed(7 + end as u64);
                while at < BYTES {
                    let bytes = (1 + rng.u64(..30)).min(BYTES - at);
                    let data: Vec<u8> = (at..at + bytes).map(|at| byte(end as u64, at)).collect();
                    from.send_all(&data).unwrap();
                    at += bytes;
                    if rng.u8(..4) > 0 {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(move || {
                let (mut at, mut data) = (0, [0; 64]);
                while at < BYTES {
                    let got = to.receive(&mut data, 0).unwrap();
                    for have in &data[..got] {
                        assert_eq!(*have, byte(end as u64, at), "byte {at}");
                        at += 1;
                    }
                }
            });
        }
    });
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// A descriptor that is pinned while it rests stays in the kernel.
#[test]
fn a_pin_ends_all_rests() {
    prepare_once();
    let ends = unix();
    let mut at = 0;
    let in_ring = || ends[0].socket.unwrap().sends_in_ring();
    while !in_ring() {
        trip(&ends[0], &ends[1], 0, &mut at, 9);
    }
    while in_ring() {
        trip(&ends[0], &ends[1], 0, &mut at, 9);
        assert!(at < 9_000, "the direction never rests");
    }
    assert!(ends[0].socket.unwrap().pin(PinReason::Flag));
    for _trip in 0..1_000 {
        trip(&ends[0], &ends[1], 0, &mut at, 9);
        assert!(!in_ring());
    }
}
