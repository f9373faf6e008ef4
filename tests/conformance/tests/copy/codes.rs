//! What a copy that cannot be made tells.

use crate::world::{World, pattern};
use m3ipc::{ANY, Address, Audience, CopyError, Location, Message, NONE, Rights, SELF, Timeout};

#[test]
fn a_party_that_runs_is_not_copied() {
    for granted in [false, true] {
        let mut world = World::new(granted);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let party = world.thread(30, vec![0; 64], move |endpoint, _| {
            gone.recv().unwrap();
            endpoint.receive(Address(1)).unwrap();
        });
        let refused = world.me.copy_to(party.address, party.at, &[1; 8]);
        assert_eq!(refused, Err(CopyError::NotBlocked(party.address)));
        assert_eq!(world.me.copied(), 0);
        go.send(()).unwrap();
        world.until_blocked(&party, "receive");
        let copied = world.me.copy_to(party.address, party.at, &[1; 8]);
        assert_eq!(copied.is_ok(), !granted, "{copied:?}");
        assert_eq!(world.end(party)[..8], [u8::from(!granted); 8]);
    }
}

#[test]
fn a_party_that_has_gone_on_is_not_copied_again() {
    let mut world = World::new(false);
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let party = world.thread(30, vec![0; 64], move |endpoint, _| {
        endpoint.receive(Address(1)).unwrap();
        gone.recv().unwrap();
        // In a send it lies still for nobody.
        endpoint.send(Address(1), &Message::new(1)).unwrap();
    });
    world.until_blocked(&party, "receive");
    world.me.copy_to(party.address, party.at, &[1; 8]).unwrap();
    let refused = Err(CopyError::NotBlocked(party.address));
    world.me.send(party.address, &Message::new(0)).unwrap();
    while world.me.copy_to(party.address, party.at, &[2; 8]).is_ok() {}
    assert_eq!(world.me.copy_to(party.address, party.at, &[2; 8]), refused);
    go.send(()).unwrap();
    world.until_blocked(&party, "send");
    assert_eq!(world.me.copy_to(party.address, party.at, &[2; 8]), refused);
    world.me.receive(party.address).unwrap();
    party.join();
}

#[test]
fn addresses_that_are_no_parties_are_told() {
    let mut world = World::new(false);
    let party = world.party(30, vec![7; 64]);
    world.until_blocked(&party, "receive");
    let me = world.me.address();
    for wrong in [ANY, NONE, SELF, me] {
        assert_eq!(world.me.copy_to(wrong, 0, &[1]), Err(CopyError::Stale(wrong)));
    }
    let side = (party.address, Location::At(party.at));
    let same = world.me.copy_between(side, side, 8, Timeout::Never);
    assert_eq!(same, Err(CopyError::Stale(party.address)));
    assert!(matches!(world.me.copy_to(Address(4_000), 0, &[1]), Err(CopyError::OutOfRange(_))));
    let gone = world.thread(31, Vec::new(), |_, _| ());
    let dead = gone.address;
    gone.join();
    world.until_free(31);
    assert_eq!(world.me.copy_to(dead, 0, &[1]), Err(CopyError::DestinationDied(dead)));
    assert_eq!(world.me.copy_from(dead, 0, &mut [1]), Err(CopyError::SourceDied(dead)));
    // Nothing is nothing.
    world.me.copy_to(party.address, 0, &[]).unwrap();
    world.end(party);
}

#[test]
fn memory_that_is_not_there_is_told_with_what_was_copied() {
    let mut world = World::new(false);
    let party = world.party(30, pattern(1, 64));
    world.until_blocked(&party, "receive");
    for address in [0, 8, 4096, u64::MAX - 100, 1 << 46] {
        let refused = world.me.copy_to(party.address, address, &[1; 64]);
        assert_eq!(refused, Err(CopyError::BadAddress(party.address)), "{address:x}");
        assert_eq!(world.me.copied(), 0);
    }
    world.me.copy_to(party.address, party.at, &[9; 64]).unwrap();
    assert_eq!(world.end(party), [9; 64]);
}

#[test]
fn grants_allow_what_they_say_and_no_more() {
    let mut world = World::new(true);
    let (tell, told) = std::sync::mpsc::channel();
    let party = world.thread(30, Vec::new(), move |endpoint, _| {
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
    world.until_blocked(&party, "receive");
    let (to, mut got) = (party.address, [0; 100]);
    world.me.copy_from(to, Location::Granted(read, 900), &mut got).unwrap();
    assert_eq!(got, pattern(1, 1_000)[900..]);
    world.me.copy_to(to, Location::Granted(write, 5), &[1, 2, 3]).unwrap();
    assert_eq!(
        world.me.copy_from(to, Location::Granted(read, 901), &mut got),
        Err(CopyError::OutOfRange(to))
    );
    assert_eq!(
        world.me.copy_to(to, Location::Granted(read, 0), &got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(
        world.me.copy_from(to, Location::Granted(write, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(
        world.me.copy_from(to, Location::Granted(other, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    assert_eq!(world.me.copy_from(to, party.at, &mut got), Err(CopyError::NotGranted(to)));
    world.me.send(to, &Message::new(0)).unwrap();
    let (again, ..) = told.recv().unwrap();
    world.until_blocked(&party, "receive");
    assert_eq!(
        world.me.copy_from(to, Location::Granted(read, 0), &mut got),
        Err(CopyError::NotGranted(to))
    );
    world.me.copy_from(to, Location::Granted(again, 0), &mut got[..10]).unwrap();
    world.end(party);
}

#[test]
fn a_lease_ends_with_its_call() {
    let mut world = World::new(true);
    let party = world.thread(30, pattern(1, 500), |endpoint, memory| {
        let loans = [m3ipc::Lease::read(memory)];
        endpoint.sendrec_leased(Address(1), &Message::new(0), &loans, Timeout::Never).unwrap();
        endpoint.receive(Address(1)).unwrap();
    });
    let request = world.me.receive(party.address).unwrap();
    let mut got = [0; 500];
    world.me.copy_from(party.address, party.at, &mut got).unwrap();
    assert_eq!(got[..], pattern(1, 500));
    assert_eq!(
        world.me.copy_to(party.address, party.at, &got),
        Err(CopyError::NotGranted(party.address)),
        "lent to be read"
    );
    world.me.reply(request.source, &Message::new(0)).unwrap();
    world.until_blocked(&party, "receive");
    assert_eq!(
        world.me.copy_from(party.address, party.at, &mut got),
        Err(CopyError::NotGranted(party.address))
    );
    world.end(party);
}
