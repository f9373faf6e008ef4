//! The code of each copy that cannot be made.

use crate::fixture::{Fixture, pattern};
use m3ipc::{ANY, Address, Audience, CopyError, Location, Message, NONE, Rights, SELF, Timeout};

#[test]
fn a_peer_that_runs_is_not_copied() {
    for granted in [false, true] {
        let mut fixture = Fixture::new(granted);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let peer = fixture.thread(30, vec![0; 64], move |endpoint, _| {
            gone.recv().unwrap();
            endpoint.receive(Address(1)).unwrap();
        });
        let refused = fixture.me.copy_to(peer.address, peer.at, &[1; 8]);
        assert_eq!(refused, Err(CopyError::NotBlocked(peer.address)));
        assert_eq!(fixture.me.copied(), 0);
        go.send(()).unwrap();
        fixture.until_blocked(&peer, "receive");
        let copied = fixture.me.copy_to(peer.address, peer.at, &[1; 8]);
        assert_eq!(copied.is_ok(), !granted, "{copied:?}");
        assert_eq!(fixture.end(peer)[..8], [u8::from(!granted); 8]);
    }
}

#[test]
fn a_peer_that_has_gone_on_is_not_copied_again() {
    let mut fixture = Fixture::new(false);
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let peer = fixture.thread(30, vec![0; 64], move |endpoint, _| {
        endpoint.receive(Address(1)).unwrap();
        gone.recv().unwrap();
        // In a send it lies still for nobody.
        endpoint.send(Address(1), &Message::new(1)).unwrap();
    });
    fixture.until_blocked(&peer, "receive");
    fixture.me.copy_to(peer.address, peer.at, &[1; 8]).unwrap();
    let refused = Err(CopyError::NotBlocked(peer.address));
    fixture.me.send(peer.address, &Message::new(0)).unwrap();
    while fixture.me.copy_to(peer.address, peer.at, &[2; 8]).is_ok() {}
    assert_eq!(fixture.me.copy_to(peer.address, peer.at, &[2; 8]), refused);
    go.send(()).unwrap();
    fixture.until_blocked(&peer, "send");
    assert_eq!(fixture.me.copy_to(peer.address, peer.at, &[2; 8]), refused);
    fixture.me.receive(peer.address).unwrap();
    peer.join();
}

#[test]
fn addresses_that_are_no_peers_are_refused() {
    let mut fixture = Fixture::new(false);
    let peer = fixture.peer(30, vec![7; 64]);
    fixture.until_blocked(&peer, "receive");
    let me = fixture.me.address();
    for wrong in [ANY, NONE, SELF, me] {
        assert_eq!(fixture.me.copy_to(wrong, 0, &[1]), Err(CopyError::Stale(wrong)));
    }
    let side = (peer.address, Location::At(peer.at));
    let same = fixture.me.copy_between(side, side, 8, Timeout::Never);
    assert_eq!(same, Err(CopyError::Stale(peer.address)));
    assert!(matches!(fixture.me.copy_to(Address(4_000), 0, &[1]), Err(CopyError::OutOfRange(_))));
    let gone = fixture.thread(31, Vec::new(), |_, _| ());
    let dead = gone.address;
    gone.join();
    fixture.until_free(31);
    assert_eq!(fixture.me.copy_to(dead, 0, &[1]), Err(CopyError::DestinationDied(dead)));
    assert_eq!(fixture.me.copy_from(dead, 0, &mut [1]), Err(CopyError::SourceDied(dead)));
    // Nothing is nothing.
    fixture.me.copy_to(peer.address, 0, &[]).unwrap();
    fixture.end(peer);
}

#[test]
fn missing_memory_is_reported_with_the_bytes_copied() {
    let mut fixture = Fixture::new(false);
    let peer = fixture.peer(30, pattern(1, 64));
    fixture.until_blocked(&peer, "receive");
    for address in [0, 8, 4096, u64::MAX - 100, 1 << 46] {
        let refused = fixture.me.copy_to(peer.address, address, &[1; 64]);
        assert_eq!(refused, Err(CopyError::BadAddress(peer.address)), "{address:x}");
        assert_eq!(fixture.me.copied(), 0);
    }
    fixture.me.copy_to(peer.address, peer.at, &[9; 64]).unwrap();
    assert_eq!(fixture.end(peer), [9; 64]);
}

#[test]
fn grants_allow_what_they_say_and_no_more() {
    let mut fixture = Fixture::new(true);
    let (tell, told) = std::sync::mpsc::channel();
    let peer = fixture.thread(30, Vec::new(), move |endpoint, _| {
        let read =
            endpoint.grant(Audience::Only(Address(1)), pattern(1, 1_000), Rights::Read).unwrap();
        let write = endpoint.grant(Audience::Vm, vec![0; 1_000], Rights::Write).unwrap();
        let other =
            endpoint.grant(Audience::Only(Address(2)), vec![0; 1_000], Rights::Both).unwrap();
        tell.send((read, write, other)).unwrap();
        endpoint.receive(Address(1)).unwrap();
        assert_eq!(endpoint.granted(write).unwrap()[5..8], [1, 2, 3]);
        assert_eq!(endpoint.revoke(read).unwrap().unwrap(), pattern(1, 1_000));
        assert!(endpoint.revoke(read).is_err());
        let again = endpoint.grant(Audience::Vm, vec![0; 10], Rights::Both).unwrap();
        tell.send((again, write, other)).unwrap();
        endpoint.receive(Address(1)).unwrap();
    });
    let (read, write, other) = told.recv().unwrap();
    fixture.until_blocked(&peer, "receive");
    let (to, mut got) = (peer.address, [0; 100]);
    fixture.me.copy_from(to, Location::Granted(read, 900), &mut got).unwrap();
    assert_eq!(got, pattern(1, 1_000)[900..]);
    fixture.me.copy_to(to, Location::Granted(write, 5), &[1, 2, 3]).unwrap();
    assert_eq!(
        fixture.me.copy_from(to, Location::Granted(read, 901), &mut got),
        Err(CopyError::OutOfRange(to))
    );
    assert_eq!(
        fixture.me.copy_to(to, Location::Granted(read, 0), &got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(
        fixture.me.copy_from(to, Location::Granted(write, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(
        fixture.me.copy_from(to, Location::Granted(other, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(fixture.me.copy_from(to, peer.at, &mut got), Err(CopyError::NotGranted(to)));
    fixture.me.send(to, &Message::new(0)).unwrap();
    let (again, ..) = told.recv().unwrap();
    fixture.until_blocked(&peer, "receive");
    assert_eq!(
        fixture.me.copy_from(to, Location::Granted(read, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    fixture.me.copy_from(to, Location::Granted(again, 0), &mut got[..10]).unwrap();
    fixture.end(peer);
}

#[test]
fn a_lease_ends_with_its_call() {
    let mut fixture = Fixture::new(true);
    let peer = fixture.thread(30, pattern(1, 500), |endpoint, memory| {
        let loans = [m3ipc::Lease::read(memory)];
        endpoint.sendrec_leased(Address(1), &Message::new(0), &loans, Timeout::Never).unwrap();
        endpoint.receive(Address(1)).unwrap();
    });
    let request = fixture.me.receive(peer.address).unwrap();
    let mut got = [0; 500];
    fixture.me.copy_from(peer.address, peer.at, &mut got).unwrap();
    assert_eq!(got[..], pattern(1, 500));
    assert_eq!(
        fixture.me.copy_to(peer.address, peer.at, &got),
        Err(CopyError::NotGranted(peer.address)),
        "lent to be read"
    );
    fixture.me.reply(request.source, &Message::new(0)).unwrap();
    fixture.until_blocked(&peer, "receive");
    assert_eq!(
        fixture.me.copy_from(peer.address, peer.at, &mut got),
        Err(CopyError::NotGranted(peer.address))
    );
    fixture.end(peer);
}
