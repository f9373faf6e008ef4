//! Pollers: an event loop over com-sockets, which needs no wakeup record while it is awake.

use crate::fixture::Fixture;
use m3ipc_sockets::{
    Direction, Domain, Errno, Interest, Mode, PollEvent, Poller, ReceiveOptions, Stream,
};
use m3ipc_test_fixture::{pattern, readiness, until};
use std::io::{Read, Write};
use std::time::Duration;

const NOW: ReceiveOptions = ReceiveOptions { wait: false, peek: false };

/// Connections to the own listener, with both ends in this process and both pools shared.
fn ends(domain: &Domain, count: usize) -> Vec<(Stream, Stream)> {
    let listener = domain.listen(0, 64).expect("a port");
    let make = |_| {
        let mut one = domain.connect(listener.local_addr()).expect("a connection");
        let (mut other, _) = listener.accept().expect("a connection");
        for _ in 0..2 {
            one.write_all(b"xy").expect("room");
            other.read_exact(&mut [0; 2]).expect("bytes");
            other.write_all(b"xy").expect("room");
            one.read_exact(&mut [0; 2]).expect("bytes");
        }
        (one, other)
    };
    (0..count).map(make).collect()
}

fn now(poller: &Poller) -> Vec<PollEvent> {
    let mut events = vec![];
    poller.wait(&mut events, Some(Duration::ZERO)).expect("a wait");
    events.sort_by_key(|event| event.token);
    events
}

fn readable(poller: &Poller) -> Vec<u64> {
    now(poller).iter().filter(|event| event.readable).map(|event| event.token).collect()
}

fn receive_all(stream: &Stream) -> Vec<u8> {
    let (mut all, mut bytes) = (vec![], [0; 1000]);
    loop {
        match stream.receive(&mut bytes, NOW) {
            Ok(0) | Err(Errno::AGAIN) => return all,
            Ok(count) => all.extend(&bytes[..count]),
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn a_loop_that_is_awake_needs_no_record_on_any_of_300_connections() {
    let fixture = Fixture::new("armed");
    let mut all = ends(&fixture.domain, 300);
    let poller = Poller::new().unwrap();
    for (token, (_, other)) in (0..).zip(&all) {
        poller.add(other, token, Interest::Read, Mode::Level).unwrap();
    }
    assert_eq!(readable(&poller), []);
    // The first message of a peer comes with a record: no bitmap is awake yet.
    all[0].0.write_all(b"first").unwrap();
    assert_eq!(readable(&poller), [0]);
    assert_eq!(receive_all(&all[0].1), b"first");
    let sent = |all: &[(Stream, Stream)]| -> u64 { all.iter().map(|it| it.0.wakeups().sent).sum() };
    let before = sent(&all);
    for round in 0..4_u8 {
        for (number, (peer, own)) in (0_u64..).zip(&mut all) {
            peer.write_all(&[round, 1, 2]).unwrap();
            assert_eq!(readable(&poller), [number], "round {round}");
            assert!(!readiness(own).readable, "a record lies in the socket");
            assert_eq!(receive_all(own), [round, 1, 2]);
        }
    }
    assert_eq!(sent(&all), before);
    assert_eq!(readable(&poller), []);
}

#[test]
fn level_reports_bytes_until_they_are_read_and_edge_each_arrival_once() {
    let fixture = Fixture::new("modes");
    let mut all = ends(&fixture.domain, 2);
    let poller = Poller::new().unwrap();
    poller.add(&all[0].1, 0, Interest::Read, Mode::Level).unwrap();
    poller.add(&all[1].1, 1, Interest::Read, Mode::Edge).unwrap();
    for _ in 0..3 {
        all.iter_mut().for_each(|(one, _)| one.write_all(b"ab").unwrap());
        assert_eq!(readable(&poller), [0, 1]);
        assert_eq!(readable(&poller), [0]);
        all.iter_mut().for_each(|(_, other)| other.read_exact(&mut [0; 1]).unwrap());
        assert_eq!(readable(&poller), [0], "reading some is no arrival");
        all.iter_mut().for_each(|(one, _)| one.write_all(b"c").unwrap());
        assert_eq!(readable(&poller), [0, 1]);
        assert!(all.iter().all(|(_, other)| receive_all(other) == b"bc"));
        assert_eq!(readable(&poller), []);
    }
}

#[test]
fn one_edge_leads_to_the_end_behind_bytes_in_the_socket() {
    let fixture = Fixture::new("end_of_edges");
    let (mut one, other) = ends(&fixture.domain, 1).remove(0);
    let poller = Poller::new().unwrap();
    poller.add(&other, 0, Interest::Read, Mode::Edge).unwrap();
    one.write_all(b"awake").unwrap();
    assert_eq!(readable(&poller), [0]);
    assert_eq!(receive_all(&other), b"awake");
    // More than the blocks hold: the rest goes through the socket, and the end lies behind it.
    let sent = pattern(3, 300_000);
    assert_eq!(one.send(&sent, false), Ok(sent.len()));
    one.shutdown(Direction::Send).unwrap();
    assert_eq!(readable(&poller), [0]);
    assert!(receive_all(&other) == sent);
    assert_eq!(other.receive(&mut [0; 4], NOW), Ok(0), "no further edge will tell of the end");
}

#[test]
fn a_sleeping_loop_is_woken_and_a_notification_ends_its_wait() {
    let fixture = Fixture::new("asleep");
    let mut all = ends(&fixture.domain, 1);
    let poller = Poller::new().unwrap();
    let (mut one, other) = all.remove(0);
    poller.add(&other, 7, Interest::Read, Mode::Level).unwrap();
    for round in 0..20_u64 {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let mut events = vec![];
                poller.wait(&mut events, None).unwrap();
                events
            });
            std::thread::sleep(Duration::from_millis(round % 4));
            one.write_all(&round.to_le_bytes()).unwrap();
            let events = waits.join().unwrap();
            assert_eq!(events.len(), 1);
            assert!(events[0].token == 7 && events[0].readable && !events[0].hung_up);
        });
        assert_eq!(receive_all(&other), round.to_le_bytes());
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut events = vec![];
            poller.wait(&mut events, None).unwrap();
            events
        });
        std::thread::sleep(Duration::from_millis(5));
        poller.notify().unwrap();
        assert_eq!(waits.join().unwrap(), []);
    });
    let mut events = vec![];
    poller.wait(&mut events, Some(Duration::from_millis(2))).unwrap();
    assert_eq!(events, []);
}

#[test]
fn a_wait_by_other_means_wakes_for_bytes() {
    let fixture = Fixture::new("nested");
    let mut all = ends(&fixture.domain, 1);
    let poller = Poller::new().unwrap();
    poller.add(&all[0].1, 0, Interest::Read, Mode::Level).unwrap();
    for _ in 0..3 {
        all[0].0.write_all(b"x").unwrap();
        assert_eq!(readable(&poller), [0]);
        assert!(!poller.prepare_sleep().unwrap(), "bytes are left");
        assert_eq!(receive_all(&all[0].1), b"x");
        assert_eq!(readable(&poller), []);
        assert!(poller.prepare_sleep().unwrap());
        assert!(!readiness(&poller).readable);
        all[0].0.write_all(b"y").unwrap();
        assert!(readiness(&poller).readable);
        assert_eq!(readable(&poller), [0]);
        assert_eq!(receive_all(&all[0].1), b"y");
        assert_eq!(readable(&poller), []);
    }
}

#[test]
fn removed_streams_are_as_before_and_a_dropped_one_leaves_its_place() {
    let fixture = Fixture::new("removed");
    let mut all = ends(&fixture.domain, 3);
    let poller = Poller::new().unwrap();
    for (token, (_, other)) in (0..).zip(&all) {
        poller.add(other, token, Interest::Read, Mode::Level).unwrap();
        let again = poller.add(other, token, Interest::Read, Mode::Level);
        assert_eq!(again, Err(Errno::EXIST));
        assert!(other.set_nonblocking(false).is_err(), "it would wait");
    }
    all[0].0.write_all(b"a").unwrap();
    assert_eq!(readable(&poller), [0]);
    // These bytes have a bit and no record.
    all[1].0.write_all(b"b").unwrap();
    poller.remove(&all[1].1).unwrap();
    assert_eq!(poller.remove(&all[1].1), Err(Errno::NOENT));
    assert_eq!(receive_all(&all[1].1), b"b");
    all[1].0.write_all(b"c").unwrap();
    assert!(readiness(&all[1].1).readable, "the kernel reports a removed stream");
    assert_eq!(readable(&poller), [0]);
    let second = Poller::new().unwrap();
    second.add(&all[1].1, 5, Interest::Read, Mode::Level).unwrap();
    assert_eq!(readable(&second), [5]);
    drop(poller);
    assert_eq!(receive_all(&all[0].1), b"a");
    all[0].0.write_all(b"d").unwrap();
    assert!(readiness(&all[0].1).readable, "the poller is gone");
    second.add(&all[0].1, 6, Interest::Read, Mode::Edge).unwrap();
    assert_eq!(readable(&second), [5, 6]);
    all.truncate(1);
    assert_eq!(readable(&second), []);
}

#[test]
fn large_streams_both_ways_room_and_ends_are_reported() {
    let fixture = Fixture::new("bulk");
    let (one, other) = ends(&fixture.domain, 1).remove(0);
    let poller = Poller::new().unwrap();
    poller.add(&one, 0, Interest::ReadOrWrite, Mode::Level).unwrap();
    poller.add(&other, 1, Interest::ReadOrWrite, Mode::Level).unwrap();
    let sent = [pattern(1, 3_000_000), pattern(2, 2_000_000)];
    let (mut done, mut got) = ([0, 0], [Vec::new(), Vec::<u8>::new()]);
    let mut ended = [false; 2];
    let mut events = vec![];
    while !ended[0] || !ended[1] {
        poller.wait(&mut events, None).unwrap();
        for event in &events {
            let me = usize::try_from(event.token).unwrap();
            let stream = [&one, &other][me];
            if event.readable {
                let mut bytes = vec![0; 50_000];
                match stream.receive(&mut bytes, NOW) {
                    Ok(0) => ended[me] = true,
                    Ok(count) => got[me].extend(&bytes[..count]),
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
            }
            if event.writable && done[me] < sent[me].len() {
                match stream.send(&sent[me][done[me]..], false) {
                    Ok(count) => done[me] += count,
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
                if done[me] == sent[me].len() {
                    stream.shutdown(Direction::Send).unwrap();
                    let mode = Mode::Level;
                    poller.modify(stream, event.token, Interest::Read, mode).unwrap();
                }
            }
        }
    }
    assert!(got[1] == sent[0] && got[0] == sent[1]);
}

#[test]
fn a_kill_of_the_peer_and_of_the_daemon_reach_the_loop() {
    let mut fixture = Fixture::new("ends");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let mut mute = fixture.peer(1, "mute", fixture.at(0, 5));
    let (stream, _) = listener.accept().unwrap();
    let mut own = ends(&fixture.domain, 1);
    let poller = Poller::new().unwrap();
    poller.add(&stream, 1, Interest::Read, Mode::Level).unwrap();
    poller.add(&own[0].1, 2, Interest::Read, Mode::Level).unwrap();
    assert_eq!(readable(&poller), [1]);
    assert_eq!(receive_all(&stream), b"hello");
    fixture.node.kill_daemon();
    own[0].0.write_all(b"without a daemon").unwrap();
    assert_eq!(readable(&poller), [2]);
    assert_eq!(receive_all(&own[0].1), b"without a daemon");
    mute.kill();
    let mut events = vec![];
    poller.wait(&mut events, None).unwrap();
    assert!(events.iter().any(|it| it.token == 1 && it.readable), "{events:?}");
    until("the end is there", || stream.receive(&mut [0; 4], NOW) != Err(Errno::AGAIN));
}

#[test]
fn a_child_by_fork_gets_errors_and_changes_nothing() {
    let fixture = Fixture::new("child");
    let mut all = ends(&fixture.domain, 1);
    let poller = Poller::new().unwrap();
    poller.add(&all[0].1, 0, Interest::Read, Mode::Level).unwrap();
    let told = m3ipc_test_fixture::in_child(|| {
        let waits = poller.wait(&mut vec![], None) == Err(Errno::NOTCONN);
        let second = &all[0].0;
        waits && poller.add(second, 1, Interest::Read, Mode::Level) == Err(Errno::NOTCONN)
    });
    assert!(told);
    all[0].0.write_all(b"still").unwrap();
    assert_eq!(readable(&poller), [0]);
    assert_eq!(receive_all(&all[0].1), b"still");
}

#[test]
fn listeners_and_other_descriptors_are_in_the_same_loop() {
    let fixture = Fixture::new("others");
    let listener = fixture.domain.listen(0, 8).unwrap();
    let (mut pipe, end) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
    let poller = Poller::new().unwrap();
    poller.add_descriptor(&listener, 0, Interest::Read, Mode::Level).unwrap();
    poller.add_descriptor(&end, 1, Interest::Read, Mode::Level).unwrap();
    let _one = fixture.domain.connect(listener.local_addr()).unwrap();
    pipe.write_all(b"x").unwrap();
    assert_eq!(readable(&poller), [0, 1]);
    poller.modify_descriptor(&end, 9, Interest::Read, Mode::Level).unwrap();
    listener.accept().unwrap();
    assert_eq!(readable(&poller), [9]);
    poller.remove_descriptor(&end).unwrap();
    assert_eq!(poller.remove_descriptor(&end), Err(Errno::NOENT));
    assert_eq!(readable(&poller), []);
}
