//! Small messages that would need a wakeup byte go through the kernel, large ones through the ring:
//! a direction may change its route with each message. No byte is lost, comes twice or out of
//! order, and no wakeup byte is read as data.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::buffers::Buffers;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Prepares the library; one test at a time, since the counters are those of the process.
fn begin() -> MutexGuard<'static, bool> {
    static PREPARED: Mutex<bool> = Mutex::new(false);
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*prepared {
        let home = std::env::temp_dir().join(format!("m3-by-message-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        // SAFETY: the other tests wait for this one, and read the environment in here alone.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        prepare(Settings { upgrade_after_calls: 0, same_process: true, ..Settings::default() });
        *prepared = true;
    }
    prepared
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

fn data(stream: u64, at: u64, bytes: u64) -> Vec<u8> {
    (at..at + bytes).map(|at| byte(stream, at)).collect()
}

/// Sends a message and receives it at the other end, which does not wait for it.
fn trip(from: &End, to: &End, stream: u64, at: &mut u64, bytes: u64) {
    let wanted = data(stream, *at, bytes);
    from.send_all(&wanted).unwrap();
    let mut got = vec![0; wanted.len()];
    to.receive_all(&mut got).unwrap();
    assert!(got == wanted, "from byte {at} on");
    *at += bytes;
}

#[test]
fn a_small_message_to_a_receiver_that_sleeps_has_no_wakeup_byte() {
    let _one = begin();
    for ends in [unix(), tcp()] {
        let before = counters::read(Counter::Wakeups);
        let mut at = [0, 0];
        for message in 0..1_000 {
            for from in [0, 1] {
                trip(&ends[from], &ends[1 - from], from as u64, &mut at[from], 1 + message % 600);
            }
        }
        assert_eq!(counters::read(Counter::Wakeups), before);
    }
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

#[test]
fn the_route_changes_with_the_size_of_each_message() {
    let _one = begin();
    for ends in [unix(), tcp()] {
        let (mut at, mut changes, mut was_in_ring) = (0, 0, false);
        for message in 0..400 {
            trip(&ends[0], &ends[1], 0, &mut at, if message % 2 == 0 { 90 } else { 3_000 });
            let in_ring = ends[0].socket.unwrap().sends_in_ring();
            changes += u32::from(in_ring != was_in_ring);
            was_in_ring = in_ring;
        }
        // The first switch waits for a moment without unread bytes.
        assert!(changes > 300, "{changes} changes of the route");
    }
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// A thread that sends and one that receives for each direction, with messages of both kinds:
/// receives that spin, that sleep past the ring, and that take what is there meet each change of
/// the route.
fn stream_both_ways(ends: &[End; 2], seed: u64) {
    const BYTES: u64 = 2_000_000;
    std::thread::scope(|scope| {
        for end in [0, 1] {
            let (from, to, stream) = (&ends[end], &ends[1 - end], end as u64);
            scope.spawn(move || {
                let (mut at, mut rng) = (0, fastrand::Rng::with_seed(seed + stream));
                while at < BYTES {
                    // The largest leave a small rest behind their first piece in the ring.
                    let (least, most) = match rng.u8(..16) {
                        0 => (16_385, 2_000),
                        1 | 2 => (1, 5_000),
                        _ => (1, 60),
                    };
                    let bytes = (least + rng.u64(..most)).min(BYTES - at);
                    from.send_all(&data(stream, at, bytes)).unwrap();
                    at += bytes;
                    if rng.u8(..4) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(move || {
                let (mut at, mut room) = (0, [0; 700]);
                let mut rng = fastrand::Rng::with_seed(seed + 7 + stream);
                while at < BYTES {
                    if rng.u8(..16) == 0 {
                        std::thread::yield_now();
                    }
                    let got = to.receive(&mut room, 0).unwrap();
                    assert!(got > 0, "an end after byte {at}");
                    assert!(room[..got] == data(stream, at, got as u64), "from byte {at} on");
                    at += got as u64;
                }
            });
        }
    });
}

#[test]
fn each_change_of_the_route_keeps_the_stream() {
    let _one = begin();
    let before = counters::read(Counter::RingBytes);
    let in_ring = || counters::read(Counter::RingBytes) > before;
    // The first switch waits for a moment without unread bytes, which a busy machine may not have.
    for seed in (0..30).take_while(|seed| *seed < 3 || !in_ring()) {
        stream_both_ways(&unix(), seed);
        stream_both_ways(&tcp(), seed);
    }
    assert!(in_ring(), "no byte went through a ring");
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// One asks, the other answers, and both sleep in their receives, or spin there.
#[test]
fn an_answer_finds_a_receive_that_spins_or_sleeps() {
    let _one = begin();
    for ends in [unix(), tcp()] {
        let [client, server] = &ends;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut room = [0; 200];
                loop {
                    match server.receive(&mut room, 0).unwrap() {
                        0 => return,
                        got => server.send_all(&room[..got]).unwrap(),
                    }
                }
            });
            let (mut at, mut rng) = (0, fastrand::Rng::with_seed(11));
            for message in 0..8_000 {
                let sent = data(2, at, 1 + rng.u64(..150));
                client.send_all(&sent).unwrap();
                let mut got = vec![0; sent.len()];
                client.receive_all(&mut got).unwrap();
                assert!(got == sent, "message {message}");
                at += sent.len() as u64;
            }
            client.end_sending();
        });
    }
    assert_eq!(counters::read(Counter::Corrupt), 0);
}

/// A thread that is cancelled in a receive past the ring never says that the receive has ended.
#[test]
fn a_receive_whose_thread_has_ended_keeps_no_connection_in_the_kernel() {
    let _one = begin();
    for ends in [unix(), tcp()] {
        let mut at = [0, 0];
        // Few messages, so that no direction rests. The last one leaves the ring.
        for bytes in [90, 3_000, 90] {
            for from in [0, 1] {
                trip(&ends[from], &ends[1 - from], from as u64, &mut at[from], bytes);
            }
        }
        std::thread::scope(|scope| {
            let left = scope.spawn(|| {
                (0..64).any(|_try| {
                    let mut room = [0; 10];
                    let mut run = [Buffers::run(&mut room)];
                    let buffers = Buffers::from_mut(&mut run);
                    let outcome =
                        ends[1].socket.unwrap().receive(Some(buffers), libc::MSG_DONTWAIT);
                    matches!(outcome, Outcome::Counted(_))
                })
            });
            assert!(left.join().unwrap(), "no receive went past the ring");
        });
        let mut in_ring = 0;
        for _message in 0..200 {
            trip(&ends[0], &ends[1], 0, &mut at[0], 3_000);
            in_ring += u32::from(ends[0].socket.unwrap().sends_in_ring());
        }
        assert!(in_ring > 100, "{in_ring} of 200 large messages found the ring");
    }
    assert_eq!(counters::read(Counter::Corrupt), 0);
}
