//! A message that is larger than its ring goes through it in parts. Its last part is a small one,
//! and finds an empty ring of a receiver that sleeps: the kernel carries whole messages in place of
//! their wakeup bytes, and never a message of which the ring had a part.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::{End, byte};
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const MESSAGES: u64 = 300;
/// More than a small message, so that the ring gets it.
const BYTES: u64 = 3_000;

fn data(at: u64, bytes: u64) -> Vec<u8> {
    (at..at + bytes).map(|at| byte(0, at)).collect()
}

fn stream_in_parts([from, to]: &[End; 2]) {
    // A message finds nothing unread in the kernel, so that the ring gets its first part.
    let (taken, is_taken) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for message in 0..MESSAGES {
                let sent = from.send_all(&data(message * BYTES, BYTES));
                if sent.is_err() || is_taken.recv().is_err() {
                    return;
                }
            }
        });
        let (mut at, mut room) = (0, [0; 700]);
        while at < MESSAGES * BYTES {
            // The receiver never polls in its call: each part would need a wakeup byte.
            let got = match to.receive(&mut room, libc::MSG_DONTWAIT) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                    continue;
                }
                got => got.unwrap(),
            };
            let is_right = got > 0 && room[..got] == data(at, got as u64);
            if !is_right {
                // The sender must not wait for ever.
                to.shut_down();
            }
            assert!(is_right, "{got} bytes from byte {at} on");
            at += got as u64;
            if at.is_multiple_of(BYTES) {
                taken.send(()).unwrap();
            }
        }
    });
}

#[test]
fn a_message_goes_to_the_kernel_whole_or_not_at_all() {
    let home = std::env::temp_dir().join(format!("m3-parts-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: this is the only test of its process.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    // The sender spins until the receiver has taken each part.
    prepare(Settings {
        upgrade_after_calls: 0,
        ring_bytes: 64,
        spin_ns: 20_000_000,
        pins_bulk: false,
        same_process: true,
        ..Settings::default()
    });
    let (one, other) = UnixStream::pair().unwrap();
    let unix = [one.into(), other.into()].map(|fd: OwnedFd| End::new(fd, true));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    let tcp = [one.into(), other.into()].map(|fd: OwnedFd| End::new(fd, true));
    for ends in [unix, tcp] {
        stream_in_parts(&ends);
    }
    assert!(counters::read(Counter::RingBytes) > BYTES, "no byte went through a ring");
    assert_eq!(counters::read(Counter::Corrupt), 0);
    let _ = std::fs::remove_dir_all(&home);
}
