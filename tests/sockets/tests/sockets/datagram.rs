//! DatagramSocket: boundaries, names, broadcast, slow receivers.

use crate::fixture::Fixture;
use m3ipc_sockets::{Domain, Errno, ReceiveOptions};
use m3ipc_test_fixture::{pattern, readiness};
use rustix::net::sockopt;

const NOW: ReceiveOptions = ReceiveOptions { wait: false, peek: false };
const WAIT: ReceiveOptions = ReceiveOptions { wait: true, peek: false };

fn domain(fixture: &Fixture, number: u32) -> Domain {
    Domain::join_numbered(fixture.node.directory(), &fixture.vm, number).expect("a domain")
}

#[test]
fn boundaries_and_names_are_kept() {
    let fixture = Fixture::new("datagrams");
    let other = domain(&fixture, 1);
    let (one, two) = (fixture.domain.datagrams(0).unwrap(), other.datagrams(7).unwrap());
    for length in [0_usize, 1, 100, 8192, 65_507] {
        let sent = pattern(length as u64, length);
        assert_eq!(one.send_to(&sent, two.local_addr(), true).unwrap(), length);
        assert!(readiness(&two).readable);
        let mut bytes = vec![0; 70_000];
        let peeked = two.receive(&mut bytes, ReceiveOptions { wait: false, peek: true }).unwrap();
        let got = two.receive(&mut bytes, WAIT).unwrap();
        assert_eq!(peeked, got);
        assert_eq!((got.taken, got.sent, got.from), (length, length, one.local_addr()));
        assert!(bytes[..length] == sent);
        assert!(!readiness(&two).readable);
    }
    one.send_to(b"more than fits", two.local_addr(), true).unwrap();
    let got = two.receive(&mut [0; 4], WAIT).unwrap();
    assert_eq!((got.taken, got.sent), (4, 14));
    assert_eq!(two.receive(&mut [0; 4], NOW), Err(Errno::AGAIN), "the rest is lost");
    let long = one.send_to(&[0; 65_508], two.local_addr(), true).unwrap_err();
    assert_eq!(long.errno(), Errno::MSGSIZE);
}

#[test]
fn a_missing_process_and_an_unbound_port_differ() {
    let fixture = Fixture::new("nobody");
    let one = fixture.domain.datagrams(0).unwrap();
    let refused =
        |number, port| one.send_to(b"x", fixture.at(number, port), true).unwrap_err().errno();
    assert_eq!((refused(9, 7), refused(0, 7)), (Errno::HOSTUNREACH, Errno::CONNREFUSED));
    assert_eq!(one.send(b"x", true).unwrap_err().errno(), Errno::DESTADDRREQ);
    let two = fixture.domain.datagrams(7).unwrap();
    one.send_to(b"x", two.local_addr(), true).unwrap();
    drop(two);
    assert_eq!(refused(0, 7), Errno::CONNREFUSED, "a way that was known is not believed for ever");
    let two = fixture.domain.datagrams(7).unwrap();
    one.send_to(b"again", two.local_addr(), true).unwrap();
    assert_eq!(two.receive(&mut [0; 8], WAIT).unwrap().taken, 5);
}

#[test]
fn a_connected_socket_receives_from_its_peer_alone() {
    let fixture = Fixture::new("connected");
    let (one, two, three) = (
        fixture.domain.datagrams(1).unwrap(),
        fixture.domain.datagrams(2).unwrap(),
        fixture.domain.datagrams(3).unwrap(),
    );
    two.connect(Some(one.local_addr())).unwrap();
    three.send_to(b"stranger", two.local_addr(), true).unwrap();
    one.send_to(b"friend", two.local_addr(), true).unwrap();
    let got = two.receive(&mut [0; 16], WAIT).unwrap();
    assert_eq!((got.taken, got.from), (6, one.local_addr()));
    two.send(b"back", true).unwrap();
    assert_eq!(one.receive(&mut [0; 16], WAIT).unwrap().from, two.local_addr());
}

#[test]
fn a_broadcast_reaches_the_port_in_all_domains_past_a_slow_receiver() {
    let fixture = Fixture::new("broadcast");
    let domains: Vec<Domain> = (1..5).map(|number| domain(&fixture, number)).collect();
    let bound: Vec<_> = domains.iter().map(|domain| domain.datagrams(9).unwrap()).collect();
    let elsewhere = domains[0].datagrams(10).unwrap();
    let one = fixture.domain.datagrams(9).unwrap();
    let all = std::net::SocketAddrV4::new(fixture.domain.broadcast(), 9);
    assert_eq!(one.send_to(b"x", all, true).unwrap_err().errno(), Errno::ACCESS);
    one.set_broadcast(true);
    // The first never reads: its queue fills, and the others still get everything.
    let mut got = [0; 8];
    for round in 0..1500_u32 {
        one.send_to(&round.to_le_bytes(), all, true).unwrap();
        for socket in bound[1..].iter().chain([&one]) {
            let received = socket.receive(&mut got, WAIT).unwrap();
            assert_eq!((received.taken, received.from), (4, one.local_addr()));
            assert_eq!(got[..4], round.to_le_bytes());
        }
    }
    assert_eq!(elsewhere.receive(&mut got, NOW), Err(Errno::AGAIN));
    let mut kept = 0_u32;
    while bound[0].receive(&mut got, NOW).is_ok() {
        assert_eq!(got[..4], kept.to_le_bytes(), "what it has is the beginning, in order");
        kept += 1;
    }
    assert!((1..1500).contains(&kept), "{kept} of 1,500 found room");
    // Only a sender to that one gets an error, or waits.
    let sent =
        (0..1500).take_while(|_| one.send_to(b"y", bound[0].local_addr(), false).is_ok()).count();
    assert_eq!(sent, kept as usize);
    assert_eq!(one.send_to(b"y", bound[0].local_addr(), false).unwrap_err().errno(), Errno::AGAIN);
}

#[test]
fn datagrams_outlive_the_daemon() {
    let mut fixture = Fixture::new("kept");
    let (one, two) = (fixture.domain.datagrams(1).unwrap(), fixture.domain.datagrams(2).unwrap());
    one.send_to(b"before", two.local_addr(), true).unwrap();
    fixture.node.kill_daemon();
    one.send_to(b"without", two.local_addr(), true).unwrap();
    fixture.node.restart_daemon();
    // This asks the new daemon, which learns of both ports by it.
    two.send_to(b"after", one.local_addr(), true).unwrap();
    let mut got = [0; 16];
    assert_eq!(two.receive(&mut got, WAIT).unwrap().taken, 6);
    assert_eq!(two.receive(&mut got, WAIT).unwrap().taken, 7);
    assert_eq!(one.receive(&mut got, WAIT).unwrap().from, two.local_addr());
    assert_eq!(fixture.domain.datagrams(1).unwrap_err().errno(), Errno::ADDRINUSE);
}

#[test]
fn a_send_to_a_full_receiver_obeys_the_time_limit_of_the_socket() {
    let fixture = Fixture::new("limited");
    let (one, two) = (fixture.domain.datagrams(1).unwrap(), fixture.domain.datagrams(2).unwrap());
    let set = |limit| sockopt::set_socket_timeout(&one, sockopt::Timeout::Send, limit).unwrap();
    let soon = Some(std::time::Duration::from_millis(20));
    set(soon);
    let fill = || loop {
        if let Err(error) = one.send_to(&[1; 1000], two.local_addr(), true) {
            break error.errno();
        }
    };
    assert_eq!(fill(), Errno::AGAIN);
    // A changed limit holds for a known receiver, too.
    set(None);
    one.renew_send_options();
    two.receive(&mut [0; 8], NOW).unwrap();
    one.send_to(&[1; 1000], two.local_addr(), true).unwrap();
    set(soon);
    one.renew_send_options();
    assert_eq!(fill(), Errno::AGAIN);
}
