//! The same bytes by each method: directly, through bounce buffers, and between two others.

use crate::fixture::{Fixture, pattern, serve_once};
use m3ipc::{Address, Lease, Location, Message, Timeout};

/// Around the sizes of words, pages, halves of a bounce buffer and of both.
const SIZES: &[usize] = &[
    1, 7, 8, 63, 64, 65, 4_095, 4_096, 4_097, 8_191, 65_535, 65_536, 65_537, 131_071, 131_072,
    131_073, 300_001,
];

#[test]
fn every_size_arrives_directly() {
    sizes(false);
}

#[test]
fn every_size_arrives_through_a_window() {
    sizes(true);
}

/// In both directions, by the kernel (`open`) or by the peer itself (`granted`, with one grant of
/// all memory).
fn sizes(granted: bool) {
    let mut fixture = Fixture::new(granted);
    let room = 400_000;
    let peer = fixture.thread(30, pattern(1, room), move |endpoint, memory| {
        if granted {
            let memory = std::mem::take(memory);
            let grant = endpoint
                .grant(m3ipc::Audience::Only(Address(1)), memory, m3ipc::Rights::Both)
                .unwrap();
            endpoint.receive(Address(1)).unwrap();
            endpoint.revoke(grant).unwrap();
        } else {
            endpoint.receive(Address(1)).unwrap();
        }
    });
    fixture.until_blocked(&peer, "receive");
    let before = pattern(1, room);
    for (seed, bytes) in (2..).zip(SIZES) {
        let mut got = vec![0; *bytes];
        fixture.me.copy_from(peer.address, peer.at + 11, &mut got).unwrap();
        assert_eq!(fixture.me.copied(), *bytes as u64);
        assert!(got == before[11..11 + bytes], "{bytes} bytes out");
        let sent = pattern(seed, *bytes);
        fixture.me.copy_to(peer.address, peer.at + 13, &sent).unwrap();
        assert_eq!(fixture.me.copied(), *bytes as u64);
        let mut back = vec![0; *bytes];
        fixture.me.copy_from(peer.address, peer.at + 13, &mut back).unwrap();
        assert!(back == sent, "{bytes} bytes in");
        fixture.me.copy_to(peer.address, peer.at, &before).unwrap();
    }
    fixture.end(peer);
}

#[test]
fn all_offsets_modulo_a_line_arrive() {
    for granted in [false, true] {
        let mut fixture = Fixture::new(granted);
        let peer = fixture.thread(30, vec![0; 4096], move |endpoint, memory| {
            let grant = granted.then(|| {
                endpoint
                    .grant(m3ipc::Audience::Vm, std::mem::take(memory), m3ipc::Rights::Both)
                    .unwrap()
            });
            endpoint.receive(Address(1)).unwrap();
            grant.map(|grant| endpoint.revoke(grant).unwrap());
        });
        fixture.until_blocked(&peer, "receive");
        let sent = pattern(5, 256);
        for here in 0..64 {
            for there in 0..64 {
                let part = &sent[here..here + 130];
                fixture.me.copy_to(peer.address, peer.at + there, part).unwrap();
                let mut back = vec![0; 300];
                fixture
                    .me
                    .copy_from(peer.address, peer.at + there, &mut back[here..here + 130])
                    .unwrap();
                assert_eq!(&back[here..here + 130], part, "offsets {here} and {there}");
            }
        }
        fixture.end(peer);
    }
}

#[test]
fn a_server_copies_from_and_to_its_client_at_once() {
    for granted in [false, true] {
        let mut fixture = Fixture::new(granted);
        for round in 0..50_u64 {
            let client = fixture.thread(40, pattern(round, 10_000), |endpoint, memory| {
                let mut room = vec![0; 10_000];
                let loans = [Lease::read(memory), Lease::write(&mut room)];
                let addresses = loans.map(|loan| loan.address().to_ne_bytes()).concat();
                let message = Message::new(1).with_bytes(&addresses);
                endpoint.sendrec_leased(Address(1), &message, &loans, Timeout::Never).unwrap();
                *memory = room;
            });
            serve_once(&mut fixture.me, |me, request| {
                let address =
                    |at: usize| u64::from_ne_bytes(request.payload[at..at + 8].try_into().unwrap());
                let (from, to) = (address(0), address(8));
                let mut bytes = vec![0; 10_000];
                me.copy_from(request.source, from, &mut bytes).unwrap();
                assert!(bytes == pattern(round, 10_000));
                bytes.reverse();
                me.copy_to(request.source, to, &bytes).unwrap();
            });
            let mut expected = pattern(round, 10_000);
            expected.reverse();
            assert!(client.join() == expected);
        }
    }
}

#[test]
fn a_third_party_copies_between_two_others() {
    for granted in [false, true] {
        let mut fixture = Fixture::new(granted);
        for (seed, bytes) in [(1, 1), (2, 5_000), (3, 65_536), (4, 70_000), (5, 1_000_000)] {
            let rights = move |endpoint: &mut m3ipc::Endpoint, memory: &mut Vec<u8>, rights| {
                if granted {
                    let grant = endpoint.grant(
                        m3ipc::Audience::Only(Address(1)),
                        std::mem::take(memory),
                        rights,
                    );
                    endpoint.receive(Address(1)).unwrap();
                    *memory = endpoint.revoke(grant.unwrap()).unwrap().unwrap();
                } else {
                    endpoint.receive(Address(1)).unwrap();
                }
            };
            let source = fixture.thread(50, pattern(seed, bytes), move |endpoint, memory| {
                rights(endpoint, memory, m3ipc::Rights::Read);
            });
            let destination = fixture.thread(51, vec![0; bytes], move |endpoint, memory| {
                rights(endpoint, memory, m3ipc::Rights::Write);
            });
            fixture.until_blocked(&source, "receive");
            fixture.until_blocked(&destination, "receive");
            let sides = [
                (source.address, Location::At(source.at)),
                (destination.address, Location::At(destination.at)),
            ];
            fixture.me.copy_between(sides[0], sides[1], bytes as u64, Timeout::Never).unwrap();
            assert_eq!(fixture.me.copied(), bytes as u64);
            assert!(fixture.end(source) == pattern(seed, bytes));
            assert!(fixture.end(destination) == pattern(seed, bytes));
        }
    }
}
