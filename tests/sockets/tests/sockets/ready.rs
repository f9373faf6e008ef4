//! Readiness: poll, select and epoll report a connection as they report a kernel socket.

use crate::fixture::Fixture;
use m3ipc_sockets::{Direction, Domain, Errno, ReceiveOptions, Stream};
use m3ipc_test_fixture::{pattern, readiness};
use proptest::prelude::*;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io::{Read, Write};

/// Two ends in this process, both pools shared.
fn ends(domain: &Domain) -> (Stream, Stream) {
    let listener = domain.listen(0, 4).expect("it is done");
    let mut one = domain.connect(listener.local_addr()).expect("it is done");
    let (mut other, _) = listener.accept().expect("it is done");
    for _ in 0..2 {
        one.write_all(b"xy").expect("it is done");
        other.read_exact(&mut [0; 2]).expect("it is done");
        other.write_all(b"xy").expect("it is done");
        one.read_exact(&mut [0; 2]).expect("it is done");
    }
    (one, other)
}

struct Edges(std::os::fd::OwnedFd);

impl Edges {
    fn of(stream: &Stream) -> Self {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC).expect("it is done");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET | epoll::EventFlags::RDHUP;
        epoll::add(&fd, stream, epoll::EventData::new_u64(1), flags).expect("it is done");
        Self(fd)
    }

    fn next(&self) -> Option<epoll::EventFlags> {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 4];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&self.0, &mut events[..], Some(&now)).expect("it is done");
        (count > 0).then(|| events[0].flags)
    }
}

#[test]
fn an_edge_comes_at_every_arrival_also_where_something_was_left() {
    let fixture = Fixture::new("edges");
    let (mut one, mut other) = ends(&fixture.domain);
    other.set_nonblocking(true).unwrap();
    let edges = Edges::of(&other);
    assert_eq!(edges.next(), None);
    one.write_all(b"first").unwrap();
    assert_eq!(edges.next(), Some(epoll::EventFlags::IN));
    assert_eq!(edges.next(), None);
    other.read_exact(&mut [0; 2]).unwrap();
    assert_eq!(edges.next(), None, "reading some is no arrival");
    one.write_all(b"second").unwrap();
    assert_eq!(edges.next(), Some(epoll::EventFlags::IN));
    other.read_exact(&mut [0; 9]).unwrap();
    assert_eq!(other.receive(&mut [0; 9], ReceiveOptions::default()), Err(Errno::AGAIN));
    assert!(!readiness(&other).readable);
    one.shutdown(Direction::Send).unwrap();
    assert_eq!(edges.next(), Some(epoll::EventFlags::IN | epoll::EventFlags::RDHUP));
}

#[test]
fn a_poll_of_a_listener_sees_waiting_connections() {
    let fixture = Fixture::new("listener");
    let listener = fixture.domain.listen(0, 4).unwrap();
    assert!(!readiness(&listener).readable);
    let one = fixture.domain.connect(listener.local_addr()).unwrap();
    assert!(readiness(&listener).readable);
    let (other, _) = listener.accept().unwrap();
    assert!(!readiness(&listener).readable);
    listener.set_nonblocking(true);
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(readiness(&one).writable && readiness(&other).writable);
}

#[test]
fn a_backlog_is_as_long_as_was_said() {
    let fixture = Fixture::new("backlog");
    let listener = fixture.domain.listen(0, 2).unwrap();
    let connect = || fixture.domain.connect_from(listener.local_addr(), 0, false);
    // The kernel accepts one more than the backlog as well.
    let waiting: Vec<_> = (0..3).map(|_| connect().unwrap()).collect();
    assert_eq!(connect().unwrap_err().errno(), Errno::AGAIN);
    let (_taken, from) = listener.accept().unwrap();
    assert_eq!(from, waiting[0].local_addr());
    connect().unwrap();
}

/// A step of one of two ends.
#[derive(Clone, Debug)]
enum Act {
    Send(usize),
    Receive(usize),
    Peek(usize),
    /// No call; only the invariant is checked.
    Rest,
}

fn act() -> impl Strategy<Value = (bool, Act)> {
    let length = prop_oneof![1..64_usize, 8000..8400_usize, 1..400_000_usize];
    let act = prop_oneof![
        4 => length.clone().prop_map(Act::Send),
        5 => length.clone().prop_map(Act::Receive),
        1 => length.prop_map(Act::Peek),
        1 => Just(Act::Rest),
    ];
    (any::<bool>(), act)
}

/// Readable if and only if bytes lie there.
fn check(ends: &[Stream; 2], lying: &[VecDeque<u8>; 2]) {
    for (end, lying) in ends.iter().zip(lying) {
        assert_eq!(readiness(end).readable, !lying.is_empty(), "{} bytes lie there", lying.len());
    }
}

fn play(domain: &Domain, acts: &[(bool, Act)], nonblocking: bool) {
    let (one, other) = ends(domain);
    let ends = [one, other];
    ends.iter().for_each(|end| end.set_nonblocking(nonblocking).expect("a flag"));
    // The bytes that were sent to each end and not received.
    let mut lying = [VecDeque::new(), VecDeque::new()];
    for (serial, (who, act)) in (0_u64..).zip(acts) {
        let me = usize::from(*who);
        match act {
            Act::Send(length) => {
                let bytes = pattern(serial, *length);
                match ends[me].send(&bytes, false) {
                    Ok(count) => lying[1 - me].extend(&bytes[..count]),
                    Err(errno) => {
                        assert_eq!(errno, Errno::AGAIN);
                        assert!(
                            !readiness(&ends[me]).writable,
                            "{} bytes lie there",
                            lying[1 - me].len()
                        );
                    }
                }
            }
            Act::Receive(length) | Act::Peek(length) => {
                let peek = matches!(act, Act::Peek(_));
                let mut bytes = vec![0; *length];
                match ends[me].receive(&mut bytes, ReceiveOptions { wait: false, peek }) {
                    Ok(count) => {
                        assert!(count > 0 && count <= lying[me].len());
                        assert!(
                            bytes[..count].iter().eq(lying[me].iter().take(count)),
                            "other bytes came"
                        );
                        if !peek {
                            lying[me].drain(..count);
                        }
                    }
                    Err(errno) => {
                        assert_eq!((errno, lying[me].len()), (Errno::AGAIN, 0));
                    }
                }
            }
            Act::Rest => {}
        }
        check(&ends, &lying);
    }
}

#[test]
fn readiness_is_the_models_after_every_call() {
    let fixture = Fixture::new("oracle");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let acts = (prop::collection::vec(act(), 1..60), any::<bool>());
    runner
        .run(&acts, |(acts, nonblocking)| {
            play(&fixture.domain, &acts, nonblocking);
            Ok(())
        })
        .unwrap();
}
