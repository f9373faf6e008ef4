//! Members that write random values into all their memory harm their own connections alone.

use crate::fixture::Fixture;
use m3ipc_sockets::{Errno, ReceiveOptions};
use m3ipc_test_fixture::{pattern, sum, until};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

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
