//! Streams between two processes: bytes, ends, refusals.

use crate::fixture::Fixture;
use m3ipc_sockets::{Direction, Errno, ReceiveOptions, Stream};
use m3ipc_test_fixture::{pattern, readiness, signals, sum, until};
use std::io::{Read, Write};

#[test]
fn bytes_of_any_length_come_back_as_they_went() {
    let fixture = Fixture::new("echo");
    let _echo = fixture.peer(1, "echo", 80);
    let mut stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    for length in [1_usize, 2, 7, 8, 9, 255, 256, 4095, 8191, 8192, 8193, 20_000, 65_536, 200_000] {
        let sent = pattern(length as u64, length);
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; length];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent, "{length} bytes came back changed");
    }
    let counters = fixture.counters();
    assert_eq!(counters.len(), 2);
    // Through blocks, except for the first records: the pools are not shared yet.
    assert!(counters.iter().all(|side| side.ring_bytes > 200_000), "{counters:?}");
}

#[test]
fn a_hundred_megabytes_in_pieces_of_chance_arrive_in_order() {
    let fixture = Fixture::new("bulk");
    let _sum = fixture.peer(1, "sum", 80);
    let mut stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    let all = pattern(5, 100 << 20);
    let (mut at, mut piece) = (0, 1_usize);
    while at < all.len() {
        let end = (at + piece).min(all.len());
        stream.write_all(&all[at..end]).unwrap();
        at = end;
        piece = piece * 7 % 262_139 + 1;
    }
    stream.shutdown(Direction::Send).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, format!("{} {}", all.len(), sum(&all)));
}

#[test]
fn a_missing_process_and_a_closed_port_differ_at_once() {
    let fixture = Fixture::new("refused");
    let _echo = fixture.peer(1, "echo", 80);
    let refused =
        |domain, port| fixture.domain.connect(fixture.at(domain, port)).unwrap_err().errno();
    assert_eq!(refused(7, 80), Errno::HOSTUNREACH);
    assert_eq!(refused(1, 81), Errno::CONNREFUSED);
    assert_eq!(refused(0, 80), Errno::CONNREFUSED);
    let all = std::net::SocketAddrV4::new(fixture.domain.broadcast(), 80);
    assert_eq!(fixture.domain.connect(all).unwrap_err().errno(), Errno::NETUNREACH);
    let reserved = fixture.domain.reserve(90).unwrap();
    assert_eq!(refused(0, reserved), Errno::CONNREFUSED, "bound is not listening");
    assert_eq!(fixture.domain.reserve(90).unwrap_err().errno(), Errno::ADDRINUSE);
}

#[test]
fn what_was_sent_before_the_end_is_read_before_it() {
    let fixture = Fixture::new("end");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let mut one = fixture.domain.connect(fixture.at(0, 5)).unwrap();
    let (mut other, from) = listener.accept().unwrap();
    assert_eq!((from, other.local_addr()), (one.local_addr(), one.peer_addr()));
    one.write_all(b"last words").unwrap();
    drop(one);
    let mut said = String::new();
    other.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), other.read(&mut [0; 4]).unwrap()), ("last words", 0));
    assert_eq!(other.send(b"too late", true).unwrap_err(), Errno::PIPE);
}

#[test]
fn a_stream_shut_down_for_sending_sends_no_more() {
    let fixture = Fixture::new("ended");
    let _echo = fixture.peer(1, "echo", 80);
    let mut stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    for _ in 0..10 {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    stream.shutdown(Direction::Send).unwrap();
    assert_eq!(stream.send(b"y", true), Err(Errno::PIPE));
    assert_eq!(stream.read(&mut [0; 4]).unwrap(), 0);
}

#[test]
fn closing_with_bytes_unread_resets() {
    let fixture = Fixture::new("reset");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let mut one = fixture.domain.connect(fixture.at(0, 5)).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    // Both pools are shared once something went each way.
    for _ in 0..2 {
        one.write_all(b"xy").unwrap();
        other.read_exact(&mut [0; 2]).unwrap();
        other.write_all(b"xy").unwrap();
        one.read_exact(&mut [0; 2]).unwrap();
    }
    other.write_all(b"for you").unwrap();
    one.write_all(b"never read").unwrap();
    drop(other);
    let mut bytes = [0; 16];
    assert_eq!(one.read(&mut bytes).unwrap(), 7, "what came before is read first");
    assert_eq!(
        one.receive(&mut bytes, ReceiveOptions { wait: true, peek: false }),
        Err(Errno::CONNRESET)
    );
    assert_eq!(one.read(&mut bytes).unwrap(), 0, "and after it the end");
    assert_eq!(one.send(b"too late", true), Err(Errno::PIPE));
}

#[test]
fn the_end_of_a_connection_shows_beside_one_that_goes_on() {
    let fixture = Fixture::new("beside");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let pair = || {
        let one = fixture.domain.connect(fixture.at(0, 5)).unwrap();
        (one, listener.accept().unwrap().0)
    };
    let (mut ended, mut other_end) = pair();
    let (mut goes_on, mut other) = pair();
    let talk = |one: &mut Stream, other: &mut Stream| {
        one.write_all(b"xy").unwrap();
        other.read_exact(&mut [0; 2]).unwrap();
        other.write_all(b"xy").unwrap();
        one.read_exact(&mut [0; 2]).unwrap();
    };
    for _ in 0..3 {
        talk(&mut ended, &mut other_end);
        talk(&mut goes_on, &mut other);
    }
    drop(other_end);
    // The kernel says that the peer lives, on the other connection.
    std::thread::sleep(std::time::Duration::from_millis(2));
    talk(&mut goes_on, &mut other);
    assert_eq!(ended.send(b"too late", true), Err(Errno::PIPE));
}

#[test]
fn a_full_connection_is_not_writable_until_it_is_read() {
    let fixture = Fixture::new("full");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let one = fixture.domain.connect(fixture.at(0, 5)).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    one.set_nonblocking(true).unwrap();
    let all = pattern(3, 1 << 20);
    let mut sent = 0;
    let full = loop {
        match one.send(&all[sent..sent + 10_000], true) {
            Ok(count) => sent += count,
            Err(errno) => break errno,
        }
    };
    assert_eq!(full, Errno::AGAIN);
    assert!(!m3ipc_test_fixture::readiness(&one).writable, "{sent} bytes lie there");
    let mut got = vec![0; sent];
    other.read_exact(&mut got).unwrap();
    assert!(got == all[..sent]);
    assert!(m3ipc_test_fixture::readiness(&one).writable);
    assert!(!m3ipc_test_fixture::readiness(&other).readable, "everything was read");
    // And again through blocks.
    until("blocks are used again", || one.is_taken() == Ok(true));
    one.send(&all[..5000], true).unwrap();
    other.read_exact(&mut got[..5000]).unwrap();
    assert!(got[..5000] == all[..5000]);
}

#[test]
fn a_thousand_connections_one_after_the_other_leave_nothing() {
    let fixture = Fixture::new("churn");
    let _echo = fixture.peer(1, "echo", 80);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = 0;
    for round in 0..1000 {
        let mut stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
        stream.write_all(b"hi").unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        drop(stream);
        if round == 10 {
            before = descriptors();
        }
    }
    until("slots come back", || fixture.counters().is_empty());
    // Other tests of this process open and close some at the same time.
    assert!(descriptors() < before + 200, "{before} descriptors became {}", descriptors());
}

#[test]
fn more_connections_than_a_pair_has_slots_all_work() {
    let fixture = Fixture::new("many");
    let _echo = fixture.peer(1, "echo", 80);
    let mut all: Vec<_> =
        (0..150).map(|_| fixture.domain.connect(fixture.at(1, 80)).unwrap()).collect();
    for round in 0_u8..3 {
        for stream in &mut all {
            stream.write_all(&[round; 100]).unwrap();
        }
        for stream in &mut all {
            let mut got = [9; 100];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(got, [round; 100]);
        }
    }
}

/// Both ends of a connection in this process; both pools are shared.
fn shared_pools(fixture: &Fixture) -> (Stream, Stream) {
    let listener = fixture.domain.listen(0, 4).expect("a port");
    let mut one = fixture.domain.connect(listener.local_addr()).expect("a connection");
    let (mut other, _) = listener.accept().expect("a connection");
    for _ in 0..2 {
        one.write_all(b"xy").expect("room");
        other.read_exact(&mut [0; 2]).expect("bytes");
        other.write_all(b"xy").expect("room");
        one.read_exact(&mut [0; 2]).expect("bytes");
    }
    (one, other)
}

#[test]
fn a_send_among_signals_sends_its_bytes_once() {
    const MESSAGES: u32 = 40_000;
    let fixture = Fixture::new("signals");
    let (mut one, mut other) = shared_pools(&fixture);
    // From now on each send of `one` asks the kernel for the peer.
    other.shutdown(Direction::Send).unwrap();
    assert_eq!(one.read(&mut [0; 4]).unwrap(), 0);
    signals::handle();
    let (tell, told) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        tell.send(m3ipc_sys::thread_id()).unwrap();
        for number in 0..MESSAGES {
            one.write_all(&number.to_le_bytes().repeat(1024)).unwrap();
        }
    });
    let receiver = std::thread::spawn(move || {
        let mut message = [0; 4096];
        for number in 0..MESSAGES {
            // A receiver that polls needs no record, and the send then asks the kernel for it.
            let mut got = 0;
            while got < message.len() {
                match other.receive(&mut message[got..], ReceiveOptions::default()) {
                    Ok(count) => got += count,
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
            }
            assert!(message[..] == number.to_le_bytes().repeat(1024), "message {number}");
        }
        assert_eq!(other.read(&mut message).unwrap(), 0, "nothing follows the last message");
    });
    let thread = told.recv().unwrap();
    while !sender.is_finished() && !receiver.is_finished() {
        signals::send(m3ipc_sys::process_id(), thread);
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
    receiver.join().unwrap();
    sender.join().unwrap();
}

#[test]
fn the_number_of_available_bytes_includes_those_behind_a_record() {
    let fixture = Fixture::new("available");
    let listener = fixture.domain.listen(0, 4).unwrap();
    let one = fixture.domain.connect(listener.local_addr()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    assert_eq!(other.available(), Ok(0));
    // More than the blocks hold: the rest goes through the socket.
    let mut left = one.send(&[1; 1 << 20], false).unwrap() as u64;
    while left > 0 {
        assert!(readiness(&other).readable);
        let there = other.available().unwrap();
        assert!((1..=left).contains(&there), "{there} of {left} bytes");
        other.read_exact(&mut vec![0; usize::try_from(there).unwrap()]).unwrap();
        left -= there;
    }
    assert_eq!(other.available(), Ok(0));
    drop(one);
    assert_eq!((other.available(), other.read(&mut [0; 2]).unwrap()), (Ok(0), 0));
}

#[test]
fn the_number_of_available_bytes_comes_beside_a_receive_that_sleeps() {
    let fixture = Fixture::new("beside_sleep");
    let (mut one, other) = shared_pools(&fixture);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let stream = &other;
        let receiver = scope.spawn(move || {
            tell.send(m3ipc_sys::thread_id()).unwrap();
            stream.receive(&mut [0; 8], ReceiveOptions { wait: true, peek: false })
        });
        let (own, thread) = (m3ipc_sys::process_id(), told.recv().unwrap());
        until("the thread sleeps", || m3ipc_sys::thread_sleeps(own, thread) == Ok(true));
        assert_eq!(other.available(), Ok(0));
        one.write_all(b"end").unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(3));
    });
}
