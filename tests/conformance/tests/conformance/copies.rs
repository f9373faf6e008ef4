//! vcopy, leases, grants.

use crate::fixture::{Fixture, SHORT};
use crate::rows;
use m3ipc::{
    ANY, Address, Audience, Code, CopyError, CopySource, Endpoint, Grant, Lease, Location, Message,
    NONE, Rights, SELF, Source, Timeout, VmConfig,
};
use m3ipc_test_fixture::signals;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// The address of a peer and the address of its memory.
type Place = (Address, u64);

/// A thread with its own memory, which works on it and returns it.
fn peer(
    fixture: &Fixture,
    slot: i32,
    mut memory: Vec<u8>,
    work: impl FnOnce(&mut Endpoint, &mut Vec<u8>) + Send + 'static,
) -> (Place, JoinHandle<Vec<u8>>) {
    let (tell, told) = mpsc::channel();
    let thread = fixture.thread(slot, move |peer| {
        tell.send((peer.address(), memory.as_mut_ptr().expose_provenance() as u64)).unwrap();
        work(peer, &mut memory);
        memory
    });
    (told.recv().unwrap(), thread)
}

fn receiver(fixture: &mut Fixture, slot: i32, memory: Vec<u8>) -> (Place, JoinHandle<Vec<u8>>) {
    let made = peer(fixture, slot, memory, |peer, _| {
        peer.receive(Address(1)).unwrap();
    });
    fixture.until_blocked(slot, "receive");
    made
}

fn go_on(fixture: &mut Fixture, (place, thread): (Place, JoinHandle<Vec<u8>>)) -> Vec<u8> {
    fixture.me.send(place.0, &Message::new(0)).unwrap();
    thread.join().unwrap()
}

fn put(fixture: &mut Fixture, (to, at): Place, bytes: &[u8]) -> i32 {
    fixture.me.copy_to(to, at, bytes).map_or_else(|error| error.code().number(), |()| 0)
}

/// Copies again while the peer runs for a moment, or is in a copy with another.
fn patient(mut copy: impl FnMut() -> Result<(), CopyError>) {
    loop {
        match copy() {
            Ok(()) => return,
            Err(error) => assert!([-324, -16].contains(&error.code().number()), "{error}"),
        }
        std::thread::yield_now();
    }
}

/// A VM in which only leased and granted memory is copied, in place of the VM of the fixture.
fn granted(fixture: &mut Fixture) {
    let config = VmConfig::new("granted").copy_granted(true).grace_ms(200);
    let vm = fixture.node.vm_init(&config).unwrap();
    fixture.node.unbind(fixture.vm.id(), fixture.me.address()).unwrap();
    fixture.me = vm.bind(1).unwrap();
    fixture.vm = vm;
}

rows! {
    fn a_peer_is_copied_in_receive_rcvrqst_and_sendrec() {
        let mut fixture = Fixture::new();
        let receives = receiver(&mut fixture, 30, vec![0; 8]);
        assert_eq!(put(&mut fixture, receives.0, &[1; 8]), 0);
        assert_eq!(go_on(&mut fixture, receives), [1; 8]);
        let (place, asks) = peer(&fixture, 31, vec![0; 8], |peer, _| {
            peer.sendrec(Address(1), &Message::new(1)).unwrap();
        });
        fixture.me.receive(Source::Any).unwrap();
        assert_eq!(put(&mut fixture, place, &[2; 8]), 0);
        fixture.me.reply(place.0, &Message::new(0)).unwrap();
        assert_eq!(asks.join().unwrap(), [2; 8]);
        let (place, serves) = peer(&fixture, 32, vec![0; 8], |peer, _| {
            let request = peer.rcvrqst(&mut [], Timeout::Never).unwrap();
            peer.reply(request.message.source, &Message::new(0)).unwrap();
        });
        fixture.until_blocked(32, "rcvrqst");
        assert_eq!(put(&mut fixture, place, &[3; 8]), 0);
        fixture.me.sendrec(place.0, &Message::new(0)).unwrap();
        assert_eq!(serves.join().unwrap(), [3; 8]);
    }

    fn a_peer_that_runs_or_sends_or_waits_for_a_name_is_324() {
        let mut fixture = Fixture::new();
        let (go, gone) = mpsc::channel::<()>();
        let (place, thread) = peer(&fixture, 30, vec![0; 8], move |peer, _| {
            gone.recv().unwrap();
            peer.send(Address(1), &Message::new(1)).unwrap();
            peer.wait_name("nobody yet", Timeout::Never).unwrap();
        });
        let running = Code::ProcSts.number();
        assert_eq!(put(&mut fixture, place, &[1; 8]), running);
        go.send(()).unwrap();
        fixture.until_blocked(30, "send");
        assert_eq!(put(&mut fixture, place, &[1; 8]), running);
        fixture.me.receive(place.0).unwrap();
        fixture.until_blocked(30, "wait4");
        assert_eq!(put(&mut fixture, place, &[1; 8]), running);
        assert_eq!(fixture.me.copied(), 0);
        fixture.me.name_attach("nobody yet").unwrap();
        assert_eq!(thread.join().unwrap(), [0; 8]);
    }

    fn a_peer_that_has_got_what_it_waited_for_is_324() {
        let mut fixture = Fixture::new();
        let (go, gone) = mpsc::channel::<()>();
        let (place, thread) = peer(&fixture, 30, vec![0; 8], move |peer, memory| {
            peer.receive(Address(1)).unwrap();
            gone.recv().unwrap();
            memory[0] = 9;
        });
        fixture.until_blocked(30, "receive");
        assert_eq!(put(&mut fixture, place, &[1; 8]), 0);
        fixture.me.send(place.0, &Message::new(0)).unwrap();
        while put(&mut fixture, place, &[1; 8]) == 0 {}
        assert_eq!(put(&mut fixture, place, &[2; 8]), Code::ProcSts.number());
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), [9, 1, 1, 1, 1, 1, 1, 1]);
    }

    fn the_requester_is_source_destination_or_neither() {
        let mut fixture = Fixture::new();
        let one = receiver(&mut fixture, 30, vec![1; 64]);
        let two = receiver(&mut fixture, 31, vec![2; 64]);
        let mut got = [0; 64];
        fixture.me.copy_from(one.0.0, one.0.1, &mut got).unwrap();
        assert_eq!((got, fixture.me.copied()), ([1; 64], 64));
        assert_eq!(put(&mut fixture, one.0, &[3; 32]), 0);
        let (from, to) = ((one.0.0, Location::At(one.0.1)), (two.0.0, Location::At(two.0.1)));
        fixture.me.copy_between(from, to, 33, Timeout::Never).unwrap();
        assert_eq!(fixture.me.copied(), 33);
        go_on(&mut fixture, one);
        let there = go_on(&mut fixture, two);
        assert_eq!((&there[..32], there[32], &there[33..]), (&[3; 32][..], 1, &[2; 31][..]));
    }

    fn a_copy_of_no_bytes_is_0_also_to_a_peer_that_does_not_wait() {
        let mut fixture = Fixture::new();
        let (_idle, address) = fixture.bound(30, &[]);
        assert_eq!(put(&mut fixture, (address, 0), &[]), 0);
    }

    fn the_same_endpoint_twice_any_none_and_another_generation_are_306() {
        let mut fixture = Fixture::new();
        let there = receiver(&mut fixture, 30, vec![0; 8]);
        let me = fixture.me.address();
        let stale = Address::new(there.0.0.generation() + 1, 30);
        for wrong in [ANY, NONE, SELF, me, stale] {
            assert_eq!(put(&mut fixture, (wrong, 0), &[1]), Code::Endpoint.number(), "{wrong}");
            let sides = [(there.0.0, Location::At(there.0.1)), (wrong, Location::At(0))];
            for [from, to] in [[0, 1], [1, 0]] {
                let copied = fixture.me.copy_between(sides[from], sides[to], 8, Timeout::Never);
                assert_eq!(copied.unwrap_err().code(), Code::Endpoint, "{wrong}");
            }
        }
        let side = (there.0.0, Location::At(there.0.1));
        assert_eq!(
            fixture.me.copy_between(side, side, 8, Timeout::Never).unwrap_err().code(),
            Code::Endpoint
        );
        assert_eq!(go_on(&mut fixture, there), [0; 8]);
    }

    fn a_slot_that_the_vm_has_not_is_34() {
        let mut fixture = Fixture::new();
        assert_eq!(put(&mut fixture, (Address(64), 0), &[1]), Code::Range.number());
    }

    fn a_source_that_died_is_108_and_a_destination_109() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(31);
        let there = receiver(&mut fixture, 30, vec![0; 8]);
        assert_eq!(fixture.me.copy_from(dead, 0, &mut [0]).unwrap_err().code(), Code::SrcDied);
        assert_eq!(put(&mut fixture, (dead, 0), &[1]), Code::DstDied.number());
        let (lives, dead) = ((there.0.0, Location::At(there.0.1)), (dead, Location::At(0)));
        let mut code =
            |from, to| fixture.me.copy_between(from, to, 8, Timeout::Never).unwrap_err().code();
        assert_eq!((code(dead, lives), code(lives, dead)), (Code::SrcDied, Code::DstDied));
        go_on(&mut fixture, there);
    }

    fn missing_memory_is_71_with_the_bytes_copied() {
        let mut fixture = Fixture::new();
        let there = receiver(&mut fixture, 30, vec![0; 8]);
        for at in [0, 4096, u64::MAX - 3] {
            assert_eq!(put(&mut fixture, (there.0.0, at), &[1; 8]), Code::AddrNotAvail.number());
            assert_eq!(fixture.me.copied(), 0);
        }
        assert_eq!(put(&mut fixture, there.0, &[1; 8]), 0);
        assert_eq!(fixture.me.copied(), 8);
        go_on(&mut fixture, there);
    }

    fn an_unbound_requester_is_310() {
        let mut fixture = Fixture::new();
        let (_peer, address) = fixture.bound(30, &[]);
        fixture.node.unbind(fixture.vm.id(), fixture.me.address()).unwrap();
        while fixture.me.is_bound() {}
        assert_eq!(put(&mut fixture, (address, 0), &[1]), Code::NotBind.number());
    }

    fn the_limit_of_a_copy_is_61() {
        let mut fixture = Fixture::new();
        let (peer, address) = fixture.bound(30, &["receive:1"]);
        fixture.until_blocked(30, "receive");
        signals::stop(peer.pid());
        let copied =
            fixture.me.copy_source_to(address, Location::At(8), &CopySource::from(&[1][..]), SHORT);
        assert_eq!(copied.unwrap_err().code(), Code::TimedOut);
        signals::resume(peer.pid());
    }

    fn what_is_neither_lent_nor_granted_is_1_in_a_vm_that_says_so() {
        let mut fixture = Fixture::new();
        granted(&mut fixture);
        let there = receiver(&mut fixture, 30, vec![0; 8]);
        assert_eq!(put(&mut fixture, there.0, &[1; 8]), Code::Perm.number());
        let mut got = [7; 8];
        assert_eq!(
            fixture.me.copy_from(there.0.0, there.0.1, &mut got).unwrap_err().code(),
            Code::Perm
        );
        assert_eq!((got, go_on(&mut fixture, there)), ([7; 8], vec![0; 8]));
    }

    fn a_lease_is_for_the_server_that_answers_also_after_a_relay() {
        let mut fixture = Fixture::new();
        granted(&mut fixture);
        let (client, asks) = peer(&fixture, 30, vec![5; 8], |peer, memory| {
            let loan = [Lease::both(memory)];
            peer.sendrec_leased(Address(1), &Message::new(1), &loan, Timeout::Never).unwrap();
            // Until its input or its fixture ends.
            let _ = peer.receive(Address(1));
        });
        fixture.me.receive(Source::Any).unwrap();
        fixture.until_blocked(30, "sendrec (taken)");
        let (go, gone) = mpsc::channel::<()>();
        let server = fixture.thread(31, move |peer| {
            let early = peer.copy_from(client.0, client.1, &mut [0; 8]).unwrap_err().code();
            peer.send(Address(1), &Message::new(0)).unwrap();
            let request = peer.receive(Source::Any).unwrap();
            let mut got = [0; 8];
            patient(|| peer.copy_from(request.source, client.1, &mut got));
            got.iter_mut().for_each(|byte| *byte += 1);
            patient(|| peer.copy_to(request.source, client.1, &got));
            gone.recv().unwrap();
            peer.reply(request.source, &Message::new(0)).unwrap();
            early
        });
        // The other process has tried before it says so: two copies at once would be refused.
        let other = fixture.me.receive(Source::Any).unwrap().source;
        assert_eq!(put(&mut fixture, client, &[6; 8]), 0, "it is who answers");
        fixture.me.relay(client.0, other).unwrap();
        // The client learns of it later. It lends to this endpoint until then, and for a moment to
        // none.
        while put(&mut fixture, client, &[6; 8]) != Code::Perm.number() {}
        go.send(()).unwrap();
        assert_eq!(server.join().unwrap(), Code::Perm, "nor was the other one before");
        fixture.until_blocked(30, "receive");
        assert_eq!(
            put(&mut fixture, client, &[8; 8]),
            Code::Perm.number(),
            "the loan ended with its call"
        );
        fixture.me.send(client.0, &Message::new(0)).unwrap();
        assert_eq!(asks.join().unwrap(), [7; 8]);
    }

    fn a_grant_ends_when_it_is_revoked_and_its_name_is_not_used_again() {
        let mut fixture = Fixture::new();
        granted(&mut fixture);
        let (tell, told) = mpsc::channel();
        let (place, thread) = peer(&fixture, 30, Vec::new(), move |peer, memory| {
            let mut was = None;
            for round in 0..3 {
                let grant =
                    peer.grant(Audience::Only(Address(1)), vec![round; 8], Rights::Read).unwrap();
                tell.send((grant, was)).unwrap();
                peer.receive(Address(1)).unwrap();
                *memory = peer.revoke(grant).unwrap().unwrap();
                assert_eq!(peer.revoke(grant).unwrap_err().code(), Code::BadValue);
                was = Some(grant);
            }
        });
        for round in 0..3 {
            let (grant, was): (Grant, Option<Grant>) = told.recv().unwrap();
            fixture.until_blocked(30, "receive");
            let mut got = [9; 8];
            let mut code = |grant, offset| {
                let copied =
                    fixture.me.copy_from(place.0, Location::Granted(grant, offset), &mut got);
                copied.map_or_else(|error| error.code().number(), |()| 0)
            };
            assert_eq!((code(grant, 0), code(grant, 1)), (0, Code::Range.number()));
            assert_eq!(was.map_or(-1, |was| code(was, 0)), Code::Perm.number(), "round {round}");
            assert_eq!(got, [round; 8]);
            let put = fixture.me.copy_to(place.0, Location::Granted(grant, 0), &got);
            assert_eq!(put.unwrap_err().code(), Code::Perm, "to be read only");
            fixture.me.send(place.0, &Message::new(0)).unwrap();
        }
        assert_eq!(thread.join().unwrap(), [2; 8]);
    }
}
