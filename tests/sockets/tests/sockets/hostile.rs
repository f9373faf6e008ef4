//! Members that write random values into all their memory harm their own connections alone.

use crate::fixture::Fixture;
use m3ipc_sockets::{Errno, Interest, Mode, Poller, ReceiveOptions, Stream};
use m3ipc_test_fixture::{pattern, sum, until};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of spoiled connections in the test.
const SPOILED: u64 = 150;

#[test]
fn garbage_harms_no_other_connection() {
    let fixture = Fixture::new("hostile");
    let listener = fixture.domain.listen(5, 64).unwrap();
    let _sum = fixture.peer(1, "sum", 80);
    let mut sound = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    let _one = fixture.peer(2, "garbage", fixture.at(0, 5));
    let _two = fixture.peer(3, "garbage", fixture.at(0, 5));
    let met = AtomicU64::new(0);
    let broken = AtomicU64::new(0);
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while met.load(Ordering::Relaxed) < SPOILED {
                    let Ok((stream, _)) = listener.accept() else { continue };
                    met.fetch_add(1, Ordering::Relaxed);
                    broken.fetch_add(u64::from(use_spoiled(&stream)), Ordering::Relaxed);
                }
            });
        }
        let mut serial = 0;
        while met.load(Ordering::Relaxed) < SPOILED {
            let bytes = pattern(serial, 30_000);
            sound.write_all(&bytes).unwrap();
            all.extend(bytes);
            serial += 1;
        }
    });
    sound.shutdown(m3ipc_sockets::Direction::Send).unwrap();
    let mut said = String::new();
    sound.read_to_string(&mut said).unwrap();
    assert_eq!(said, format!("{} {}", all.len(), sum(&all)));
    assert!(broken.load(Ordering::Relaxed) > 0, "no rule was broken: the attack is none");
    until("the daemon serves", || fixture.domain.reserve(0).is_ok());
}

#[test]
fn garbage_harms_no_other_connection_of_a_poller() {
    let fixture = Fixture::new("hostile_loop");
    let listener = fixture.domain.listen(5, 64).unwrap();
    listener.set_nonblocking(true);
    let _echo = fixture.peer(1, "echo", 80);
    let mut sound = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    let _one = fixture.peer(2, "garbage", fixture.at(0, 5));
    let _two = fixture.peer(3, "garbage", fixture.at(0, 5));
    let poller = Poller::new().unwrap();
    poller.add(&sound, 0, Interest::Read, Mode::Level).unwrap();
    poller.add_descriptor(&listener, 1, Interest::Read, Mode::Level).unwrap();
    let mut spoiled: HashMap<u64, (Stream, u32)> = HashMap::new();
    let (mut events, mut met, mut echoed) = (vec![], 1, 0_u64);
    let mut bytes = vec![0; 20_000];
    sound.write_all(&echoed.to_le_bytes()).unwrap();
    while met < SPOILED || echoed < SPOILED {
        // The echo ends the wait, whatever the others write.
        poller.wait(&mut events, None).unwrap();
        for event in &events {
            match event.token {
                0 => {
                    // A late wakeup record: the bytes that it tells of were read before.
                    let count = match sound.read(&mut bytes[..8]) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                        read => read.unwrap(),
                    };
                    assert_eq!(bytes[..count], echoed.to_le_bytes());
                    echoed += 1;
                    sound.write_all(&echoed.to_le_bytes()).unwrap();
                }
                1 => {
                    let Ok((stream, _)) = listener.accept() else { continue };
                    met += 1;
                    poller.add(&stream, met, Interest::Read, Mode::Level).unwrap();
                    spoiled.insert(met, (stream, 0));
                }
                token => {
                    let Some((stream, looks)) = spoiled.get_mut(&token) else { continue };
                    *looks += 1;
                    let got = stream.receive(&mut bytes, ReceiveOptions::default());
                    let sent = stream.send(&[7; 3000], false);
                    let is_over = |done| !matches!(done, Ok(1..) | Err(Errno::AGAIN));
                    if is_over(got) || is_over(sent) || *looks > 400 {
                        spoiled.remove(&token);
                    }
                }
            }
        }
    }
}

/// Uses a connection of a hostile member until it ends; whether the member broke the rules.
fn use_spoiled(stream: &m3ipc_sockets::Stream) -> bool {
    let mut bytes = vec![0; 20_000];
    for round in 0..400_usize {
        let how = ReceiveOptions { wait: false, peek: round % 7 == 0 };
        for done in
            [stream.receive(&mut bytes, how), stream.send(&[round.to_le_bytes()[0]; 3000], false)]
        {
            match done {
                Ok(0) => return false,
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(errno) => return errno == Errno::PROTO,
            }
        }
        let _ = stream.available();
        std::thread::yield_now();
    }
    false
}

#[test]
fn a_false_count_of_bytes_does_not_keep_a_poller_awake() {
    let fixture = Fixture::new("claims");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let _claims = fixture.peer(1, "claims", fixture.at(0, 5));
    let (stream, _) = listener.accept().unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&stream, 1, Interest::Read, Mode::Level).unwrap();
    let mut events = vec![];
    let mut waits = (0..100).map(|_| {
        poller.wait(&mut events, Some(Duration::from_millis(20))).unwrap();
        let looked = stream.receive(&mut [0; 8], ReceiveOptions::default());
        assert_eq!(looked, Err(Errno::AGAIN));
        events.len()
    });
    assert!(waits.any(|count| count == 0), "no wait sleeps to its limit");
}
