//! Kills of either side, and of the daemon.

use crate::fixture::Fixture;
use m3ipc_sockets::{Domain, Errno, Stream};
use m3ipc_test_fixture::{readiness, until};
use std::io::{Read, Write};

#[test]
fn a_sleeping_reader_hears_of_a_kill_after_the_last_bytes() {
    let fixture = Fixture::new("killed");
    let listener = fixture.domain.listen(5, 4).unwrap();
    let mut mute = fixture.peer(1, "mute", fixture.at(0, 5));
    let (mut stream, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        stream.read_to_end(&mut said).map(|_| said)
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    mute.kill();
    assert_eq!(reader.join().unwrap().unwrap(), b"hello");
}

#[test]
fn a_sleeping_sender_hears_of_a_kill() {
    let fixture = Fixture::new("deaf");
    let mut deaf = fixture.peer(1, "deaf", 80);
    let stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    let sender = std::thread::spawn(move || {
        let bytes = vec![1; 1 << 20];
        let failed = loop {
            if let Err(errno) = stream.send(&bytes, true) {
                break errno;
            }
        };
        (failed, stream)
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    deaf.kill();
    let (failed, stream) = sender.join().unwrap();
    // The process died with bytes unread.
    assert!(matches!(failed, Errno::CONNRESET | Errno::PIPE), "{failed}");
    assert_eq!(stream.send(b"x", true), Err(Errno::PIPE));
    assert!(readiness(&stream).hung_up);
}

#[test]
fn senders_through_blocks_learn_of_a_kill() {
    let fixture = Fixture::new("unread");
    let mut echo = fixture.peer(1, "echo", 80);
    let mut streams = [80, 80].map(|port| fixture.domain.connect(fixture.at(1, port)).unwrap());
    for _ in 0..100 {
        for stream in &mut streams {
            stream.write_all(&[5; 50]).unwrap();
            stream.read_exact(&mut [0; 50]).unwrap();
        }
    }
    echo.kill();
    let is_told = |stream: &Stream| {
        let failed = stream.send(b"y", true).err();
        assert!(matches!(failed, None | Some(Errno::CONNRESET | Errno::PIPE)), "{failed:?}");
        failed.is_some()
    };
    until("the senders are told", || streams.iter().filter(|it| is_told(it)).count() == 2);
}

#[test]
fn kills_leave_no_domain_no_port_and_no_connection() {
    let fixture = Fixture::new("remains");
    let mut flood = None;
    let mut sum = fixture.peer(1, "sum", 80);
    for domain in 2..5 {
        flood = Some(fixture.peer(domain, "flood", fixture.at(1, 80)));
    }
    let mut flood = flood.unwrap();
    until("they talk", || fixture.counters().len() == 2);
    flood.kill();
    sum.kill();
    let left = || m3ipc_sockets::sockets(fixture.node.directory(), fixture.vm.id()).unwrap();
    until("nothing is left", || left().is_empty());
    assert_eq!(fixture.domain.connect(fixture.at(1, 80)).unwrap_err().errno(), Errno::HOSTUNREACH);
    let names = std::fs::read_dir(fixture.node.directory().join("sockets")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "but for our own domain: {names:?}");
}

#[test]
fn connections_outlive_the_daemon_and_listeners_find_its_successor() {
    let mut fixture = Fixture::new("takeover");
    let _echo = fixture.peer(1, "echo", 80);
    let mut stream = fixture.domain.connect(fixture.at(1, 80)).unwrap();
    let mut talk = |bytes: &[u8]| {
        stream.write_all(bytes).unwrap();
        let mut got = vec![0; bytes.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == bytes);
    };
    talk(&[1; 50_000]);
    fixture.node.kill_daemon();
    talk(&[2; 300_000]);
    fixture.node.restart_daemon();
    talk(&[3; 5_000]);
    let mut fresh = None;
    until("a new connection", || {
        fresh = fixture.domain.connect(fixture.at(1, 80)).ok();
        fresh.is_some()
    });
    let mut fresh = fresh.unwrap();
    fresh.write_all(b"again").unwrap();
    let mut got = [0; 5];
    fresh.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"again");
    talk(&[4; 5_000]);
    assert_eq!(fixture.domain.number(), 0);
}

#[test]
fn a_child_by_fork_gets_an_error_on_the_connection() {
    let fixture = Fixture::new("fork");
    let listener = fixture.domain.listen(5, 4).unwrap();
    // It says `ready` only if its child gets the right errors and the connection works afterwards.
    let _fork = fixture.peer(1, "fork", fixture.at(0, 5));
    let (mut stream, _) = listener.accept().unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"still");
}

#[test]
fn a_connection_that_waits_outlives_the_daemon() {
    let mut fixture = Fixture::new("waiting");
    let other = Domain::join_numbered(fixture.node.directory(), &fixture.vm, 1).unwrap();
    let listener = fixture.domain.listen(5, 4).unwrap();
    let mut early = other.connect(listener.local_addr()).unwrap();
    early.write_all(b"early").unwrap();
    fixture.node.restart_daemon();
    // The successor learns of the listener by this request.
    until("another request", || fixture.domain.reserve(0).is_ok());
    let mut late = None;
    until("a new connection", || {
        late = other.connect(listener.local_addr()).ok();
        late.is_some()
    });
    late.unwrap().write_all(b"later").unwrap();
    for said in [b"early", b"later"] {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = [0; 5];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, said);
    }
    listener.set_nonblocking(true);
    assert!(listener.accept().is_err(), "a connection is taken twice");
}

#[test]
fn a_listener_without_its_port_says_so_until_it_gets_the_port() {
    let mut fixture = Fixture::new("lost");
    let listener = fixture.domain.listen(5, 4).unwrap();
    fixture.node.restart_daemon();
    let other = Domain::join_numbered(fixture.node.directory(), &fixture.vm, 0).unwrap();
    let thief = other.listen(5, 4).unwrap();
    let failed = listener.accept_timeout(true, u64::MAX).unwrap_err();
    assert_eq!(failed.errno(), Errno::ADDRINUSE, "{failed}");
    assert_eq!(listener.accept_timeout(false, 0).unwrap_err().errno(), Errno::ADDRINUSE);
    drop(thief);
    let accept = || listener.accept_timeout(false, 0).map(drop).map_err(|error| error.errno());
    until("the port is back", || accept() == Err(Errno::AGAIN));
    let _here = other.connect(listener.local_addr()).unwrap();
    until("a connection", || accept().is_ok());
}
